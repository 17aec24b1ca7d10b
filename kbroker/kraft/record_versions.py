"""The version in which each metadata record is written at ``metadata.version`` 4.4-IV2 (level 33).

Kafka writes the lowest version that carries what the record says where that varies, else the highest of the level.
"""

from __future__ import annotations

from typing import Any, Final

from kbroker.protocol.messages.records import metadata as m

_VERSIONS: Final[dict[type, int]] = {
    m.PartitionRecord: 2,
    m.PartitionChangeRecord: 2,
    m.RegisterBrokerRecord: 4,
}


def version_of(record: Any) -> int:
    """The version to encode ``record`` in."""
    if isinstance(record, m.BrokerRegistrationChangeRecord):
        if record.cordoned_log_dirs is not None:
            return 3
        if record.log_dirs:
            return 2
        return 1 if record.in_controlled_shutdown else 0
    return _VERSIONS.get(type(record), 0)
