"""One log under crashes and power losses: a hundred runs."""

from __future__ import annotations

import pytest

from tests.sim.log_crashes import run


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_a_log_keeps_what_it_promised_and_finds_it_again(first: int) -> None:
    for seed in range(first, first + 20):
        failure = run(seed)
        assert not failure, f"{failure}\nreplay: python -m tests.sim.log_crashes --seed {seed}"
