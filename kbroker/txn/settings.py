"""What the configuration and the features say about transactions, read at each use: a dynamic change acts at once."""

from __future__ import annotations

from typing import NamedTuple

from kbroker.config import BrokerConfig


class TransactionSettings(NamedTuple):
    """Kafka's defaults. Milliseconds. ``feature_level`` is that of ``transaction.version``."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    abort_interval_ms: int = 10_000
    expiry_interval_ms: int = 3_600_000
    feature_level: int = 2

    @classmethod
    def of(cls, config: BrokerConfig, feature_level: int) -> TransactionSettings:
        return cls(
            max_timeout_ms=config.integer("transaction.max.timeout.ms"),
            id_expiration_ms=config.integer("transactional.id.expiration.ms"),
            abort_interval_ms=config.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiry_interval_ms=config.integer("transaction.remove.expired.transaction.cleanup.interval.ms"),
            feature_level=feature_level,
        )
