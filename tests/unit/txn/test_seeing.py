"""What ListTransactions takes by its pattern."""

from __future__ import annotations

import pytest

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.txn.seeing import Filter
from tests.unit.txn.script import Script


def listed(script: Script, pattern: str) -> list[str]:
    wanted = Filter(ListTransactionsRequest(transactional_id_pattern=pattern), script.now.wall_ms)
    return [each.transactional_id for each in script.shard.list_transactions(wanted)]


def test_a_pattern_takes_whole_ids_only_and_an_empty_one_all() -> None:
    script = Script()
    for name in ("pay-1", "pay-2", "pay-10", "other"):
        script.start(name)
    assert listed(script, r"pay-\d") == ["pay-1", "pay-2"]
    assert listed(script, "pay") == []
    assert listed(script, "") == ["pay-1", "pay-2", "pay-10", "other"]


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ApiError) as raised:
        listed(Script(), "pay-(")
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.timeout(120)
def test_a_hostile_pattern_on_a_long_id_does_not_hold_the_broker() -> None:
    script = Script()
    script.start("a" * 30_000 + "!")
    assert listed(script, "(a+)+") == []
