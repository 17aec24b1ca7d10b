"""Apache Kafka itself, to compare kbroker with: its jars, a running node or several, its tools, its message schemas.

As a command:

    python -m tools.reference_kafka start --dir D [--port P] [--nodes N] [--override key=value]...
    python -m tools.reference_kafka stop --dir D [--kill]
    python -m tools.reference_kafka tool NAME [arguments...]     one of Kafka's tools (see ``tools``) or a Java class
    python -m tools.reference_kafka tools | jars | classpath
    python -m tools.reference_kafka schemas DESTINATION          the *.json message definitions out of the jars

As a library: ``with ReferenceKafka() as kafka: kafka.bootstrap``.

The jars come with Maven the first time (about a minute) and stay in ``$XDG_CACHE_HOME/kbroker-reference``. Needs Java
17 or later, and mvn for the first time. The heap is 512 MiB unless ``KAFKA_HEAP_OPTS`` says otherwise.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

VERSION = "4.4.0"
OLDEST_JAVA = 17
START_TIMEOUT_S = 240
STOP_TIMEOUT_S = 120
TRIES = 3
TOOLS = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "client-compatibility-test": "org.apache.kafka.tools.ClientCompatibilityTest",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "org.apache.kafka.tools.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "storage": "kafka.tools.StorageTool",
    "streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactional-message-copier": "org.apache.kafka.tools.TransactionalMessageCopier",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-share-consumer": "org.apache.kafka.tools.VerifiableShareConsumer",
}
ARTIFACTS = (
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.kafka", "kafka-streams", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.5"),
)
SCHEMA_JARS = re.compile(
    r"kafka-(clients|group-coordinator|metadata|raft|server|server-common|share-coordinator|storage|transaction-coordinator)-[\d.]+\.jar"
)
SCHEMA = re.compile(r"(common/)?(message|metadata)/\w+\.json")
# What Apache's own start script gives a broker; a tool lives for a second and wants to be up soon instead.
SERVER_JVM = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
TOOL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = """<Configuration status="ERROR"><Appenders><Console name="out" target="{target}">
<PatternLayout pattern="[%d] %p %m (%c)%n"/></Console></Appenders>
<Loggers><Root level="{level}"><AppenderRef ref="out"/></Root></Loggers></Configuration>
"""
LOGGING_1 = """log4j.rootLogger={level}, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.Target={target}
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class ReferenceUnavailableError(Exception):
    """The reference cannot run here; the message says what is missing."""


class ReferenceFailedError(Exception):
    """The reference did not do what it was told; the message carries its output."""


def missing_toolchain() -> str | None:
    """What this machine lacks to run the reference, in words; None when nothing."""
    if shutil.which("java") is None:
        return f"Java {OLDEST_JAVA} or later (no `java` on the PATH)"
    version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', version)
    if found is None or int(found[1]) < OLDEST_JAVA:
        return f"Java {OLDEST_JAVA} or later (`java -version` says {version.splitlines()[:1]})"
    if not _complete(VERSION).exists() and shutil.which("mvn") is None:
        return "Maven, to bring Apache Kafka's jars (no `mvn` on the PATH)"
    return None


def cache(version: str = VERSION) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "kbroker-reference" / version


def _complete(version: str) -> Path:
    return cache(version) / "complete"


def jars(version: str = VERSION) -> Path:
    """The folder with Apache Kafka's jars, brought with Maven when it is not there yet."""
    home = cache(version)
    libs = home / "libs"
    if _complete(version).exists():
        return libs
    lacking = missing_toolchain()
    if lacking:
        raise ReferenceUnavailableError(f"the reference Kafka needs {lacking}")
    home.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version if own == VERSION else own}</version></dependency>"
        for group, artifact, own in ARTIFACTS
        if own == VERSION or not _has_log4j_1(version)
    )
    (home / "pom.xml").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>kbroker-reference</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
    if all(subprocess.run(command, cwd=home, stdout=sys.stderr, check=False).returncode for _ in range(TRIES)):
        raise ReferenceUnavailableError(f"mvn could not bring Apache Kafka {version}; its output is above")
    (home / "server.xml").write_text(LOGGING.format(level="INFO", target="SYSTEM_OUT"))
    (home / "tool.xml").write_text(LOGGING.format(level="WARN", target="SYSTEM_ERR"))
    (home / "server.properties").write_text(LOGGING_1.format(level="INFO", target="System.out"))
    (home / "tool.properties").write_text(LOGGING_1.format(level="WARN", target="System.err"))
    _complete(version).touch()
    return libs


def _has_log4j_1(version: str) -> bool:
    """Before Kafka 4."""
    return int(version.split(".", maxsplit=1)[0]) < 4


def classpath(version: str = VERSION) -> str:
    """For Java programs that use Apache Kafka's classes."""
    return f"{jars(version)}/*"


def java(*arguments: str, role: str = "tool", version: str = VERSION) -> list[str]:
    """The command line of a JVM with Apache Kafka's class path; ``arguments`` begin with a class or a source file."""
    heap = os.environ.get("KAFKA_HEAP_OPTS", "-Xmx512M").split()
    tuning = SERVER_JVM if role == "server" else TOOL_JVM
    path = classpath(version)
    logging = f"-Dlog4j2.configurationFile={cache(version)}/{role}.xml"
    if _has_log4j_1(version):
        logging = f"-Dlog4j.configuration=file:{cache(version)}/{role}.properties"
    return ["java", *heap, *tuning, "-Djava.awt.headless=true", logging, "-cp", path, *arguments]


def tool(name: str, *arguments: str, stdin: str | None = None, version: str = VERSION) -> str:
    """Run one of Kafka's tools (or a Java class, or a ``.java`` file) and return its output. Raises on failure."""
    command = java(TOOLS.get(name, name), *arguments, version=version)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReferenceFailedError(f"{name} ended with status {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def schemas(destination: str | Path, version: str = VERSION) -> list[Path]:
    """Unpack Apache's message definitions (``*.json``) into ``destination``, one folder a jar; returns the files."""
    written = []
    for jar in sorted(jars(version).iterdir()):
        if not SCHEMA_JARS.fullmatch(jar.name):
            continue
        folder = Path(destination) / jar.name.removesuffix(f"-{version}.jar")
        with zipfile.ZipFile(jar) as archive:
            for name in sorted(archive.namelist()):
                if SCHEMA.fullmatch(name):
                    folder.mkdir(parents=True, exist_ok=True)
                    target = folder / Path(name).name
                    target.write_bytes(archive.read(name))
                    written.append(target)
    return written


class ReferenceKafka:
    """One or several nodes of Apache Kafka (broker and controller in one), their data under ``directory``.

    A directory that was used before keeps its ports, its cluster id and its data. Without a directory a temporary one
    is made, and removed when the context ends.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        overrides: Mapping[str, str] | None = None,
        port: int = 0,
        nodes: int = 1,
        version: str = VERSION,
        formatting: Sequence[str] = (),
    ) -> None:
        """``formatting``: more arguments of ``storage format``; ``--standalone`` for a dynamic quorum of one node."""
        self._temporary = directory is None
        self.formatting = formatting
        self.directory = Path(directory or tempfile.mkdtemp(prefix="reference-kafka-")).resolve()
        self.overrides = dict(overrides or {})
        self.version = version
        self.directory.mkdir(parents=True, exist_ok=True)
        self._state_file = self.directory / "nodes.json"
        state = json.loads(self._state_file.read_text()) if self._state_file.exists() else {}
        ports = free_ports(2 * nodes)
        own_ports = [port + i for i in range(nodes)] if port else ports[:nodes]
        new_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.brokers: list[int] = state.get("brokers", own_ports)
        self.controllers: list[int] = state.get("controllers", ports[nodes:])
        self.cluster_id: str = state.get("cluster_id", new_id)
        self.pids: list[int] = state.get("pids", [])
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.brokers)

    @property
    def pid(self) -> int:
        """The first node's process."""
        return self.pids[0]

    def data_dir(self, node: int = 1) -> Path:
        return self.directory / str(node) / "data"

    def log_file(self, node: int = 1) -> Path:
        return self.directory / str(node) / "server.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(kill=True)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Format what is new, start every node, return when all of them answer."""
        if any(self._is_running(pid) for pid in self.pids):
            raise ReferenceFailedError(f"nodes of {self.directory} run already")
        self.pids = []
        for node in range(1, len(self.brokers) + 1):
            properties = self._configure(node)
            if not (self.data_dir(node) / "meta.properties").exists():
                arguments = ("format", f"--cluster-id={self.cluster_id}", "-c", str(properties), "--ignore-formatted")
                tool("storage", *arguments, *self.formatting, version=self.version)
            command = java("kafka.Kafka", str(properties), role="server", version=self.version)
            with self.log_file(node).open("ab") as log:
                process = subprocess.Popen(
                    command,
                    stdout=log,
                    stderr=log,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                    cwd=properties.parent,
                )
            self._processes[process.pid] = process
            self.pids.append(process.pid)
            self._save()
        deadline = time.monotonic() + START_TIMEOUT_S
        for node, (pid, port) in enumerate(zip(self.pids, self.brokers, strict=True), start=1):
            while not _answers(port):
                if time.monotonic() > deadline or self._processes[pid].poll() is not None:
                    tail = self.log_file(node).read_text(errors="replace")[-3000:]
                    self.stop(kill=True)
                    raise ReferenceFailedError(f"node {node} did not start; the end of its log:\n{tail}")
                time.sleep(0.05)

    def stop(self, *, kill: bool = False) -> None:
        """End every node: SIGTERM (a clean shutdown) or, with ``kill``, SIGKILL."""
        for pid in self.pids:
            if self._is_running(pid):
                os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while any(self._is_running(pid) for pid in self.pids):
            if time.monotonic() > deadline:
                raise ReferenceFailedError(f"nodes of {self.directory} do not end: {self.pids}")
            time.sleep(0.05)
        self.pids = []
        self._processes.clear()
        self._save()

    def tool(self, name: str, *arguments: str, stdin: str | None = None) -> str:
        """Run one of Kafka's tools with ``--bootstrap-server`` of this cluster."""
        return tool(name, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin, version=self.version)

    def _configure(self, node: int) -> Path:
        folder = self.directory / str(node)
        folder.mkdir(exist_ok=True)
        broker, controller = self.brokers[node - 1], self.controllers[node - 1]
        copies = str(min(3, len(self.brokers)))
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node),
            **self._voters(controller),
            "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://localhost:{broker}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.data_dir(node)),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": copies,
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.overrides,
        }
        properties = folder / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return properties

    def _voters(self, controller: int) -> dict[str, str]:
        if "--standalone" in self.formatting:
            return {"controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}"}
        voters = (f"{voter}@127.0.0.1:{port}" for voter, port in enumerate(self.controllers, start=1))
        return {"controller.quorum.voters": ",".join(voters)}

    def _is_running(self, pid: int) -> bool:
        process = self._processes.get(pid)
        if process is not None:
            return process.poll() is None
        # Started by an earlier run of this command. Its pid may be somebody else's by now: look at its words.
        words = subprocess.run(
            ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
        ).stdout
        return "kafka.Kafka" in words and str(self.directory) in words

    def _save(self) -> None:
        state = {
            "cluster_id": self.cluster_id,
            "brokers": self.brokers,
            "controllers": self.controllers,
            "pids": self.pids,
        }
        self._state_file.write_text(json.dumps(state))


def free_ports(count: int) -> list[int]:
    """None that the system gives out by itself: nobody gets it before it is listened on, or between two lives."""
    held: list[socket.socket] = []
    while len(held) < count:
        with contextlib.suppress(OSError):
            held.append(socket.create_server(("127.0.0.1", random.randrange(10_000, 30_000))))
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def _answers(port: int) -> bool:
    """Whether the broker answers an ApiVersions request of version 0."""
    request = bytes.fromhex("0012 0000 00000007 0000")
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(len(request).to_bytes(4, "big") + request)
            return len(connection.recv(8)) == 8
    except OSError:
        return False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start")
    start.add_argument("--dir", required=True)
    start.add_argument("--port", type=int, default=0)
    start.add_argument("--nodes", type=int, default=1)
    start.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    stop = commands.add_parser("stop")
    stop.add_argument("--dir", required=True)
    stop.add_argument("--kill", action="store_true")
    runner = commands.add_parser("tool", add_help=False)
    runner.add_argument("name")
    runner.add_argument("arguments", nargs=argparse.REMAINDER)
    commands.add_parser("schemas").add_argument("destination")
    for name in ("tools", "jars", "classpath"):
        commands.add_parser(name)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    try:
        _run(options)
    except (ReferenceUnavailableError, ReferenceFailedError) as error:
        sys.exit(f"reference_kafka: {error}")


def _run(options: argparse.Namespace) -> None:
    match options.command:
        case "start":
            overrides = dict(each.partition("=")[::2] for each in options.override)
            kafka = ReferenceKafka(options.dir, overrides=overrides, port=options.port, nodes=options.nodes)
            kafka.start()
            print(kafka.bootstrap)
        case "stop":
            ReferenceKafka(options.dir).stop(kill=options.kill)
        case "tool":
            command = java(TOOLS.get(options.name, options.name), *options.arguments)
            sys.exit(subprocess.run(command, check=False).returncode)
        case "schemas":
            print(f"{len(schemas(options.destination))} files")
        case "tools":
            print("\n".join(f"{name:30} {java_class}" for name, java_class in TOOLS.items()))
        case "jars":
            print(jars())
        case _:
            print(classpath())


if __name__ == "__main__":
    main()
