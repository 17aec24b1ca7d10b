"""What the first batch of a transaction must be, after others were asked about, refused or ended."""

from __future__ import annotations

import pytest

from kbroker.log.producer_state import FirstWrite
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.replication.first_writes import FirstWrites

ID = 7


def batch(epoch: int = 1, *, sequence: int = 0, transactional: bool = True, control: bool = False) -> bytes:
    return build_batch(
        [Record(0, 1, b"k", b"v")],
        producer_id=ID,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        control=control,
    )


def expecting(*asked: tuple[int, int, bool]) -> FirstWrites:
    writes = FirstWrites()
    for epoch, sequence, starts_anew in asked:
        writes.expect(ID, epoch, sequence, starts_anew=starts_anew)
    return writes


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ([(1, 5, True), (1, 3, True), (1, 9, True)], FirstWrite(1, 3, True)),
        ([(1, 5, True), (2, 9, True)], FirstWrite(2, 9, True)),
        ([(2, 5, True), (1, 0, True)], FirstWrite(2, 5, True)),
        ([(1, 5, False), (1, 5, True)], FirstWrite(1, 5, False)),
        ([(1, 5, True), (2, 0, False)], FirstWrite(2, 0, True)),
    ],
    ids=["the lowest", "a later epoch", "an earlier epoch", "an older protocol first", "a newer protocol first"],
)
def test_several_first_batches_may_be_on_their_way(asked: list[tuple[int, int, bool]], expected: FirstWrite) -> None:
    assert expecting(*asked).of(batch()) == expected


@pytest.mark.parametrize("starts_anew", [True, False])
def test_a_batch_of_the_transaction_ends_the_waiting_and_a_plain_one_does_not(starts_anew: bool) -> None:
    writes = expecting((1, 0, starts_anew))
    writes.appended(batch(transactional=False))
    assert writes
    writes.appended(batch())
    assert not writes


def test_the_marker_of_the_transaction_before_does_not_end_the_waiting_for_the_next() -> None:
    writes = expecting((1, 0, True))
    writes.appended(batch(1, control=True))
    assert writes
    writes.appended(batch(2, control=True))
    assert not writes
    writes = expecting((1, 0, False))
    writes.appended(batch(1, control=True))
    assert not writes


def test_after_want_of_room_any_batch_will_do() -> None:
    writes = FirstWrites()
    writes.expect(ID, 1, 0, starts_anew=False, had_no_room=True)
    writes.appended(batch(transactional=False))
    assert not writes


def test_bytes_that_are_no_batch_have_no_producer() -> None:
    assert expecting((1, 0, True)).of(b"\0" * 60) is None
