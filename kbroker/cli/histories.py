"""Why things happened, as a kbroker coordinator remembers it: read over the wire, made ready for people."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from kbroker.cli.cluster_client import Cluster, CommandError, check
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest


async def read_history(cluster: Cluster, broker: int, kind: int, name: str, key: str) -> list[dict[str, Any]]:
    """The entries under ``key``, oldest first, with their times in words. Raises ``CommandError``."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=[key]
            )
        ]
    )
    (result,) = (await cluster.ask(request, broker=broker)).results
    check(name, result.error_code, result.error_message)
    for row in result.configs:
        if row.name == key:
            return [{**each, "at": local_time(each["at"])} for each in json.loads(row.value or "[]")]
    raise CommandError(f"broker {broker} keeps no histories", "the broker's log; only kbroker tells why over the wire")


def local_time(ms: int) -> str:
    """A moment as people here read it."""
    return datetime.fromtimestamp(ms / 1000).astimezone().isoformat(timespec="milliseconds")
