"""DescribeCluster."""

from __future__ import annotations

from kbroker.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.reference.conversation import Conversation, question


@question(range(3))
def the_cluster(c: Conversation, version: int) -> None:
    for operations in (False, True):
        c.ask(DescribeClusterRequest(include_cluster_authorized_operations=operations), version)


@question(range(1, 3))
def endpoint_types(c: Conversation, version: int) -> None:
    for endpoint_type in (0, 1, 2, 3, -1):
        answer = c.ask(DescribeClusterRequest(endpoint_type=endpoint_type), version, label=f"type {endpoint_type}")
        c.note("answered", answer is not None)


@question(range(2, 3))
def fenced_brokers_too(c: Conversation, version: int) -> None:
    c.ask(DescribeClusterRequest(include_fenced_brokers=True), version)
