"""What is piped into ``kbroker produce`` is a record as soon as its line is there, and Ctrl-C ends it at any time."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import pytest

from kbroker.cli.lines import READ_BYTES, arriving
from kbroker.testing import Broker

ROOT = Path(__file__).parents[3]


def test_lines_come_as_they_are_written_and_silence_is_told() -> None:
    async def main(file: BinaryIO, writing: int) -> None:
        found = arriving([file])
        assert await anext(found) == []
        os.write(writing, b"one\r\ntwo\nthr")
        assert await next_lines(found) == [b"one", b"two"]
        os.write(writing, b"ee\n\nlast")
        assert await next_lines(found) == [b"three", b""]
        os.close(writing)
        assert await next_lines(found) == [b"last"]
        assert [lines async for lines in found if lines] == []

    reading, writing = os.pipe()
    with open(reading, "rb") as file:
        asyncio.run(main(file, writing))


async def next_lines(found: AsyncIterator[list[bytes]]) -> list[bytes]:
    async for lines in found:
        if lines:
            return list(lines)
    raise EOFError


@pytest.mark.parametrize("file", [io.BytesIO(b"a" * 3 * READ_BYTES + b"\nb"), None], ids=["memory", "disk"])
def test_a_line_may_be_longer_than_what_is_read_at_once(file: BinaryIO | None, tmp_path: Path) -> None:
    async def main(file: BinaryIO) -> list[bytes]:
        return [line async for lines in arriving([file]) for line in lines]

    (tmp_path / "long").write_bytes(b"a" * 3 * READ_BYTES + b"\nb")
    with file or open(tmp_path / "long", "rb") as opened:
        assert asyncio.run(main(opened)) == [b"a" * 3 * READ_BYTES, b"b"]


def test_what_cannot_be_read_is_raised(tmp_path: Path) -> None:
    async def main(file: BinaryIO) -> None:
        async for _ in arriving([file]):
            pass

    descriptor = os.open(tmp_path / "only for writing", os.O_WRONLY | os.O_CREAT)
    with open(descriptor, "rb") as file, pytest.raises(OSError, match="Bad file descriptor"):
        asyncio.run(main(file))


@contextmanager
def producing(broker: Broker) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "kbroker", "produce", "orders", "-b", broker.bootstrap_servers]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_line_is_written_while_its_pipe_stays_open_and_ctrl_c_ends_the_silence() -> None:
    with Broker(topics=["orders"]) as broker, producing(broker) as process:
        assert process.stdin is not None
        for number in range(3):
            process.stdin.write(b"%d\n" % number)
            process.stdin.flush()
            broker.wait_for_records("orders", number + 1, timeout=60)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 1
        assert [record.text for record in broker.records("orders")] == ["0", "1", "2"]


def test_a_command_whose_streams_were_closed_runs_as_if_they_led_nowhere() -> None:
    with Broker(topics=["orders"]) as broker:
        shell = f'"{sys.executable}" -m kbroker "$@" -b {broker.bootstrap_servers}'
        for closed, arguments in ((">&-", ("topic", "list")), ("<&-", ("produce", "orders", "-q"))):
            command = ["sh", "-c", f"{shell} {closed}", "sh", *arguments]
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
            assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
