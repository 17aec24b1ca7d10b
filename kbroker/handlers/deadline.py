"""When it is too late for an operation of the quorum."""

from __future__ import annotations

from kbroker.protocol.errors import ApiError, ErrorCode


def check_deadline(timeout_ms: int) -> None:
    """Raise REQUEST_TIMED_OUT where no time was given.

    Kafka's controller finds the deadline passed before it looks at the request. A request that leaves it nothing to do
    never gets there: check only then.
    """
    if timeout_ms <= 0:
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
