"""What a coordinator remembers of why things happened, as rows of DescribeConfigs.

Kafka has no API for this. The rows are kbroker's own read-only keys, and there only for a request that names one, so
that every other answer stays equal to Kafka's:

- ``kbroker.group.history`` of a GROUP, asked at its coordinator: why its latest rebalances began;
- ``kbroker.transaction.history.<transactional id>`` of a BROKER, the id's coordinator (transactional ids are no
  resources): how the id's latest producers were fenced or timed out.

Values are JSON arrays of objects, oldest first. Histories are volatile: they begin anew with each coordinator.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kbroker.config import ConfigType
from kbroker.config.broker import Source
from kbroker.config.describe import DescribedConfig

if TYPE_CHECKING:
    from kbroker.handlers.context import Node

GROUP_HISTORY: Final = "kbroker.group.history"
TRANSACTION_HISTORY_PREFIX: Final = "kbroker.transaction.history."


def of_group(node: Node, group_id: str, names: Sequence[str] | None) -> list[DescribedConfig]:
    """A row if ``names`` asks for it. Raises ``ApiError`` where the group is not coordinated here."""
    if not names or GROUP_HISTORY not in names:
        return []
    rebalances = [
        {"at": each.wall_ms, "generation": each.generation, "members": each.members, "reason": each.reason}
        for each in node.groups.history(group_id)
    ]
    return [_row(GROUP_HISTORY, rebalances)]


def of_transactions(node: Node, names: Sequence[str] | None) -> list[DescribedConfig]:
    """A row for each id that ``names`` asks about. Raises ``ApiError`` where one is not coordinated here."""
    rows = []
    for name in names or ():
        if name.startswith(TRANSACTION_HISTORY_PREFIX):
            told = [
                {
                    "at": each.at_ms,
                    "producer_id": each.producer_id,
                    "producer_epoch": each.producer_epoch,
                    "reason": each.reason,
                }
                for each in node.transactions.history(name.removeprefix(TRANSACTION_HISTORY_PREFIX))
            ]
            rows.append(_row(name, told))
    return rows


def _row(name: str, value: list[dict[str, Any]]) -> DescribedConfig:
    text = json.dumps(value, ensure_ascii=False)
    return DescribedConfig(name, text, Source.UNKNOWN, (), ConfigType.STRING, read_only=True, sensitive=False, key=None)
