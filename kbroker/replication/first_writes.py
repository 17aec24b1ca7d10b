"""First batches of transactions, expected from when a partition asked about one until it was appended (KIP-890).

Several of one producer may be under way, and what was refused may come again. Kafka's ``VerificationStateEntry``.
"""

from __future__ import annotations

import struct

from kbroker.host import Buffer
from kbroker.log.producer_state import FirstWrite
from kbroker.protocol.records.batch import ATTRIBUTE_BITS_OFFSET, BATCH_OVERHEAD, CONTROL_BIT, TRANSACTIONAL_BIT

PRODUCERS_MAX = 1000
"""Those whose first write never came are forgotten beyond that, oldest first."""

_PRODUCER_AT = 43
_read_producer = struct.Struct(">qhi").unpack_from


class FirstWrites:
    """By producer, what the first batch must be. Owner: the partition."""

    __slots__ = ("_expected",)

    def __init__(self) -> None:
        self._expected: dict[int, FirstWrite] = {}

    def __bool__(self) -> bool:
        return bool(self._expected)

    def expect(
        self, producer_id: int, epoch: int, sequence: int, *, starts_anew: bool, had_no_room: bool = False
    ) -> None:
        """One is on its way. The client's protocol is that of whoever asked first."""
        expected = self._expected
        known = expected.pop(producer_id, None)
        if known is not None:
            starts_anew = known.starts_anew
            had_no_room = had_no_room and known.had_no_room
            if epoch == known.epoch:
                sequence = min(sequence, known.lowest_sequence)
            elif epoch < known.epoch:
                epoch, sequence = known.epoch, known.lowest_sequence
        expected[producer_id] = FirstWrite(epoch, sequence, starts_anew, had_no_room)
        if len(expected) > PRODUCERS_MAX:
            del expected[next(iter(expected))]

    def of(self, records: Buffer) -> FirstWrite | None:
        """What is known of the producer of a batch; None of bytes that cannot be one."""
        if len(records) < BATCH_OVERHEAD:
            return None
        return self._expected.get(producer_of(records)[0])

    def appended(self, records: Buffer) -> None:
        """A batch of a transaction is in the log, or its marker: it is expected no more.

        But the marker of the transaction before may come when the next one is on its way already, with its epoch.
        """
        producer_id, epoch, _ = producer_of(records)
        known = self._expected.get(producer_id)
        if known is None:
            return
        attributes = records[ATTRIBUTE_BITS_OFFSET]
        is_of_the_one_before = attributes & CONTROL_BIT and known.starts_anew and epoch == known.epoch
        if known.had_no_room or (attributes & TRANSACTIONAL_BIT and not is_of_the_one_before):
            del self._expected[producer_id]


def producer_of(records: Buffer) -> tuple[int, int, int]:
    """Id, epoch and first sequence of the producer of a batch."""
    producer: tuple[int, int, int] = _read_producer(records, _PRODUCER_AT)
    return producer
