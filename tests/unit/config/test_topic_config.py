"""``TopicConfig`` resolves as Kafka's ``LogConfig`` does, and refuses what it refuses."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kbroker.config import TOPIC_KEYS, BrokerConfig, ConfigError, TopicConfig, validate_topic_configs

BROKER = BrokerConfig({})


def test_there_is_an_attribute_for_every_topic_key() -> None:
    attributes = {field.name for field in fields(TopicConfig)} - {"compact", "delete", "log_append_time"}
    assert attributes == {name.replace(".", "_") for name in TOPIC_KEYS}


def test_the_brokers_values_are_the_topics_defaults() -> None:
    broker = BrokerConfig({"log.segment.bytes": "2097152", "log.retention.hours": "1", "log.cleanup.policy": "compact"})
    config = TopicConfig.resolve(broker, {"retention.ms": "5"})
    assert (config.segment_bytes, config.retention_ms, config.compact, config.delete) == (2097152, 5, True, False)
    assert TopicConfig.resolve(broker, {}).retention_ms == 3_600_000


def test_a_topic_without_a_policy_neither_deletes_nor_compacts() -> None:
    config = TopicConfig.resolve(BROKER, {"cleanup.policy": ""})
    assert (config.cleanup_policy, config.compact, config.delete) == ((), False, False)


def test_a_compacted_segment_is_rolled_in_time_for_its_lag() -> None:
    overrides = {"cleanup.policy": "compact", "max.compaction.lag.ms": "1000"}
    assert TopicConfig.resolve(BROKER, overrides).max_segment_ms == 1000
    assert TopicConfig.resolve(BROKER, {"max.compaction.lag.ms": "1000"}).max_segment_ms == 604_800_000


def test_a_test_may_go_below_the_least_segment_size() -> None:
    assert TopicConfig.resolve(BROKER, {"internal.segment.bytes": "100"}).segment_bytes == 100


def test_names_of_a_newer_broker_are_ignored_when_resolving() -> None:
    assert TopicConfig.resolve(BROKER, {"future.key": "1"}) == TopicConfig.resolve(BROKER, {})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nope": "1", "retention.ms": "x"}, "Unknown topic config name: nope"),
        ({"zzz": "1", "aaa": "2"}, "Unknown topic config name: aaa"),
        (
            {"retention.ms": None, "segment.bytes": None},
            "Null value not supported for topic configs: retention.ms,segment.bytes",
        ),
        ({"nope": None}, "Null value not supported for topic configs: nope"),
        # In Kafka's order of definition, not in the request's.
        (
            {"retention.ms": "x", "segment.bytes": "y"},
            "Invalid value y for configuration segment.bytes: Not a number of type INT",
        ),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true"},
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
    ],
)
def test_a_set_of_overrides_is_refused_in_kafkas_words(overrides: dict[str, str | None], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_topic_configs(overrides, BROKER)
    assert str(refused.value) == message


def test_a_conflict_with_the_brokers_own_value_is_found() -> None:
    with pytest.raises(ConfigError, match="conflict topic config setting"):
        validate_topic_configs(
            {"min.compaction.lag.ms": "10"}, BrokerConfig({"log.cleaner.max.compaction.lag.ms": "5"})
        )


def test_what_is_not_served_is_refused_unless_it_is_the_default() -> None:
    validate_topic_configs({"errors.deadletterqueue.group.enable": "false"}, BROKER)
    with pytest.raises(ConfigError, match="does not serve"):
        validate_topic_configs({"errors.deadletterqueue.group.enable": "true"}, BROKER)


def test_what_kafka_ignores_without_tiered_storage_is_taken() -> None:
    validate_topic_configs({"remote.log.copy.disable": "true", "local.retention.ms": "99", "retention.ms": "1"}, BROKER)
