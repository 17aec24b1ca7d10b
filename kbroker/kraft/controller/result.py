"""What a controller function decides: records to write, and what to answer once they are committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from kbroker.protocol.errors import ApiError, ErrorCode

T = TypeVar("T")

RECORDS_PER_OPERATION_MAX: Final = 10_000
"""Kafka's ``QuorumController.MAX_RECORDS_PER_USER_OP``."""


@dataclass(slots=True)
class ControllerResult(Generic[T]):
    """The records form one batch: all of them are committed, or none.

    ``kraft_version`` is what the quorum itself has to be raised to: that, and its voters, stand in control records.
    """

    reply: T
    records: list[Any] = field(default_factory=list)
    kraft_version: int | None = None


def check_record_count(records: list[Any]) -> None:
    """Refuse an operation of a user that would write too much at once, in Kafka's words."""
    if len(records) > RECORDS_PER_OPERATION_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
