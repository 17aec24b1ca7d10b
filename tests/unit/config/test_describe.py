"""Rows of DescribeConfigs: values, sources, synonyms, sensitivity."""

from __future__ import annotations

from kbroker.config import BrokerConfig, ConfigType, Source
from kbroker.config.describe import (
    ConfigSynonym,
    DescribedConfig,
    describe_broker,
    describe_broker_default,
    describe_client_metrics,
    describe_group,
    describe_topic,
    effective_topic_configs,
)


def row(rows: list[DescribedConfig], name: str) -> DescribedConfig:
    return next(each for each in rows if each.name == name)


def test_a_topic_shows_its_37_keys_and_none_of_its_internal_ones() -> None:
    rows = describe_topic(BrokerConfig({}), {})
    assert len(rows) == 37
    assert "internal.segment.bytes" not in {each.name for each in rows}
    assert all(each.doc for each in rows)


def test_a_topics_own_value_stands_before_the_brokers() -> None:
    broker = BrokerConfig({"log.segment.bytes": "3145728"})
    described = row(describe_topic(broker, {"segment.bytes": " 2097152 "}), "segment.bytes")
    assert (described.value, described.source, described.type) == ("2097152", Source.TOPIC, ConfigType.INT)
    assert described.synonyms == (
        ConfigSynonym("segment.bytes", "2097152", Source.TOPIC),
        ConfigSynonym("log.segment.bytes", "3145728", Source.STATIC_BROKER),
        ConfigSynonym("log.segment.bytes", "1073741824", Source.DEFAULT),
    )


def test_a_default_in_other_units_is_no_synonym() -> None:
    """As in Kafka: ``log.retention.hours`` gives the value, but stands behind the key that is asked for."""
    described = row(describe_topic(BrokerConfig({"log.retention.hours": "1"}), {}), "retention.ms")
    assert (described.value, described.source, described.synonyms) == ("3600000", Source.DEFAULT, ())


def test_a_new_topic_is_told_texts_as_they_were_written_and_sources_in_any_unit() -> None:
    broker = BrokerConfig(
        {
            "log.retention.hours": " 5 ",
            "log.cleanup.policy": "compact, delete",
            "unclean.leader.election.enable": "TRUE",
        }
    ).with_dynamic(default={"log.roll.ms": "7"}, broker={"log.index.interval.bytes": "9"})
    found = {each.name: each for each in effective_topic_configs(broker, {"flush.ms": " 8 "})}
    assert list(found) == sorted(found)
    assert len(found) == 37
    for name, value, source in (
        ("retention.ms", "18000000", Source.STATIC_BROKER),
        ("cleanup.policy", "compact, delete", Source.STATIC_BROKER),
        ("unclean.leader.election.enable", "TRUE", Source.STATIC_BROKER),
        ("segment.ms", "7", Source.DYNAMIC_DEFAULT_BROKER),
        ("index.interval.bytes", "9", Source.DYNAMIC_BROKER),
        ("flush.ms", " 8 ", Source.TOPIC),
        ("min.cleanable.dirty.ratio", "0.5", Source.DEFAULT),
    ):
        assert found[name] == (name, value, source)


def test_only_wanted_names_are_described() -> None:
    assert [each.name for each in describe_topic(BrokerConfig({}), {}, ["retention.ms", "nope"])] == ["retention.ms"]
    assert len(describe_topic(BrokerConfig({}), {}, [])) == 37


def test_a_dynamic_default_stands_before_a_static_value() -> None:
    broker = BrokerConfig({}).with_dynamic(default={"min.insync.replicas": "1"}, broker={})
    described = row(describe_broker(broker), "min.insync.replicas")
    assert described.source is Source.DYNAMIC_DEFAULT_BROKER
    assert [synonym.source for synonym in described.synonyms] == [Source.DYNAMIC_DEFAULT_BROKER, Source.DEFAULT]
    assert not described.read_only
    assert [each.name for each in describe_broker_default(broker)] == ["min.insync.replicas"]


def test_secrets_are_never_shown() -> None:
    described = row(describe_broker(BrokerConfig({"ssl.key.password": "secret"})), "ssl.key.password")
    assert described.sensitive
    assert described.value is None
    assert {synonym.value for synonym in described.synonyms} == {None}


def test_an_unknown_broker_key_is_shown_without_its_value() -> None:
    described = row(describe_broker(BrokerConfig({"my.reporter.token": "x"})), "my.reporter.token")
    assert (described.value, described.sensitive, described.type) == (None, True, ConfigType.UNKNOWN)
    assert described.source is Source.STATIC_BROKER


def test_a_group_shows_its_brokers_values() -> None:
    rows = describe_group(
        BrokerConfig({"group.consumer.session.timeout.ms": "50000"}), {"share.isolation.level": "read_committed"}
    )
    assert row(rows, "consumer.session.timeout.ms").value == "50000"
    assert row(rows, "share.isolation.level").source is Source.GROUP
    assert row(rows, "streams.assignor.name").value == "sticky"


def test_client_metrics_have_defaults_without_a_subscription() -> None:
    rows = describe_client_metrics({"interval.ms": "100"})
    assert row(rows, "interval.ms").source is Source.CLIENT_METRICS
    assert row(rows, "match").source is Source.DEFAULT
