"""What a topic's config means to a log: when segments are full, and what a batch must satisfy. Made once per config."""

from __future__ import annotations

from functools import cache
from typing import Protocol

from kbroker.log.segment import RollRules
from kbroker.protocol.records.batch import TimestampType
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.validation import UNBOUNDED, ValidationRules


class LogConfig(Protocol):
    """The topic settings that a log acts on; ``kbroker.config``'s ``TopicConfig`` has them all."""

    @property
    def segment_bytes(self) -> int: ...
    @property
    def segment_ms(self) -> int: ...
    @property
    def max_segment_ms(self) -> int: ...
    @property
    def segment_jitter_ms(self) -> int: ...
    @property
    def segment_index_bytes(self) -> int: ...
    @property
    def index_interval_bytes(self) -> int: ...
    @property
    def preallocate(self) -> bool: ...
    @property
    def flush_messages(self) -> int: ...
    @property
    def flush_ms(self) -> int: ...
    @property
    def retention_bytes(self) -> int: ...
    @property
    def retention_ms(self) -> int: ...
    @property
    def delete_retention_ms(self) -> int: ...
    @property
    def min_compaction_lag_ms(self) -> int: ...
    @property
    def max_compaction_lag_ms(self) -> int: ...
    @property
    def min_cleanable_dirty_ratio(self) -> float: ...
    @property
    def file_delete_delay_ms(self) -> int: ...
    @property
    def max_message_bytes(self) -> int: ...
    @property
    def max_decompressed_message_bytes(self) -> int: ...
    @property
    def compression_type(self) -> str: ...
    @property
    def compression_gzip_level(self) -> int: ...
    @property
    def compression_lz4_level(self) -> int: ...
    @property
    def compression_zstd_level(self) -> int: ...
    @property
    def message_timestamp_before_max_ms(self) -> int: ...
    @property
    def message_timestamp_after_max_ms(self) -> int: ...
    @property
    def compact(self) -> bool: ...
    @property
    def delete(self) -> bool: ...
    @property
    def log_append_time(self) -> bool: ...


def roll_rules(config: LogConfig) -> RollRules:
    return RollRules(
        segment_bytes=config.segment_bytes,
        segment_ms=config.max_segment_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        preallocate=config.preallocate,
    )


def validation_rules(config: LogConfig, *, full: bool) -> ValidationRules:
    """What a producer's batch is held against."""
    codec, level = topic_codec(config)
    return ValidationRules(
        compacted=config.compact,
        timestamp_type=TimestampType.LOG_APPEND_TIME if config.log_append_time else TimestampType.CREATE_TIME,
        before_max_ms=config.message_timestamp_before_max_ms,
        after_max_ms=config.message_timestamp_after_max_ms,
        compression=codec,
        compression_level=level,
        max_message_bytes=config.max_message_bytes,
        max_record_bytes=config.max_decompressed_message_bytes,
        full=full,
    )


def internal_rules(config: LogConfig, *, limited: bool) -> ValidationRules:
    """What a batch of this broker's own making is held against: its size where ``limited``. Records are not walked."""
    return _internal_rules(config.log_append_time, config.max_message_bytes if limited else UNBOUNDED)


@cache
def _internal_rules(log_append_time: bool, max_message_bytes: int) -> ValidationRules:
    return ValidationRules(
        timestamp_type=TimestampType.LOG_APPEND_TIME if log_append_time else TimestampType.CREATE_TIME,
        after_max_ms=UNBOUNDED,
        max_message_bytes=max_message_bytes,
    )


def topic_codec(config: LogConfig) -> tuple[Compression | None, int | None]:
    """The codec that a topic demands and its level; None is ``producer``: as the records come."""
    name = config.compression_type
    levels = {
        "gzip": config.compression_gzip_level,
        "lz4": config.compression_lz4_level,
        "zstd": config.compression_zstd_level,
    }
    if name == "producer":
        return None, None
    if name == "uncompressed":
        return Compression.NONE, None
    return Compression[name.upper()], levels.get(name)
