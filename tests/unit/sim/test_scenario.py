"""The simulation itself: a sound toy passes, each bug of a broken one is found by the checker that is there for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.sim import scenario as scenarios
from tests.sim.__main__ import main
from tests.sim.scenario import SCENARIOS, Outcome, run
from tests.sim.seeds import ROOT, seeds_of, tree_hash
from tests.sim.world import BrokerFactory
from tests.unit.sim.toy_broker import BUGS, ToyBroker, ToyConnection

SEEDS_TO_FIND_A_BUG = 40

FOUND_BY = {
    "acknowledges before it writes": ("calm", "Liveness"),
    "forgets sequences": ("crash", "RecordsAreStoredOnce"),
    "forgets topics": ("calm", "TopicsConverge"),
    "gives producer ids again": ("crash", "ProducerIdsAreGivenOnce"),
    "does not sync": ("power", "HighWatermarksNeverFall|WhatWasReadStays|AcknowledgedRecordsSurvive|Liveness"),
    "keeps a torn tail": ("slow", "AcknowledgedRecordsSurvive|BatchesAreWhole|Liveness|OffsetsHaveNoGaps"),
    "skips an offset": ("calm", "OffsetsHaveNoGaps"),
    "never answers after a reset": ("network", "Liveness"),
}


@pytest.fixture(autouse=True)
def _unwounded() -> Iterator[None]:
    ToyConnection.wounded = False
    yield
    ToyConnection.wounded = False


def toy(*bugs: str) -> BrokerFactory:
    return lambda config, host, loop, _: ToyBroker(config, host, loop, *bugs)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_sound_broker_passes_every_scenario(name: str) -> None:
    for seed in range(3):
        outcome = run(seed, name, factory=toy())
        assert outcome.failure == ""
        assert outcome.acknowledged > 0


@pytest.mark.parametrize("bug", BUGS)
def test_every_bug_is_found_by_the_checker_that_is_there_for_it(bug: str) -> None:
    name, checkers = FOUND_BY[bug]
    for seed in range(SEEDS_TO_FIND_A_BUG):
        outcome = run(seed, name, factory=toy(bug))
        if outcome.failure:
            assert any(checker in outcome.failure for checker in checkers.split("|")), outcome.failure
            assert outcome.tail
            return
    pytest.fail(f"a broker that {bug} passed {SEEDS_TO_FIND_A_BUG} seeds")


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    one, again, other = (run(seed, "crash", factory=toy()) for seed in (7, 7, 8))
    assert one == again
    assert one.digest != other.digest


def test_the_hash_seed_of_python_does_not_matter() -> None:
    program = (
        "from tests.sim.scenario import run; from tests.unit.sim.test_scenario import toy\n"
        "print([run(seed, factory=toy()).digest for seed in range(5)])"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(digests) == 1


def test_the_seeds_of_a_tree_are_the_same_each_time_and_few_begin_many() -> None:
    assert tree_hash() == tree_hash()
    assert seeds_of("tree", 100)[:40] == seeds_of("tree", 40)
    assert len(set(seeds_of("tree", 1000))) == 1000
    assert seeds_of("tree", 1) != seeds_of("other tree", 1)


def test_a_failure_prints_the_command_that_replays_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(seed: int, name: str | None = None, **_: object) -> Outcome:
        return Outcome(seed, name or "calm", "0", 1, 1, 1.0, failure="Violation: X: bad", tail=("event",))

    monkeypatch.setattr("tests.sim.__main__.run", fail)
    assert main(["--seeds", "5-9", "--scenario", "crash"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "replay: python -m tests.sim --seed 5 --scenario crash"


def test_the_command_runs_a_range_of_seeds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios.run, "__kwdefaults__", {"factory": toy(), "keep_trace": False})
    assert main(["--seeds", "0-2"]) == 0
    assert "3 seeds (calm 1, crash 1, network 1): 0 failed" in capsys.readouterr().out
    assert main(["--seed", "0", "--trace"]) == 0
    assert "acknowledged orders-" in capsys.readouterr().out
