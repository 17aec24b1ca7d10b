"""Time-outs of transactions, expiry of ids."""

from __future__ import annotations

import logging

import pytest

from kbroker.protocol.errors import ErrorCode
from kbroker.txn.settings import TransactionSettings
from kbroker.txn.transaction import TIMEOUT_FOR_EVER_MS, TransactionState
from tests.unit.txn.script import BUMPING, CLASSIC, ID, Script


def test_a_transaction_that_is_open_too_long_is_aborted_and_its_producer_fenced(
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = Script()
    producer = script.start(timeout_ms=15_000)
    script.add(producer, 0, version=BUMPING)
    script.pass_time(15_000)
    assert script.state().state is TransactionState.ONGOING
    with caplog.at_level(logging.WARNING):
        script.pass_time(5_000)
    assert "timed out" in caplog.text
    assert "15000" in caplog.text
    (marker,) = script.write_markers()
    assert (marker.producer_epoch, marker.is_commit) == (1, False)
    assert script.code(lambda: script.end(producer, True, CLASSIC)) is ErrorCode.PRODUCER_FENCED
    assert script.code(lambda: script.end(producer, True)) is ErrorCode.INVALID_TXN_STATE
    assert script.end(producer, False).producer_epoch == 1
    assert script.start(expected=producer) == (producer[0], 1)  # type: ignore[arg-type]


def test_the_story_of_a_time_out_is_told_apart_from_that_of_a_fence() -> None:
    script = Script()
    timed_out = script.start("a", timeout_ms=1_000)
    script.add(timed_out, 0, transactional_id="a")
    fenced = script.start("b")
    script.add(fenced, 0, transactional_id="b")
    script.init("b")
    script.pass_time(10_000)
    stories = {name: script.shard.put_off(name) for name in "ab"}
    assert stories["a"] is not None
    assert "timed out after 10000 ms" in stories["a"].reason
    assert stories["b"] is not None
    assert "initialised the transactional id" in stories["b"].reason


def test_an_application_that_starts_anew_hides_neither_its_time_out_nor_whom_it_fenced() -> None:
    script = Script()
    script.add(script.start("a", timeout_ms=1_000), 0, transactional_id="a")
    script.pass_time(10_000)
    script.write_markers()
    script.start("a")
    assert ["timed out" in each.reason for each in script.shard.put_offs("a")] == [True, False]
    script.add(script.start("b"), 0, transactional_id="b")
    script.init("b")
    script.write_markers()
    script.start("b")
    (fenced,) = script.shard.put_offs("b")
    assert fenced.producer_epoch == 0
    assert fenced.reason.endswith("while the transaction was open")


def test_the_time_of_an_open_transaction_goes_on_under_the_next_coordinator() -> None:
    script = Script()
    producer = script.start(timeout_ms=15_000)
    script.add(producer, 0)
    script.pass_time(9_000)
    script.restart()
    script.pass_time(9_999)
    assert script.state().state is TransactionState.ONGOING
    script.pass_time(1)
    assert script.state().state is TransactionState.PREPARE_ABORT


def test_a_time_out_that_could_not_be_written_is_tried_again() -> None:
    script = Script()
    producer = script.start(timeout_ms=1_000)
    script.add(producer, 0)
    script.refuses_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.code(lambda: script.pass_time(10_000)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    script.refuses_writes = None
    script.pass_time(10_000)
    assert script.state().state is TransactionState.PREPARE_ABORT


def test_a_transaction_of_two_phases_is_never_timed_out() -> None:
    script = Script(TransactionSettings(max_timeout_ms=TIMEOUT_FOR_EVER_MS))
    producer = script.start(timeout_ms=TIMEOUT_FOR_EVER_MS)
    script.add(producer, 0)
    script.pass_time(10 * 24 * 3_600_000)
    assert script.state().state is TransactionState.ONGOING


def test_an_id_that_nobody_uses_is_forgotten_and_one_in_a_transaction_is_not() -> None:
    script = Script(TransactionSettings(id_expiration_ms=5 * 3_600_000, max_timeout_ms=TIMEOUT_FOR_EVER_MS))
    script.start()
    busy = script.start("busy", timeout_ms=TIMEOUT_FOR_EVER_MS)
    script.add(busy, 0, transactional_id="busy")
    script.pass_time(4 * 3_600_000)
    assert ID in script.shard.transactions
    script.pass_time(2 * 3_600_000)
    assert list(script.shard.transactions) == ["busy"]
    assert script.log[-1][1] is None
    script.restart()
    assert list(script.shard.transactions) == ["busy"]
