"""Copies inside transactions while broker and copier are killed: the short form of ``tests.crash.copy_loop``."""

from __future__ import annotations

from pathlib import Path

from tests.crash.copy_loop import run

KILLS = 12


def test_a_copy_loop_under_kills_of_broker_and_copier_is_exact(tmp_path: Path) -> None:
    outcome = run(tmp_path, seed=5, kills=KILLS)
    assert outcome.is_exact, outcome
