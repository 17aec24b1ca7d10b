"""Histories are in an answer that was asked for them by name, and in no other."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.groups.history import Rebalance
from kbroker.protocol.apis import ApiKey
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.txn.state import PutOff
from tests.unit.handlers.metadata_node import MetadataNode

BROKER, GROUP = 4, 32


def no_history(_name: str) -> list[Rebalance]:
    raise ApiError(ErrorCode.NOT_COORDINATOR)


@pytest.fixture
def services() -> Any:
    return SimpleNamespace(
        groups=SimpleNamespace(history=lambda name: [Rebalance(5, 3, 2, f"{name} began")]),
        transactions=SimpleNamespace(history=lambda name: (PutOff(6, 7, 8, "fenced"),) if name == "a" else ()),
    )


@pytest.fixture
def node(services: Any) -> Any:
    node = MetadataNode()
    cast("Any", node.node).groups = services.groups
    cast("Any", node.node).transactions = services.transactions
    yield node
    node.close()


def ask(node: MetadataNode, kind: int, name: str, keys: list[str] | None) -> Any:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    (result,) = node.ask(ApiKey.DESCRIBE_CONFIGS, 4, DescribeConfigsRequest(resources=[resource])).results
    return result


def test_a_group_tells_why_it_rebalanced(node: MetadataNode) -> None:
    (row,) = ask(node, GROUP, "g", ["kbroker.group.history"]).configs
    assert row.read_only
    assert json.loads(row.value) == [{"at": 5, "generation": 3, "members": 2, "reason": "g began"}]


def test_a_transactional_id_tells_who_fenced_it(node: MetadataNode) -> None:
    keys = ["kbroker.transaction.history.a", "kbroker.transaction.history.b", "log.dirs"]
    rows = {row.name: row.value for row in ask(node, BROKER, "1", keys).configs}
    assert json.loads(rows[keys[0]]) == [{"at": 6, "producer_id": 7, "producer_epoch": 8, "reason": "fenced"}]
    assert rows[keys[1]] == "[]"
    assert set(rows) == set(keys)


@pytest.mark.parametrize("keys", [None, [], ["consumer.session.timeout.ms"]])
@pytest.mark.parametrize(("kind", "name"), [(GROUP, "g"), (BROKER, "1")])
def test_nobody_else_sees_them(node: MetadataNode, kind: int, name: str, keys: list[str] | None) -> None:
    names = [row.name for row in ask(node, kind, name, keys).configs]
    assert not [each for each in names if "history" in each]


def test_only_the_coordinator_tells(node: MetadataNode, services: Any) -> None:
    services.groups.history = no_history
    assert ask(node, GROUP, "g", ["kbroker.group.history"]).error_code == ErrorCode.NOT_COORDINATOR
    assert ask(node, GROUP, "g", None).error_code == ErrorCode.NONE
