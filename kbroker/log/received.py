"""What a follower checks in the batches that its leader sent, before they go into its log."""

from __future__ import annotations

from kbroker.host import Buffer
from kbroker.log.errors import UnexpectedOffsetError
from kbroker.log.indexes import fits
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.records.batch import BatchHeader, batches, crc_is_right
from kbroker.types import TopicPartition


def received_batches(
    records: Buffer, next_offset: int, partition: TopicPartition
) -> list[tuple[BatchHeader, memoryview]]:
    """The whole batches; a cut one at the end is left out, and those too far behind the first for one segment.

    Raises ``UnexpectedOffsetError`` when they do not continue the log at ``next_offset``, ``ApiError`` for bytes that
    are no batches.
    """
    found = list(batches(records))
    for header, batch in found:
        if not crc_is_right(batch):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt in topic partition {partition}.")
        if header.base_offset < next_offset:
            raise UnexpectedOffsetError(
                f"Unexpected offset in append to {partition}. Offset {header.base_offset} is less than the "
                f"next offset {next_offset}.",
                found[0][0].base_offset,
                found[-1][0].last_offset,
            )
        next_offset = header.next_offset
    if found and not fits(found[0][0].base_offset, found[-1][0].last_offset):
        return [each for each in found if fits(found[0][0].base_offset, each[0].last_offset)]
    return found
