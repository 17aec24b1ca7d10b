"""What an old client reads of a message set of format 0 or 1."""

from __future__ import annotations

from collections.abc import Iterator

from kbroker.protocol.records.batch import Record
from kbroker.protocol.records.compression import ReadableBuffer
from kbroker.protocol.records.errors import InvalidRecordError
from kbroker.protocol.records.legacy import check_crc, inner_messages, message_views, read_message


def read_message_set(data: ReadableBuffer, *, max_decompressed: int) -> Iterator[Record]:
    """Every record of a message set, compressed ones too; CRCs are checked. Raises as the parts do."""
    for magic, view in message_views(data):
        if magic > 1:
            raise InvalidRecordError(f"A message set holds a batch of magic {magic}")
        check_crc(view)
        message = read_message(view)
        if message.compression:
            for inner in inner_messages(message, max_decompressed):
                check_crc(inner.data)
                yield Record(inner.offset, inner.timestamp, inner.key, inner.value)
        else:
            yield Record(message.offset, message.timestamp, message.key, message.value)
