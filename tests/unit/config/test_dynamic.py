"""What may be altered while a broker runs; the messages were read off a running Apache Kafka 4.4."""

from __future__ import annotations

import pytest

from kbroker.config import BrokerConfig, ConfigError
from kbroker.config.dynamic import validate_broker_alteration, validate_group_configs

PER_LISTENER = "These security configs can be dynamically updated only per-listener using the listener prefix"
REFUSED = [
    ({"log.retention.ms": "x"}, False, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
    ({"num.partitions": "3"}, False, "Cannot update these configs dynamically: [num.partitions]"),
    (
        {"listeners": "PLAINTEXT://:1"},
        True,
        "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
    ),
    ({"ssl.keystore.location": "/x"}, False, f"{PER_LISTENER}: [ssl.keystore.location]"),
    ({"ssl.keystore.location": "/x"}, True, f"{PER_LISTENER}: [ssl.keystore.location]"),
    (
        {"message.max.bytes": "-1"},
        False,
        "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
    ),
]


@pytest.mark.parametrize(("values", "cluster_wide", "message"), REFUSED)
def test_an_alteration_is_refused_in_kafkas_words(values: dict[str, str], cluster_wide: bool, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_broker_alteration(BrokerConfig({}), values, cluster_wide=cluster_wide)
    assert str(refused.value) == message


def test_what_is_dynamic_is_taken_and_so_is_what_nobody_knows() -> None:
    values = {"log.retention.ms": "-2", "log.cleanup.policy": "compact", "my.reporter": "1"}
    validate_broker_alteration(BrokerConfig({}), values, cluster_wide=True)
    validate_broker_alteration(BrokerConfig({}), values, cluster_wide=False)


def test_an_alteration_is_checked_with_what_it_leaves_as_it_is() -> None:
    broker = BrokerConfig({"log.cleaner.max.compaction.lag.ms": "5"})
    with pytest.raises(ConfigError, match="must not be greater"):
        validate_broker_alteration(broker, {"log.cleaner.min.compaction.lag.ms": "10"}, cluster_wide=False)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nope": "1"}, "Unknown group config name: nope"),
        (
            {"consumer.session.timeout.ms": "1"},
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            {"consumer.heartbeat.interval.ms": "999999"},
            "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.",
        ),
    ],
)
def test_a_groups_values_are_refused_in_kafkas_words(values: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_group_configs(values, BrokerConfig({}))
    assert str(refused.value) == message


def test_a_groups_values_within_the_brokers_limits_are_taken() -> None:
    validate_group_configs(
        {"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}, BrokerConfig()
    )
