"""DescribeConfigs: every value of a topic, broker, group or client-metrics subscription, and where it comes from."""

from __future__ import annotations

from typing import Final

from kbroker.config import ConfigType
from kbroker.config.broker import Source
from kbroker.config.describe import (
    DescribedConfig,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
)
from kbroker.config.values import java_int
from kbroker.handlers import broker_loggers, histories
from kbroker.handlers.context import RequestContext
from kbroker.kraft.controller.topics import check_topic_name
from kbroker.kraft.image import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse

Resource = DescribeConfigsRequest.DescribeConfigsResource
Result = DescribeConfigsResponse.DescribeConfigsResult

_DESCRIBABLE: Final = frozenset(
    {RESOURCE_TOPIC, RESOURCE_BROKER, RESOURCE_BROKER_LOGGER, RESOURCE_CLIENT_METRICS, RESOURCE_GROUP}
)
MALFORMED: Final = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
"""Kafka's own text for INVALID_REQUEST."""


def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """One result for each resource, each with its own error."""
    if any(each.resource_type not in _DESCRIBABLE for each in request.resources):
        raise ApiError(ErrorCode.INVALID_REQUEST, MALFORMED)
    results = []
    for resource in request.resources:
        result = Result(resource_type=resource.resource_type, resource_name=resource.resource_name)
        try:
            rows = _rows(context, resource)
            result.configs = [_config(row, request) for row in rows]
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message or ""
        results.append(result)
    return DescribeConfigsResponse(throttle_time_ms=context.throttle_time_ms, results=results)


def error_response(
    context: RequestContext, request: DescribeConfigsRequest, error: ApiError
) -> DescribeConfigsResponse:
    """The error at every resource."""
    results = [
        Result(
            error_code=error.code,
            error_message=error.message,
            resource_type=each.resource_type,
            resource_name=each.resource_name,
        )
        for each in request.resources
    ]
    return DescribeConfigsResponse(throttle_time_ms=context.throttle_time_ms, results=results)


def _rows(context: RequestContext, resource: Resource) -> list[DescribedConfig]:
    quorum, name = context.node.quorum, resource.resource_name
    configs = quorum.image.configs
    names = resource.configuration_keys or None
    if resource.resource_type == RESOURCE_TOPIC:
        check_topic_name(name)
        if name not in quorum.image.topics.by_name:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(quorum.effective_config, configs.of_topic(name), names)
    if resource.resource_type == RESOURCE_BROKER:
        if not name:
            return describe_broker_default(quorum.effective_config, names)
        _check_own_id(context, name, "expected {} or empty string, but received {}")
        rows = describe_broker(quorum.effective_config, names)
        return [*rows, *histories.of_transactions(context.node, names)]
    if resource.resource_type == RESOURCE_CLIENT_METRICS:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
        return describe_client_metrics(configs.of(RESOURCE_CLIENT_METRICS, name), names)
    if resource.resource_type == RESOURCE_GROUP:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        rows = describe_group(quorum.effective_config, configs.of(RESOURCE_GROUP, name), names)
        return [*rows, *histories.of_group(context.node, name, names)]
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    _check_own_id(context, name, "expected {} but received {}")
    return [_logger_row(each, level) for each, level in broker_loggers.levels().items() if not names or each in names]


def _logger_row(name: str, level: str) -> DescribedConfig:
    return DescribedConfig(
        name,
        level,
        Source.DYNAMIC_BROKER_LOGGER,
        (),
        ConfigType.UNKNOWN,
        read_only=False,
        sensitive=False,
        key=None,
    )


def _check_own_id(context: RequestContext, name: str, what: str) -> None:
    try:
        broker_id = java_int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != context.node.node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, {what.format(context.node.node_id, name)}",
        )


def _config(
    row: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    """``is_default``, which only version 0 has, stays false, as in Apache Kafka."""
    synonyms = []
    if request.include_synonyms:
        synonyms = [
            DescribeConfigsResponse.DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in row.synonyms
        ]
    return DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=row.name,
        value=row.value,
        read_only=row.read_only,
        config_source=row.source,
        is_sensitive=row.sensitive,
        synonyms=synonyms,
        config_type=row.type,
        documentation=_documentation(row, request),
    )


def _documentation(row: DescribedConfig, request: DescribeConfigsRequest) -> str | None:
    if row.source is Source.DYNAMIC_BROKER_LOGGER:
        return ""
    return row.doc if request.include_documentation else None
