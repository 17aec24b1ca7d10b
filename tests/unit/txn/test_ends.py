"""Partitions that join, and ends, in both protocols."""

from __future__ import annotations

import pytest

from kbroker.protocol.errors import ErrorCode
from kbroker.txn.settings import TransactionSettings
from kbroker.txn.transaction import EPOCH_MAX, TransactionState
from tests.unit.txn.script import BUMPING, CLASSIC, Script, tp

MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_the_first_partition_opens_the_transaction_and_the_same_again_writes_nothing() -> None:
    script = Script()
    producer = script.start()
    assert script.add(producer, 0, 1) is ErrorCode.NONE
    assert script.state().state is TransactionState.ONGOING
    written = len(script.log)
    assert script.add(producer, 1) is ErrorCode.NONE
    assert len(script.log) == written
    assert script.add(producer, 2) is ErrorCode.NONE
    assert list(script.state().partitions) == [tp(0), tp(1), tp(2)]


def test_strangers_are_told_apart() -> None:
    script = Script()
    script.start()
    producer_id, epoch = script.start()
    assert script.add((producer_id, epoch), 0, transactional_id="nobody") is MAPPING
    assert script.add((producer_id + 1, epoch), 0) is MAPPING
    assert script.add((producer_id, epoch - 1), 0) is ErrorCode.PRODUCER_FENCED
    assert script.add((producer_id, epoch + 1), 0) is ErrorCode.PRODUCER_FENCED
    assert script.add((producer_id, epoch), 0, transactional_id="") is ErrorCode.INVALID_REQUEST
    assert script.state().state is TransactionState.EMPTY


def test_only_partitions_of_the_open_transaction_are_verified() -> None:
    script = Script()
    producer = script.start()
    script.add(producer, 0)
    assert script.verify(producer, 0, 1) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    assert script.verify((producer[0], producer[1] + 1), 0) == [ErrorCode.PRODUCER_FENCED]
    script.end(producer, True, CLASSIC)
    assert script.verify(producer, 0) == [ErrorCode.CONCURRENT_TRANSACTIONS]
    script.write_markers()
    assert script.verify(producer, 0) == [ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize("committed", [True, False])
def test_a_classic_end_keeps_the_epoch_and_may_be_repeated(committed: bool) -> None:
    script = Script()
    producer = script.start()
    script.add(producer, 0, 1)
    script.end(producer, committed, CLASSIC)
    assert script.code(lambda: script.end(producer, committed, CLASSIC)) is ErrorCode.CONCURRENT_TRANSACTIONS
    (marker,) = script.write_markers()
    assert marker == ("tx", *producer, committed, 0, (tp(0), tp(1)))
    assert script.code(lambda: script.end(producer, committed, CLASSIC)) is ErrorCode.NONE
    assert script.code(lambda: script.end(producer, not committed, CLASSIC)) is ErrorCode.INVALID_TXN_STATE
    assert script.add(producer, 0) is ErrorCode.NONE


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_of_version_5_raises_the_epoch_and_its_repeat_is_known_by_the_one_before(committed: bool) -> None:
    script = Script()
    producer = script.start()
    script.add(producer, 0, version=BUMPING)
    answer = script.end(producer, committed)
    assert (answer.producer_id, answer.producer_epoch) == (producer[0], 1)
    (marker,) = script.write_markers()
    assert (marker.producer_epoch, marker.transaction_version) == (1, 2)
    again = script.end(producer, committed)
    assert (again.producer_id, again.producer_epoch) == (producer[0], 1)
    assert script.code(lambda: script.end(producer, not committed)) is ErrorCode.INVALID_TXN_STATE
    assert script.code(lambda: script.end((producer[0], 1), True)) is ErrorCode.INVALID_TXN_STATE


def test_there_is_nothing_to_end_in_the_classic_protocol() -> None:
    script = Script()
    producer = script.start()
    for committed in (True, False):
        assert script.code(lambda c=committed: script.end(producer, c, CLASSIC)) is ErrorCode.INVALID_TXN_STATE  # type: ignore[misc]


def test_aborting_nothing_gives_version_5_its_next_epoch() -> None:
    script = Script()
    producer_id, _ = script.start()
    for epoch in range(3):
        assert script.end((producer_id, epoch), False).producer_epoch == epoch + 1
        script.write_markers()


def test_an_end_that_uses_up_the_epochs_gives_the_next_producer_id() -> None:
    script = Script()
    producer_id, _ = script.start()
    script.shard.replay(script.state()._replace(epoch=EPOCH_MAX - 1).record(2), 0, None)
    worn = (producer_id, EPOCH_MAX - 1)
    script.add(worn, 0, version=BUMPING)
    answer = script.end(worn, True)
    assert (answer.producer_id, answer.producer_epoch) == (producer_id + 1, 0)
    assert script.add((producer_id + 1, 0), 0) is ErrorCode.CONCURRENT_TRANSACTIONS
    (marker,) = script.write_markers()
    assert (marker.producer_id, marker.producer_epoch) == (producer_id, EPOCH_MAX)
    again = script.end(worn, True)
    assert (again.producer_id, again.producer_epoch) == (producer_id + 1, 0)
    assert script.add((producer_id + 1, 0), 0) is ErrorCode.NONE


def test_the_next_coordinator_writes_the_markers_that_are_due() -> None:
    script = Script()
    producer = script.start()
    script.add(producer, 0, 1, 2, version=BUMPING)
    script.end(producer, True)
    script.write_markers(at_most=2)
    assert script.state().state is TransactionState.PREPARE_COMMIT
    script.restart()
    (marker,) = script.write_markers()
    assert marker.partitions == (tp(0), tp(1), tp(2))
    assert script.state().state is TransactionState.COMPLETE_COMMIT
    assert not script.shard.has_markers()


def test_a_completion_whose_write_fails_is_due_again() -> None:
    script = Script()
    producer = script.start()
    script.add(producer, 0)
    script.end(producer, True)
    script.refuses_writes = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert script.code(script.write_markers) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    script.refuses_writes = None
    (marker,) = script.write_markers()
    assert marker.partitions == ()
    assert script.state().state is TransactionState.COMPLETE_COMMIT


LEVEL_0 = TransactionSettings(feature_level=0)


def test_at_level_0_no_client_is_served_that_its_records_cannot_tell_of() -> None:
    script = Script(LEVEL_0)
    producer = script.start()
    assert script.add(producer, 0, version=BUMPING) is ErrorCode.UNSUPPORTED_VERSION
    assert script.code(lambda: script.end(producer, False)) is ErrorCode.UNSUPPORTED_VERSION
    assert script.add(producer, 0) is ErrorCode.NONE
    assert script.code(lambda: script.end(producer, True)) is ErrorCode.UNSUPPORTED_VERSION
    script.end(producer, True, CLASSIC)
    script.write_markers()
    assert script.state().state is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_begun_at_level_2_ends_at_level_0(restarts: bool) -> None:
    script = Script()
    ending, open_ = script.start("ending"), script.start("open")
    script.add(ending, 0, transactional_id="ending", version=BUMPING)
    script.add(open_, 1, transactional_id="open", version=BUMPING)
    script.end(ending, True, transactional_id="ending")
    script.settings = script.shard.settings = LEVEL_0
    if restarts:
        script.restart()
    script.write_markers()
    assert script.state("ending").state is TransactionState.COMPLETE_COMMIT
    assert script.state("ending").epoch == ending[1] + 1
    script.pass_time(80_000)
    script.write_markers()
    assert script.state("open").state is TransactionState.COMPLETE_ABORT
    assert script.start("open") == (open_[0], open_[1] + 2)


@pytest.mark.parametrize("committed", [True, False])
def test_an_end_of_the_older_protocol_is_no_first_try_of_whom_it_fenced(committed: bool) -> None:
    script = Script()
    fenced, successor = script.start(), script.start()
    script.add(successor, 0)
    script.end(successor, committed, CLASSIC)
    script.write_markers()
    assert script.code(lambda: script.end(fenced, committed)) is ErrorCode.PRODUCER_FENCED
