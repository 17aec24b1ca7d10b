"""What the answers of the transaction APIs have in common."""

from __future__ import annotations

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ErrorCode
from kbroker.txn.state import Asker


def asker(context: RequestContext) -> Asker:
    """Who asks, for the log."""
    return Asker(context.client_id or "", context.client_host)


def older_code(context: RequestContext, code: ErrorCode, fenced_since: int) -> ErrorCode:
    """Clients before ``fenced_since`` know a fenced producer as INVALID_PRODUCER_EPOCH (KIP-588)."""
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
