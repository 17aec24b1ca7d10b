"""The one rule about missing toolchains, and what the reference says when it cannot run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import toolchains
from tools import reference_kafka


@pytest.fixture(autouse=True)
def nothing_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CI", raising=False)


@pytest.mark.parametrize(("toolchain", "lack"), [("go", "needs Go"), ("java", "needs Java 17"), ("kcat", "needs kcat")])
def test_a_test_is_skipped_and_says_what_it_lacks(toolchain: str, lack: str) -> None:
    with pytest.raises(pytest.skip.Exception, match=lack):
        toolchains.require(toolchain)


def test_in_ci_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"needs Go .*; Node\.js"):
        toolchains.require("go", "node")


def test_the_reference_says_what_it_needs() -> None:
    with pytest.raises(reference_kafka.ReferenceUnavailableError, match="Java 17 or later"):
        reference_kafka.jars()


def test_its_command_ends_with_that_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        reference_kafka.main(["jars"])
    assert "needs Java 17" in str(ended.value)
    assert capsys.readouterr().out == ""
