"""The table of APIs."""

from __future__ import annotations

import pytest

from kbroker.protocol.apis import API_BY_KEY, ApiKey, request_header_version, response_header_version


def test_every_api_finds_its_messages() -> None:
    for api in API_BY_KEY.values():
        assert api.request_class().api_key == api.key
        assert api.response_class().api_key == api.key
        assert api.request_class().valid_versions == api.response_class().valid_versions
        assert api.request_class().valid_versions.lowest == api.oldest_declared
        assert api.request_class().flexible_versions == api.response_class().flexible_versions


def test_an_api_says_what_kafka_serves_and_what_is_declared() -> None:
    produce = API_BY_KEY[ApiKey.PRODUCE]
    assert (produce.oldest, produce.latest_stable, produce.oldest_declared, produce.first_flexible) == (3, 13, 0, 9)
    assert API_BY_KEY[ApiKey.LEADER_AND_ISR].latest_stable == -1


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.CONTROLLED_SHUTDOWN, 0, 0, 0),
        (ApiKey.CONTROLLED_SHUTDOWN, 1, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
    ],
)
def test_headers_follow_the_apis_encoding(key: int, version: int, request_header: int, response_header: int) -> None:
    assert request_header_version(key, version) == request_header
    assert response_header_version(key, version) == response_header
