"""The version in which each metadata record is written at a level of ``metadata.version``.

Kafka writes the lowest version that carries what the record says where that varies, else the highest of the level.
"""

from __future__ import annotations

from typing import Any, Final

from kbroker.kraft.metadata_versions import CORDONED_DIRECTORIES, DIRECTORIES, ELIGIBLE_REPLICAS
from kbroker.protocol.messages.records import metadata as m

_SINCE: Final[dict[type, tuple[tuple[int, int], ...]]] = {
    m.PartitionRecord: ((ELIGIBLE_REPLICAS, 2), (DIRECTORIES, 1)),
    m.PartitionChangeRecord: ((ELIGIBLE_REPLICAS, 2), (DIRECTORIES, 1)),
    m.RegisterBrokerRecord: ((CORDONED_DIRECTORIES, 4), (DIRECTORIES, 3), (8, 2), (0, 1)),
}
"""From which level on a record has which version, newest first; 0 before."""


def version_of(record: Any, level: int) -> int:
    """The version to encode ``record`` in."""
    if isinstance(record, m.BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return next((version for since, version in _SINCE.get(type(record), ()) if level >= since), 0)
