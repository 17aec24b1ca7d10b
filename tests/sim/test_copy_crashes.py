"""A copy round is ended at every one of its steps, by broker and copier: the copies are exact each time."""

from __future__ import annotations

import pytest

from tests.sim.copy_crashes import KINDS, NEW, OLD, crashes, run


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("protocol", [NEW, OLD])
def test_a_copy_is_exact_wherever_it_was_interrupted(protocol: str, kind: str) -> None:
    tried = list(crashes(protocol, kind))
    assert len(tried) > 10
    for crash in tried:
        failure = run(crash)
        assert not failure, f"{failure}\nreplay: {crash}"
