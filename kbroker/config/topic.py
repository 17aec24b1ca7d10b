"""``TopicConfig``: a topic's configuration as its log and its handlers use it (Kafka's ``LogConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kbroker.config.broker import BrokerConfig
from kbroker.config.java_maps import in_map_order
from kbroker.config.registry import TOPIC_KEYS, Effect
from kbroker.config.values import ConfigError, Value, parse

UNSET = -2
"""The value of ``local.retention.*`` that means: as ``retention.*``."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One attribute for every topic key; what is computed from several is below them. Make one with ``resolve``."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    flush_messages: int
    flush_ms: int
    retention_bytes: int
    retention_ms: int
    max_message_bytes: int
    max_decompressed_message_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    file_delete_delay_ms: int
    min_cleanable_dirty_ratio: float
    cleanup_policy: tuple[str, ...]
    unclean_leader_election_enable: bool
    min_insync_replicas: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    preallocate: bool
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    leader_replication_throttled_replicas: tuple[str, ...]
    follower_replication_throttled_replicas: tuple[str, ...]
    remote_storage_enable: bool
    local_retention_ms: int
    local_retention_bytes: int
    remote_copy_lag_ms: int
    remote_copy_lag_bytes: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool
    errors_deadletterqueue_group_enable: bool
    internal_segment_bytes: int | None
    # Computed, because they are asked on every append.
    compact: bool
    delete: bool
    log_append_time: bool

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str]) -> TopicConfig:
        """The broker's values, with the topic's own on top. Raises ``ConfigError`` for a value that cannot be.

        Names that no topic key has are ignored: they may be in the metadata log of a newer broker.
        """
        values = _resolve(broker, overrides)
        arguments: dict[str, object] = {
            name.replace(".", "_"): tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        policies = values["cleanup.policy"]
        if not isinstance(policies, list):
            raise TypeError("cleanup.policy is a list")
        if values["internal.segment.bytes"] is not None:
            # Kafka's way for tests to get below the least size of a segment.
            arguments["segment_bytes"] = values["internal.segment.bytes"]
        return cls(
            **arguments,  # type: ignore[arg-type]
            compact="compact" in policies,
            delete="delete" in policies,
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        )

    @property
    def max_segment_ms(self) -> int:
        """After how long a segment is rolled: compaction must get at a record before its lag is over."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms


def _resolve(broker: BrokerConfig, overrides: Mapping[str, str]) -> dict[str, Value]:
    values = dict(broker.topic_defaults)
    for name in values:
        if name in overrides:
            values[name] = parse(TOPIC_KEYS[name], overrides[name])
    return values


def validate_topic_configs(overrides: Mapping[str, str | None], broker: BrokerConfig) -> None:
    """Check a topic's whole set of overrides as Kafka's ``LogConfig.validate`` does, names first.

    Raises ``ConfigError``, which clients get as INVALID_CONFIG.
    """
    nulls = [name for name, value in overrides.items() if value is None]
    if nulls:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        raise ConfigError(nulls[0], None, message, message=message)
    texts = {name: value for name, value in overrides.items() if value is not None}
    unknown = [name for name in in_map_order(texts) if name not in TOPIC_KEYS]
    if unknown:
        message = f"Unknown topic config name: {unknown[0]}"
        raise ConfigError(unknown[0], texts[unknown[0]], message, message=message)
    values = _resolve(broker, texts)
    _check_together(values)
    for name, text in texts.items():
        key = TOPIC_KEYS[name]
        if key.effect is Effect.NOT_SERVED and values[name] != parse(key, key.default):
            raise ConfigError(name, text, f"kbroker does not serve this yet; leave it at {key.default}")


def _check_together(values: Mapping[str, Value]) -> None:
    least, most = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if isinstance(least, int) and isinstance(most, int) and least > most:
        message = f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        raise ConfigError("min.compaction.lag.ms", least, message, message=message)
    if values["remote.storage.enable"]:
        message = (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
        raise ConfigError("remote.storage.enable", True, message, message=message)
