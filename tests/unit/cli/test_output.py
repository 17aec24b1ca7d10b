"""What commands show besides their answers."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from kbroker.cli.output import is_file, progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, wanted: bool = True) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    with progress("records", wanted=wanted) as advance:
        advance(3)
        advance(4)
    return stream.getvalue()


def test_long_work_is_counted_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "7 records" in shown(monkeypatch, Terminal())


def test_nothing_is_counted_without_a_terminal_or_where_it_would_disturb(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO()) == ""
    assert shown(monkeypatch, Terminal(), wanted=False) == ""


def test_there_is_no_colour_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[3" in shown(monkeypatch, Terminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown(monkeypatch, Terminal())


def test_a_file_is_told_from_a_pipe_and_from_memory(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        assert is_file(file)
    reader, writer = os.pipe()
    with open(reader, "rb"), open(writer, "wb") as pipe:
        assert not is_file(pipe)
    assert not is_file(io.BytesIO())
