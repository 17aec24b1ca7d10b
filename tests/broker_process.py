"""A kbroker in a process of its own, for tests that need real sockets, real files and a real ``kill -9``."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.patience import PATIENCE_S

READY = re.compile(r"kbroker ready: bootstrap\.servers=(\S+) node\.id=(\d+) cluster\.id=(\S+)")


class BrokerProcess:
    """``kbroker dev`` (or ``start``) as a child process; ended by pid, its log kept in ``<data_dir>.log``."""

    def __init__(
        self,
        data_dir: Path,
        *options: str,
        command: str = "dev",
        port: int = 0,
        more_dirs: Sequence[Path] = (),
        through: Sequence[str] = (),
    ) -> None:
        """``through``: a program, and its arguments, that becomes the broker."""
        self.data_dir = data_dir
        self.more_dirs = more_dirs
        self.options: Sequence[str] = options
        self.command = command
        self.through = through
        self.port = port
        self.bootstrap = ""
        self.cluster_id = ""
        self.log_path = data_dir.with_name(data_dir.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the broker process was not started")
        return self._process

    def start(self) -> BrokerProcess:
        """Start, or start again on the same port and data; returns when the ready line has come."""
        arguments = [*self.through, sys.executable, "-m", "kbroker", self.command]
        arguments += [
            "--data-dir",
            ",".join(map(str, (self.data_dir, *self.more_dirs))),
            "--port",
            str(self.port),
            *self.options,
        ]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                arguments, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
        self._await_ready()
        self.port = int(self.bootstrap.rsplit(":", 1)[1])
        return self

    def _await_ready(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        deadline = time.monotonic() + PATIENCE_S
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while (match := READY.search(said.decode(errors="replace"))) is None:
                ready = selector.select(timeout=max(0.0, deadline - time.monotonic()))
                chunk = os.read(stdout.fileno(), 65536) if ready else b""
                if not chunk:
                    self.kill()
                    raise RuntimeError(f"the broker did not start; it said {said!r} and logged:\n{self.log_text()}")
                said += chunk
        self.bootstrap, self.cluster_id = match.group(1), match.group(3)

    def kill(self) -> None:
        """``kill -9``: no goodbye, no flush."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM and wait; the exit status."""
        return self._end(signal.SIGTERM)

    def _end(self, signum: int) -> int:
        process = self.process
        if process.poll() is None:
            process.send_signal(signum)
        try:
            status = process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"the broker did not end on signal {signum}:\n{self.log_text()}") from None
        finally:
            if process.stdout is not None:
                process.stdout.close()
        return status

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.stop()
