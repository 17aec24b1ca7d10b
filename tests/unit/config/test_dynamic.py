"""What may be altered while a broker runs; the messages were read off a running Apache Kafka 4.4."""

from __future__ import annotations

import pytest

from kbroker.config import BrokerConfig, ConfigError
from kbroker.config.checks import check_start
from kbroker.config.dynamic import validate_broker_alteration, validate_group_configs, with_stored

PER_LISTENER = "These security configs can be dynamically updated only per-listener using the listener prefix"
NESTED = (
    "Invalid value org.apache.kafka.common.config.ConfigException: ",
    " for configuration Invalid dynamic configuration",
)
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
    ({"log.cleanup.policy": "a,a"}, True, "Configuration 'log.cleanup.policy' values must not be duplicated."),
    (
        {"listeners": "a,a"},  # each value is looked at before who may have it
        True,
        "Configuration 'listeners' values must not be duplicated.",
    ),
    (
        {"principal.builder.class": "x"},
        False,
        "Invalid value x for configuration principal.builder.class: Class x could not be found.",
    ),
    (
        {"cordoned.log.dirs": "/a,/b"},
        False,
        (
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing "
            "entries : /a, /b"
        ),
    ),
    ({"log.roll.ms": "0"}, False, "requirement failed: log.roll.ms must be greater than or equal to 1"),
    (
        {"log.cleaner.dedupe.buffer.size": "1048576"},
        True,
        "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    ),
    (
        {"log.cleaner.threads": "3"},
        True,
        f"{NESTED[0]}Log cleaner threads cannot be increased to more than double the current value 1{NESTED[1]}",
    ),
    ({"max.connections": "0"}, True, f"{NESTED[0]}Invalid max.connections 0{NESTED[1]}"),
    (
        {"log.retention.ms": "50", "log.local.retention.ms": "100"},
        True,
        (
            f"{NESTED[0]}Invalid value 100 for configuration log.local.retention.ms: Value must not be more than "
            f"log.retention.ms property value: 50{NESTED[1]}"
        ),
    ),
    (
        {"log.retention.bytes": "50", "log.remote.copy.lag.bytes": "100"},
        True,
        (
            f"{NESTED[0]}Invalid value 100 for configuration log.remote.copy.lag.bytes: Value must not exceed "
            f"log.local.retention.bytes (effective value: 50){NESTED[1]}"
        ),
    ),
    (
        {"metric.reporters": "x"},
        True,
        (
            f"{NESTED[0]}Validation of dynamic config update of Set(metric.reporters) failed with class class "
            f"kafka.server.DynamicMetricsReporters{NESTED[1]}"
        ),
    ),
]


@pytest.mark.parametrize(("values", "cluster_wide", "message"), REFUSED)
def test_an_alteration_is_refused_in_kafkas_words(values: dict[str, str], cluster_wide: bool, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate_broker_alteration(BrokerConfig({}), values, cluster_wide=cluster_wide)
    assert str(refused.value) == message


def test_what_is_dynamic_is_taken_and_so_is_what_nobody_knows() -> None:
    values = {"log.retention.ms": "-2", "log.cleanup.policy": "compact", "my.reporter": "1", "config.providers": ","}
    validate_broker_alteration(BrokerConfig({}), values, cluster_wide=True)
    validate_broker_alteration(BrokerConfig({}), {**values, "ssl.protocol": "x"}, cluster_wide=False)


def test_an_alteration_is_checked_with_what_it_leaves_as_it_is() -> None:
    broker = BrokerConfig({"log.cleaner.dedupe.buffer.size": "3000000"})
    with pytest.raises(ConfigError, match="at least 1MB per cleaner thread"):
        validate_broker_alteration(broker, {"log.cleaner.threads": "3"}, cluster_wide=False)


def test_stored_values_that_are_not_taken_any_more_are_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    stored = {
        "log.segment.bytes": "1000",
        "num.partitions": "3",
        "ssl.keystore.location": "/f",
        "listener.name.x.ssl.keystore.location": "/f",
        "my.own": "x",
        "log.retention.ms": "5",
    }
    config = with_stored(BrokerConfig({}), default=stored, own={**stored, "log.roll.ms": "soon"})
    assert config.dynamic_default == {"my.own": "x", "log.retention.ms": "5"}
    assert config.dynamic_broker.keys() == {"listener.name.x.ssl.keystore.location", "my.own", "log.retention.ms"}
    assert "of the cluster that are not taken any more" in caplog.text
    assert "log.roll.ms" in caplog.text


def test_lags_may_be_altered_to_what_no_broker_starts_with() -> None:
    former, values = {"log.cleaner.max.compaction.lag.ms": "5"}, {"log.cleaner.min.compaction.lag.ms": "10"}
    validate_broker_alteration(BrokerConfig(former), values, cluster_wide=False)
    with pytest.raises(ConfigError, match="must not be greater"):
        check_start(BrokerConfig({**former, **values}))


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
        ({"streams.num.warmup.replicas": "21"}, "streams.num.warmup.replicas must be less than or equal to 20"),
        (
            {"streams.task.offset.interval.ms": "14999"},
            "streams.task.offset.interval.ms must be greater than or equal to 15000",
        ),
        (
            {"streams.assignor.name": "x"},
            "streams.assignor.name 'x' is not a registered task assignor. Registered assignors are: [sticky].",
        ),
        (
            {"streams.rack.aware.assignment.tags": "a,a"},
            "streams.rack.aware.assignment.tags must not contain duplicate tag keys.",
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
