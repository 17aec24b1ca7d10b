"""Clients that are no dependency of this project: each is brought from its package registry into a folder of its own.

They stay in ``$XDG_CACHE_HOME/kbroker-clients``, one folder a set of packages, so that only the first run brings them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.toolchains import require
from tools.reference_kafka import VERSION, classpath, jars, java

PROGRAMS = Path(__file__).with_name("programs")
INSTALL_TIMEOUT_S = 300
TRIES = 3
RUN_TIMEOUT_S = 300


class ClientFailedError(AssertionError):
    """A client's program, or bringing it, ended with an error; the message is its output."""


def python_client(*requirements: str) -> Path:
    """The interpreter of a virtual environment with these packages."""

    def make(folder: Path) -> None:
        run([sys.executable, "-m", "venv", str(folder)], timeout_s=INSTALL_TIMEOUT_S)
        command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements]
        run(command, timeout_s=INSTALL_TIMEOUT_S)

    return _kept("python", requirements, make) / "bin" / "python"


def python_sources(name: str, version: str) -> Path:
    """The folder of a package's source distribution, where its own tests lie. Not to be written to."""
    requirement = f"{name}=={version}"

    def make(folder: Path) -> None:
        folder.mkdir()
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name, requirement]
        run(command, cwd=folder, timeout_s=INSTALL_TIMEOUT_S)
        (archive,) = folder.iterdir()
        shutil.unpack_archive(archive, folder, filter="data")
        archive.unlink()

    (sources,) = _kept("sources", [requirement], make).iterdir()
    return sources


def node_client(*packages: str) -> Path:
    """A folder whose ``node_modules`` has these packages."""
    require("node", "npm")

    def make(folder: Path) -> None:
        folder.mkdir()
        (folder / "package.json").write_text('{"private": true}')
        # Optional packages are native and want a compiler.
        command = ["npm", "install", "--no-audit", "--no-fund", "--omit=optional", *packages]
        run(command, cwd=folder, timeout_s=INSTALL_TIMEOUT_S)

    return _kept("node", packages, make)


def go_client(program: str, *modules: str) -> Path:
    """The binary of a Go program in ``programs`` that uses these modules."""
    require("go")
    source = PROGRAMS / program / "main.go"

    def make(folder: Path) -> None:
        folder.mkdir()
        shutil.copy(source, folder)
        for command in (
            ["go", "mod", "init", "client"],
            ["go", "get", *modules],
            ["go", "mod", "tidy"],
            ["go", "build", "-o", "client", "."],
        ):
            run(command, cwd=folder, timeout_s=INSTALL_TIMEOUT_S)

    return _kept("go", [*modules, source.read_text()], make) / "client"


def java_classes(*sources: str) -> Path:
    """The folder with the classes of Java programs in ``programs``, which have Apache Kafka's class path."""
    require("java")
    files = [PROGRAMS / source for source in sources]

    def make(folder: Path) -> None:
        compiler = java("-m", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none")
        path = os.pathsep.join(map(str, sorted(jars().glob("*.jar"))))
        run([*compiler, "-cp", path, "-d", str(folder), *map(str, files)])

    return _kept("java", [VERSION, *(file.read_text() for file in files)], make)


def java_jar(coordinates: str) -> Path:
    """A jar from Maven's repositories by ``group:artifact:version``, without what it depends on."""
    require("mvn")

    def make(folder: Path) -> None:
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
        run(command, timeout_s=INSTALL_TIMEOUT_S)

    (jar,) = _kept("jar", [coordinates], make).iterdir()
    return jar


def java_program(name: str, *arguments: str) -> list[str]:
    """The command line of one of them."""
    path = os.pathsep.join((str(java_classes(f"{name}.java")), classpath()))
    return java("-cp", path, name, *arguments)


def run(
    command: Sequence[str], *, cwd: Path | None = None, timeout_s: int = RUN_TIMEOUT_S, node_path: Path | None = None
) -> str:
    """What a command prints. Raises ``ClientFailedError``."""
    environment = {**os.environ, "NODE_PATH": str(node_path)} if node_path is not None else None
    try:
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as late:
        raise ClientFailedError(f"{command} took more than {timeout_s} s:\n{late.stdout!r}\n{late.stderr!r}") from late
    if done.returncode:
        raise ClientFailedError(f"{command} ended with status {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _kept(kind: str, contents: Sequence[str], make: Callable[[Path], None]) -> Path:
    """The folder for these contents, made when it is not there; a half-made one of a run that broke is made again."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kbroker-clients"
    digest = hashlib.sha256("\0".join([sys.version, *contents]).encode()).hexdigest()[:16]
    folder = root / f"{kind}-{digest}"
    complete = root / f"{kind}-{digest}.complete"
    for tries_left in reversed(range(TRIES)):
        if complete.exists():
            break
        root.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            make(folder)
        except ClientFailedError:  # a registry has its moments
            if not tries_left:
                raise
            continue
        complete.touch()
    return folder
