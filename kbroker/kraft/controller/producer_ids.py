"""Blocks of producer ids, handed to brokers (KIP-730)."""

from __future__ import annotations

from typing import Final, NamedTuple

from kbroker.kraft.controller.brokers import check_broker_epoch
from kbroker.kraft.controller.result import ControllerResult
from kbroker.kraft.image import MetadataImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records.metadata import ProducerIdsRecord

BLOCK_SIZE: Final = 1000
_INT64_MAX: Final = (1 << 63) - 1


class ProducerIdBlock(NamedTuple):
    first: int
    size: int


def allocate_producer_ids(image: MetadataImage, broker_id: int, broker_epoch: int) -> ControllerResult[ProducerIdBlock]:
    """The next block for a registered broker."""
    check_broker_epoch(image, broker_id, broker_epoch)
    first = image.next_producer_id
    if first > _INT64_MAX - BLOCK_SIZE:
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit",
        )
    record = ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=first + BLOCK_SIZE)
    return ControllerResult(ProducerIdBlock(first, BLOCK_SIZE), [record])
