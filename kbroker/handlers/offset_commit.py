"""OffsetCommit: offsets of partitions that exist, by topic name or, from version 10 on, by topic id (KIP-848)."""

from __future__ import annotations

from kbroker.groups.membership import Client
from kbroker.handlers.commit_parts import CommitParts, Form
from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ApiError
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kbroker.replies import Reply

_FORM = Form(
    topic=OffsetCommitRequest.OffsetCommitRequestTopic,
    response=OffsetCommitResponse,
    topic_answer=OffsetCommitResponse.OffsetCommitResponseTopic,
    slot=OffsetCommitResponse.OffsetCommitResponsePartition,
    topic_ids_since=10,
)


def handle(context: RequestContext, request: OffsetCommitRequest) -> Reply[OffsetCommitResponse]:
    """Sort out what does not exist, commit the rest."""
    parts = CommitParts(_FORM, context, request.topics)
    if not parts.existing:
        return parts.response
    request.topics = parts.existing
    client = Client(context.client_id or "", f"/{context.client_host}", context.api_version)
    return parts.answered(lambda: context.node.groups.commit(client, request))


def error_response(_context: RequestContext, request: OffsetCommitRequest, error: ApiError) -> OffsetCommitResponse:
    """The code at every partition."""
    return _FORM.refused(request.topics, error.code)
