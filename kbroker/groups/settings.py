"""What the configuration says about groups."""

from __future__ import annotations

from typing import NamedTuple

from kbroker.config import BrokerConfig


class GroupSettings(NamedTuple):
    """Kafka's defaults. Milliseconds, bytes, members."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2_147_483_647
    offset_metadata_max: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    retention_check_interval_ms: int = 600_000

    @classmethod
    def of(cls, config: BrokerConfig) -> GroupSettings:
        return cls(
            min_session_timeout_ms=config.integer("group.min.session.timeout.ms"),
            max_session_timeout_ms=config.integer("group.max.session.timeout.ms"),
            initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
            max_size=config.integer("group.max.size"),
            offset_metadata_max=config.integer("offset.metadata.max.bytes"),
            offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
            retention_check_interval_ms=config.integer("offsets.retention.check.interval.ms"),
        )
