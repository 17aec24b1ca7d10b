"""The answer that an error fault gives: whole, or in the slots of one topic or partition while the rest is served.

What changes state (Produce, OffsetCommit, CreateTopics ...) is parted: the failing part never reaches the handler. What
reads is served and its answer written over. A Fetch is always of the second kind: within a session its request does
not name what it asks for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kbroker.handlers.context import RequestContext
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest, FetchResponse
from kbroker.replies import settled
from kbroker.server.route import Route
from kbroker.testing import tree
from kbroker.testing.fault_rules import Rule

Handle = Callable[[RequestContext, Any], Any]

INJECTED = "Injected by a fault of the test."
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors of a whole Fetch; every other stands at its partitions."""
READS = frozenset(
    {
        ApiKey.METADATA,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    }
)
"""Served whole; the error is written over the answer."""


async def failing(rule: Rule, route: Route, handle: Handle, context: RequestContext, request: Any) -> Any:
    """The answer to a request that a rule fails."""
    scope, code = rule.scope, rule.code
    error = ApiError(ErrorCode(code), INJECTED)
    name_of = context.node.replicas.topic_name
    if context.api_key == ApiKey.FETCH and code not in _SESSION_ERRORS:
        return await _failing_fetch(rule, handle, context, request)
    if rule.after or (scope.topic is not None and context.api_key in READS):
        response = await settled(handle(context, request))
        if response is None or tree.set_errors(response, code, scope.topic, scope.partition, name_of):
            return response
        return route.error_response(context, request, error)
    if scope.topic is None:
        response = route.error_response(context, request, error)
        return response if response is not None else _all_errors(await settled(handle(context, request)), code)
    about, rest = tree.split(request, scope.topic, scope.partition, name_of)
    refused = route.error_response(context, about, error)
    if refused is None or tree.is_empty(rest):
        return refused
    response = await settled(handle(context, rest))
    if response is not None:
        tree.merge(response, refused, name_of)
    return response


def _all_errors(response: Any, code: int) -> Any:
    if response is not None:
        tree.set_errors(response, code, None, None, lambda _: None)
    return response


async def _failing_fetch(
    rule: Rule, handle: Callable[[RequestContext, Any], Any | Awaitable[Any]], context: RequestContext, request: Any
) -> FetchResponse:
    """Serve at once what there is, then put the error where the rule points, also where nothing was answered."""
    wanted = fetched(context, request)
    request.max_wait_ms = 0
    response: FetchResponse = await settled(handle(context, request))
    if response.error_code:
        return response
    name_of = context.node.replicas.topic_name
    for topic, topic_id, partition in wanted:
        if rule.scope.topic not in (None, topic) or rule.scope.partition not in (None, partition):
            continue
        row = next((each for each in response.responses if tree.topic_of(each, name_of) == topic), None)
        if row is None:
            row = FetchResponse.FetchableTopicResponse(topic=topic, topic_id=topic_id)
            response.responses.append(row)
        row.partitions = [each for each in row.partitions if each.partition_index != partition]
        row.partitions.append(
            FetchResponse.PartitionData(
                partition_index=partition,
                error_code=rule.code,
                high_watermark=-1,
                last_stable_offset=-1,
                log_start_offset=-1,
                aborted_transactions=None,
                records=b"",
            )
        )
    return response


def asks_for_all_topics(context: RequestContext, request: Any) -> bool:
    """Whether a request for metadata names no topics because it wants all."""
    if context.api_key == ApiKey.METADATA:
        return not request.topics if context.api_version == 0 else request.topics is None
    return context.api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS and not request.topics


def fetched(context: RequestContext, request: FetchRequest) -> list[tuple[str, bytes, int]]:
    """What a fetch asks for: what it names and, in a session, what the session remembers."""
    name_of = context.node.replicas.topic_name
    image = context.node.quorum.image
    found: dict[tuple[str, int], bytes] = {}
    session = context.node.fetch_sessions.get(request.session_id) if request.session_id else None
    if session is not None and request.session_epoch > 0:
        for entry in session.partitions.values():
            if entry.topic is not None:
                found[entry.topic, entry.partition] = entry.topic_id
    for topic in request.topics:
        name = tree.topic_of(topic, name_of)
        if name is None:
            continue
        known = image.topics.by_name.get(name)
        for wanted in topic.partitions:
            found[name, wanted.partition] = topic.topic_id if known is None else known.id
    return [(topic, topic_id, partition) for (topic, partition), topic_id in found.items()]
