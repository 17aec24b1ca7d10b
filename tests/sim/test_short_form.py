"""The short form of the simulation: forty seeds that derive from the source."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.scenario import run
from tests.sim.seeds import ROOT, seeds_of, tree_hash

SEEDS = seeds_of(tree_hash(), 40)


@pytest.mark.parametrize("part", range(8))
def test_the_broker_keeps_its_promises_under_faults(part: int) -> None:
    for seed in SEEDS[part::8]:
        outcome = run(seed)
        assert not outcome.failure, f"{outcome.failure}\nreplay: {outcome.replay}"


def test_a_run_does_not_depend_on_the_hash_seed_of_python() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-m", "tests.sim", "--seed", str(SEEDS[0]), "--scenario", "crash"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "trace" in outputs.pop()
