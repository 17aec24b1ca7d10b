"""``BrokerConfig``: layers, subjects that several keys share, listeners."""

from __future__ import annotations

import pytest

from kbroker.config import BrokerConfig, ConfigError, Layer, Listener, Source


def test_defaults_fill_what_nobody_set() -> None:
    config = BrokerConfig({})
    assert config.integer("num.partitions") == 1
    assert config.boolean("auto.create.topics.enable") is True
    assert config.floating("log.cleaner.min.cleanable.ratio") == 0.5
    assert config.string("broker.rack") is None
    assert config.strings("log.cleanup.policy") == ["delete"]
    assert config.source("num.partitions") is Source.DEFAULT
    assert config.node_id == 1


def test_a_bad_value_is_refused_when_the_snapshot_is_made() -> None:
    with pytest.raises(
        ConfigError, match=r"Invalid value 0 for configuration num.partitions: Value must be at least 1"
    ):
        BrokerConfig({"num.partitions": "0"})


def test_a_wrong_getter_is_our_own_mistake() -> None:
    with pytest.raises(TypeError):
        BrokerConfig({}).strings("num.partitions")
    with pytest.raises(KeyError):
        BrokerConfig({}).integer("no.such.key")


def test_the_stronger_layer_wins_and_knows_its_place() -> None:
    file = Layer({"num.partitions": "3", "log.dirs": "/file"}, "a file", {"num.partitions": "a file line 7"})
    flag = Layer({"log.dirs": "/flag"}, "a flag")
    config = BrokerConfig.from_layers([flag, file])
    assert config.log_dirs == ("/flag",)
    assert config.place("log.dirs") == "a flag"
    assert config.place("num.partitions") == "a file line 7"


def test_a_stronger_layer_wins_with_another_key_of_the_same_subject() -> None:
    weak = Layer({"log.retention.ms": "1000", "log.dirs": "/weak"}, "weak")
    strong = Layer({"log.retention.hours": "2", "log.dir": "/strong"}, "strong")
    config = BrokerConfig.from_layers([strong, weak])
    assert config.log_retention_ms == 7_200_000
    assert config.log_dirs == ("/strong",)


@pytest.mark.parametrize(
    ("values", "retention_ms"),
    [
        ({}, 604_800_000),
        ({"log.retention.hours": "1"}, 3_600_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "1", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.ms": "-1"}, -1),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-5"}, -1),
    ],
)
def test_retention_is_said_by_the_finest_unit(values: dict[str, str], retention_ms: int) -> None:
    config = BrokerConfig(values)
    assert config.log_retention_ms == retention_ms
    assert config.topic_defaults["retention.ms"] == retention_ms


def test_rolling_and_flushing_follow_their_older_names() -> None:
    config = BrokerConfig({"log.roll.hours": "1", "log.roll.jitter.hours": "2", "log.flush.scheduler.interval.ms": "5"})
    assert (config.log_roll_ms, config.log_roll_jitter_ms, config.log_flush_interval_ms) == (3_600_000, 7_200_000, 5)
    assert BrokerConfig({"log.roll.ms": "9", "log.roll.hours": "1"}).log_roll_ms == 9


def test_node_id_and_broker_id_are_one() -> None:
    assert BrokerConfig({"broker.id": "7"}).node_id == 7
    assert BrokerConfig({"node.id": "7"}).integer("broker.id") == 7


def test_a_dynamic_value_is_stronger_than_a_static_one_of_its_subject() -> None:
    static = BrokerConfig({"log.retention.ms": "1000", "num.partitions": "2"})
    dynamic = static.with_dynamic(default={"log.retention.ms": "5"}, broker={"log.retention.ms": "7"})
    assert dynamic.log_retention_ms == 7
    assert dynamic.source("log.retention.ms") is Source.DYNAMIC_BROKER
    assert dynamic.with_dynamic(default={"log.retention.ms": "5"}, broker={}).log_retention_ms == 5
    assert static.log_retention_ms == 1000


def test_listeners_are_parsed_with_their_protocols() -> None:
    config = BrokerConfig(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://127.0.0.1:9093,inner://[::1]:9094",
            "advertised.listeners": "PLAINTEXT://broker.example:19092",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT, controller : plaintext ,INNER:PLAINTEXT",
        }
    )
    assert config.listeners == (
        Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),
        Listener("CONTROLLER", "127.0.0.1", 9093, "PLAINTEXT"),
        Listener("INNER", "::1", 9094, "PLAINTEXT"),
    )
    assert [listener.name for listener in config.broker_listeners] == ["PLAINTEXT", "INNER"]
    assert [listener.name for listener in config.controller_listeners] == ["CONTROLLER"]
    assert config.advertised_listeners == (Listener("PLAINTEXT", "broker.example", 19092, "PLAINTEXT"),)
    assert str(config.listeners[2]) == "INNER://[::1]:9094"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "CONTROLLER://:9093"),
        ({"advertised.listeners": "PLAINTEXT://h:1"}, "CONTROLLER://:9093"),
        ({"advertised.listeners": "PLAINTEXT://h:1,CONTROLLER://h:2"}, "CONTROLLER://h:2"),
        ({"controller.quorum.voters": "1@[::1]:3"}, "CONTROLLER://[::1]:3"),
        ({"controller.quorum.voters": "1@v:3", "advertised.listeners": "CONTROLLER://h:2"}, "CONTROLLER://v:3"),
        ({"controller.quorum.voters": "1"}, "CONTROLLER://:9093"),
    ],
)
def test_a_voter_is_where_the_voters_have_it_or_where_it_is_advertised(settings: dict[str, str], told: str) -> None:
    listeners = {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}
    assert list(map(str, BrokerConfig({**listeners, **settings}).controller_endpoints)) == [told]


def test_a_voter_without_a_listener_of_its_own_is_told_of_nowhere() -> None:
    assert BrokerConfig({"listeners": "PLAINTEXT://:9092"}).controller_endpoints == ()


def test_controllers_speak_plaintext_when_nobody_maps_them() -> None:
    assert BrokerConfig({"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}).protocols["CONTROLLER"] == "PLAINTEXT"


@pytest.mark.parametrize(
    ("listeners", "reason"),
    [
        ("PLAINTEXT//:9092", "Unable to parse"),
        ("PLAINTEXT://:90921", "port must be between"),
        ("OTHER://:9092", "No security protocol defined for listener OTHER"),
        ("PLAINTEXT://:9092,PLAINTEXT://:9093", "different name"),
        ("PLAINTEXT://:9092,SSL://:9092", "different port"),
        ("PLAINTEXT://broker.example:9092,SSL://[::1]:9092", "different port"),
    ],
)
def test_listeners_that_cannot_be_are_refused(listeners: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        _ = BrokerConfig({"listeners": listeners}).listeners


def test_an_ipv4_and_an_ipv6_listener_may_share_a_port() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092"})
    assert len(config.listeners) == 2


def test_port_0_may_come_twice() -> None:
    assert len(BrokerConfig({"listeners": "PLAINTEXT://:0,CONTROLLER://:0"}).listeners) == 2
