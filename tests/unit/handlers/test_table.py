"""The table of served APIs keeps to what is declared and what Apache Kafka serves."""

from __future__ import annotations

import pytest

from kbroker.handlers import SERVED
from kbroker.protocol.apis import API_BY_KEY, ApiKey


@pytest.mark.parametrize("key", list(SERVED))
def test_a_served_version_is_declared_and_up_to_the_latest_stable(key: int) -> None:
    row, api = SERVED[key], API_BY_KEY[key]
    assert row.module == api.module
    assert row.latest == api.latest_stable
    assert row.oldest <= api.oldest
    assert row.oldest >= api.oldest_declared


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS, ApiKey.METADATA])
def test_what_the_oldest_clients_send_is_served(key: ApiKey) -> None:
    assert SERVED[key].oldest == 0


def test_a_raw_key_finds_its_row() -> None:
    assert SERVED[0] is SERVED[ApiKey.PRODUCE]


@pytest.mark.parametrize("key", list(SERVED))
def test_a_handler_answers_and_knows_how_to_fail(key: int) -> None:
    module = SERVED[key].load()
    assert callable(module.handle)
    assert callable(module.error_response)
    assert SERVED[key].load() is module
