"""InitProducerId: ids, epochs, fencing, exhaustion."""

from __future__ import annotations

import logging

import pytest

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.txn.settings import TransactionSettings
from kbroker.txn.state import Asker
from kbroker.txn.transaction import EPOCH_MAX, TransactionState
from tests.unit.txn.script import ID, Script


def test_a_new_id_gets_a_producer_id_and_epoch_0_and_each_further_call_the_next_epoch() -> None:
    script = Script()
    assert [script.start() for _ in range(3)] == [(1001, 0), (1001, 1), (1001, 2)]


def test_transactional_ids_do_not_share_producer_ids() -> None:
    script = Script()
    assert script.start("a")[0] != script.start("b")[0]


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_beyond_the_brokers_limit_is_refused_with_both_numbers(timeout_ms: int) -> None:
    script = Script()
    with pytest.raises(ApiError) as raised:
        script.init(timeout_ms=timeout_ms)
    assert raised.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert str(timeout_ms) in str(raised.value)
    assert "900000" in str(raised.value)
    assert script.log == []


def test_a_client_that_names_its_epoch_goes_on_and_its_repeat_gets_the_same_answer() -> None:
    script = Script()
    first = script.start()
    assert script.start(expected=first) == (first[0], 1)  # type: ignore[arg-type]
    assert script.start(expected=first) == (first[0], 1)  # type: ignore[arg-type]


def test_after_another_client_came_the_first_is_fenced_and_told_by_whom_and_when() -> None:
    script = Script()
    first = script.start()
    script.init(asker=Asker("intruder", "10.0.0.9"))
    with pytest.raises(ApiError) as raised:
        script.init(expected=first)
    assert raised.value.code is ErrorCode.PRODUCER_FENCED
    assert "intruder" in str(raised.value)
    assert "10.0.0.9" in str(raised.value)
    assert "2023-11-14T22:13:20.000+00:00" in str(raised.value)


def test_another_producers_id_is_fenced() -> None:
    script = Script()
    script.start()
    assert script.code(lambda: script.init(expected=(7, 0))) is ErrorCode.PRODUCER_FENCED


def test_an_unknown_id_with_an_expected_producer_gets_a_fresh_one() -> None:
    assert Script().start(expected=(7, 3)) == (1001, 0)  # type: ignore[arg-type]


def test_an_open_transaction_is_aborted_first_and_the_client_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    script = Script()
    old = script.start()
    script.add(old, 0)
    with caplog.at_level(logging.WARNING):
        answer = script.init(asker=Asker("successor", "10.0.0.2"))
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert "successor" in caplog.text
    assert script.code(script.init) is ErrorCode.CONCURRENT_TRANSACTIONS
    (marker,) = script.write_markers()
    assert (marker.producer_epoch, marker.is_commit) == (1, False)
    assert script.start() == (old[0], 2)
    assert script.code(lambda: script.end(old, True)) is ErrorCode.PRODUCER_FENCED


def test_when_the_epochs_are_used_up_a_new_producer_id_follows() -> None:
    script = Script()
    producer_id, _ = script.start()
    _wear_out(script, EPOCH_MAX - 1)
    assert script.start() == (producer_id + 1, 0)


def test_a_repeat_of_the_request_that_rotated_the_id_gets_the_same_answer() -> None:
    script = Script()
    producer_id, _ = script.start()
    _wear_out(script, EPOCH_MAX - 1)
    worn = (producer_id, EPOCH_MAX - 1)
    assert script.start(expected=worn) == (producer_id + 1, 0)  # type: ignore[arg-type]
    assert script.start(expected=worn) == (producer_id + 1, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("level", "epoch"), [(1, 0), (2, 1)])
def test_a_fence_may_use_the_epoch_that_no_client_gets(level: int, epoch: int) -> None:
    """From level 2 on it takes the next producer id along, whose first epoch nobody is given either."""
    script = Script(TransactionSettings(feature_level=level))
    producer_id, _ = script.start()
    _wear_out(script, EPOCH_MAX - 1)
    script.add((producer_id, EPOCH_MAX - 1), 0)
    script.init()
    (marker,) = script.write_markers()
    assert marker.producer_epoch == EPOCH_MAX
    assert script.start() == (producer_id + 1, epoch)


def test_a_fenced_client_of_the_last_epoch_may_go_on_with_the_next_producer_id() -> None:
    script = Script()
    producer_id, _ = script.start()
    _wear_out(script, EPOCH_MAX - 1)
    worn = (producer_id, EPOCH_MAX - 1)
    script.add(worn, 0)
    script.init(expected=worn)
    script.write_markers()
    assert script.start(expected=worn) == (producer_id + 1, 0)  # type: ignore[arg-type]


def test_a_time_out_that_needs_a_producer_id_waits_until_one_is_at_hand() -> None:
    script = Script()
    producer_id, _ = script.start()
    _wear_out(script, EPOCH_MAX - 1)
    script.add((producer_id, EPOCH_MAX - 1), 0)
    script.has_ids = False
    script.pass_time(80_000)
    assert script.state().state is TransactionState.ONGOING
    script.has_ids = True
    script.pass_time(10_000)
    script.write_markers()
    state = script.state()
    assert (state.state, state.producer_id, state.epoch) == (TransactionState.COMPLETE_ABORT, producer_id + 1, 0)


def test_a_write_that_fails_changes_nothing() -> None:
    script = Script()
    first = script.start()
    script.refuses_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.code(lambda: script.init(expected=first)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    script.refuses_writes = None
    assert script.start(expected=first) == (first[0], 1)  # type: ignore[arg-type]


def test_the_log_tells_the_next_coordinator_everything_but_the_epoch_before() -> None:
    script = Script()
    first = script.start()
    script.init(expected=first)
    script.restart()
    assert script.state().state is TransactionState.EMPTY
    assert script.code(lambda: script.init(expected=first)) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_the_records_version_follows_the_feature(level: int, version: int) -> None:
    script = Script(TransactionSettings(feature_level=level))
    script.start()
    value = script.log[-1][1]
    assert value is not None
    assert int.from_bytes(value[:2], "big") == version


def _wear_out(script: Script, epoch: int) -> None:
    """Bring the id's epoch to ``epoch``, as many calls would."""
    worn = script.state()._replace(epoch=epoch)
    record = worn.record(2)
    script.shard.replay(record, 0, None)
    assert script.state(ID).epoch == epoch


@pytest.mark.parametrize(("level", "outcome"), [(0, None), (1, None), (2, 1)])
def test_a_producer_whose_transaction_was_aborted_by_the_broker_goes_on_only_under_level_2(
    level: int, outcome: int | None
) -> None:
    script = Script(TransactionSettings(feature_level=level))
    producer = script.start(timeout_ms=1_000)
    script.add(producer, 0)
    script.pass_time(10_000)
    (marker,) = script.write_markers()
    assert (marker.producer_epoch, marker.transaction_version) == (1, 2 if level == 2 else 0)
    if outcome is None:
        assert script.code(lambda: script.init(expected=producer)) is ErrorCode.PRODUCER_FENCED
    else:
        assert script.init(expected=producer).producer_epoch == outcome
