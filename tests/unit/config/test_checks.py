"""What a configuration says as a whole."""

from __future__ import annotations

import pytest

from kbroker.config import BrokerConfig, ConfigError
from kbroker.config.checks import check_start, remarks, warnings


def test_the_defaults_are_in_order() -> None:
    check_start(BrokerConfig({}))


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"ssl.keystore.location": "/k"}, "does not serve"),
        ({"listener.name.client.sasl.enabled.mechanisms": "PLAIN"}, "does not serve"),
        ({"authorizer.class.name": "org.example.Authorizer"}, "does not serve"),
        ({"node.id": "1", "broker.id": "2"}, "must be set to the same value"),
        ({"node.id": "-1"}, "at least 0"),
        ({"process.roles": "broker"}, "both roles"),
        ({"controller.quorum.voters": "1@a:1,2@b:2"}, "quorum of one"),
        ({"log.roll.ms": "0"}, "greater than or equal to 1"),
        ({"log.retention.ms": "0"}, "must be unlimited"),
        ({"log.cleaner.max.compaction.lag.ms": "1", "log.cleaner.min.compaction.lag.ms": "2"}, "must not be greater"),
        ({"log.cleaner.threads": "3", "log.cleaner.dedupe.buffer.size": "3000000"}, "at least 1MB per cleaner thread"),
        ({"listeners": "SSL://:9092"}, "does not serve SSL"),
        ({"listeners": "CONTROLLER://:9092"}, "at least one listener"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"}, "nonroutable meta-address"),
        ({"listeners": "PLAINTEXT://:1", "advertised.listeners": "SSL://a:1"}, "must be among those of listeners"),
        ({"inter.broker.listener.name": "OTHER"}, "defined in advertised.listeners"),
        ({"max.connections.per.ip": "0"}, "can be set to zero only if"),
        ({"max.connections.per.ip.overrides": "10.0.0.1"}, "overrides': begin 0, end -1, length 8"),
        ({"max.connections.per.ip.overrides": "10.0.0.1:x"}, 'For input string: "x"'),
        ({"max.connections.per.ip.overrides": "[::1]:3, ::1:2"}, "overrides contains invalid addresses : [::1]"),
        ({"max.connections.per.ip.overrides": "10.0.0.1#:5"}, "contains invalid addresses : 10.0.0.1#"),
        ({"queued.max.request.bytes": "1"}, "must be larger or equal to socket.request.max.bytes"),
        ({"connections.max.idle.ms": "100"}, "connection.failed.authentication.delay.ms=100 should always be less"),
        ({"replica.socket.timeout.ms": "1"}, "to prevent unnecessary socket timeouts"),
        ({"replica.lag.time.max.ms": "1"}, "to prevent frequent changes in ISR"),
        ({"log.cleaner.threads": "0"}, "at least 1"),
        ({"offsets.topic.compression.codec": "5"}, "Unknown compression type id: 5"),
        ({"inter.broker.listener.name": ""}, "null or empty"),
        ({"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"}, "Only one of"),
        ({"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol"),
        (
            {"group.consumer.session.timeout.ms": "60001"},
            "group.consumer.session.timeout.ms must be less than or equal to group.consumer.max.session.timeout.ms",
        ),
        (
            {"group.share.min.delivery.count.limit": "5", "group.share.delivery.count.limit": "4"},
            "group.share.delivery.count.limit must be greater than or equal to group.share.min.delivery.count.limit",
        ),
        (
            {"group.streams.session.timeout.ms": "7", "group.streams.min.session.timeout.ms": "7"},
            "group.streams.heartbeat.interval.ms must be less than group.streams.session.timeout.ms",
        ),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_start(BrokerConfig(values))
    assert reason in str(refused.value)


def test_a_secret_is_not_in_the_error() -> None:
    with pytest.raises(ConfigError) as refused:
        check_start(BrokerConfig({"ssl.keystore.password": "secret"}))
    assert "secret" not in str(refused.value)


def test_unknown_keys_are_named_with_the_nearest_known_one() -> None:
    config = BrokerConfig({"num.partition": "1", "my.own": "x", "kbroker.internal.topics.clamp.replication": "true"})
    assert warnings(config) == [
        "unknown key num.partition is ignored; did you mean num.partitions?",
        "unknown key my.own is ignored",
    ]


def test_a_group_that_nobody_can_join_is_named() -> None:
    config = BrokerConfig({"group.min.session.timeout.ms": "6000", "group.max.session.timeout.ms": "5000"})
    check_start(config)
    assert "no classic group can be joined" in warnings(config)[0]


def test_three_replicas_on_one_broker_are_named() -> None:
    assert len(warnings(BrokerConfig({}))) == 2
    assert "offsets.topic.replication.factor=3 cannot work on one broker" in warnings(BrokerConfig({}))[0]
    assert warnings(BrokerConfig({"kbroker.internal.topics.clamp.replication": "true"})) == []


def test_keys_without_a_meaning_are_named_when_they_were_changed() -> None:
    assert remarks(BrokerConfig({"num.io.threads": "8"})) == []
    assert remarks(BrokerConfig({"num.io.threads": "9"})) == [
        "these keys have no meaning here and are ignored: num.io.threads"
    ]
