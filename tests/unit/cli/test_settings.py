"""From flags, environment, file and presets to one configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.cli.settings import Flags, SettingsError, assemble
from kbroker.config import BROKER_KEYS, BrokerConfig, Effect
from kbroker.config.dev import PRESETS, preset_values


def test_without_a_file_the_values_of_apaches_own_hold() -> None:
    config = assemble(Flags(), {}).config
    assert list(map(str, config.listeners)) == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]
    assert list(map(str, config.advertised_listeners)) == ["PLAINTEXT://localhost:9092"]
    assert config.integer("offsets.topic.replication.factor") == 1
    assert config.log_dirs == ("/tmp/kraft-combined-logs",)  # noqa: S108 - Apache's choice


def test_with_a_file_kafkas_defaults_hold(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("node.id=3\nlog.dirs=/data\n")
    settings = assemble(Flags(file=str(file)), {})
    assert settings.config.node_id == 3
    assert settings.config.integer("offsets.topic.replication.factor") == 3
    assert any("offsets.topic.replication.factor=3 cannot work" in line for line in settings.warnings)


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=1\nlog.dirs=/file\nnode.id=1\n")
    environment = {"KAFKA_NUM_PARTITIONS": "2", "KAFKA_LOG_DIRS": "/environment"}
    config = assemble(Flags(file=str(file), data_dir="/flag"), environment).config
    assert config.integer("num.partitions") == 2
    assert config.log_dirs == ("/flag",)
    assert config.place("num.partitions") == "the environment variable KAFKA_NUM_PARTITIONS"


def test_an_override_beats_a_preset() -> None:
    config = assemble(Flags(overrides=["kbroker.fsync=true"]), {}, presets=preset_values()).config
    assert config.boolean("kbroker.fsync") is True
    assert config.integer("group.initial.rebalance.delay.ms") == 0


@pytest.mark.parametrize(
    ("flags", "listeners", "advertised"),
    [
        (Flags(port=0), ["PLAINTEXT://:0", "CONTROLLER://:9093"], ["PLAINTEXT://localhost:0"]),
        (Flags(host="localhost"), ["PLAINTEXT://localhost:9092", "CONTROLLER://:9093"], ["PLAINTEXT://localhost:9092"]),
        (Flags(host="0.0.0.0", port=7), ["PLAINTEXT://0.0.0.0:7", "CONTROLLER://:9093"], ["PLAINTEXT://:7"]),  # noqa: S104
        (Flags(host="::1", port=7), ["PLAINTEXT://[::1]:7", "CONTROLLER://:9093"], ["PLAINTEXT://[::1]:7"]),
        (
            Flags(port=7, overrides=["advertised.listeners=PLAINTEXT://example.org:1"]),
            ["PLAINTEXT://:7", "CONTROLLER://:9093"],
            ["PLAINTEXT://example.org:1"],
        ),
    ],
)
def test_host_and_port_move_the_first_listener(flags: Flags, listeners: list[str], advertised: list[str]) -> None:
    config = assemble(flags, {}).config
    assert list(map(str, config.listeners)) == listeners
    assert list(map(str, config.advertised_listeners)) == advertised


def test_dev_listens_on_this_machine_without_a_controller_port() -> None:
    config = assemble(Flags(port=0), {}, presets=preset_values()).config
    assert list(map(str, config.listeners)) == ["PLAINTEXT://localhost:0"]
    assert list(map(str, config.advertised_listeners)) == ["PLAINTEXT://localhost:0"]


def test_whoever_says_where_to_listen_need_not_say_what_is_advertised() -> None:
    config = assemble(Flags(), {"KAFKA_LISTENERS": "PLAINTEXT://:1,CONTROLLER://:2"}).config
    assert list(map(str, config.advertised_listeners)) == ["PLAINTEXT://:1"]


def test_whoever_says_what_is_advertised_need_not_say_where_to_listen() -> None:
    """As in Kafka's image."""
    config = assemble(Flags(), {"KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://example.org:19092"}).config
    assert list(map(str, config.listeners)) == ["PLAINTEXT://:19092", "CONTROLLER://:9093"]


def test_cluster_id_and_topics_become_keys() -> None:
    config = assemble(Flags(cluster_id="5L6g3nShT-eMCtK--X86sw", topics=["a:3", "b"]), {}).config
    assert config.string("kbroker.cluster.id") == "5L6g3nShT-eMCtK--X86sw"
    assert config.strings("kbroker.topics") == ["a:3", "b"]


def test_a_bad_value_names_key_value_what_is_allowed_and_where(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# numbers\nnum.partitions=many\n")
    with pytest.raises(SettingsError) as refused:
        assemble(Flags(file=str(file)), {})
    assert str(refused.value) == (
        f"num.partitions=many (from {file} line 2): Not a number of type INT; allowed: INT [1,...]"
    )


def test_a_value_of_the_environment_names_its_variable() -> None:
    with pytest.raises(SettingsError, match=r"num.partitions=0 \(from the environment variable KAFKA_NUM_PARTITIONS\)"):
        assemble(Flags(), {"KAFKA_NUM_PARTITIONS": "0"})


def test_a_secret_is_not_shown() -> None:
    with pytest.raises(SettingsError) as refused:
        assemble(Flags(overrides=["ssl.key.password=secret"]), {})
    assert "secret" not in str(refused.value)


def test_an_unknown_key_of_a_file_or_the_environment_is_a_warning(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partition=3\nkbroker.internal.topics.clamp.replication=true\n")
    settings = assemble(Flags(file=str(file)), {"KAFKA_LOG_RETENTION_MSEC": "1", "KAFKA_BROKERS": "x"})
    assert settings.warnings == [
        f"unknown key num.partition from {file} line 1 is ignored; did you mean num.partitions?",
        "the environment variable KAFKA_LOG_RETENTION_MSEC names no key; did you mean log.retention.ms?",
    ]
    assert settings.remarks == ["the environment variable KAFKA_BROKERS names no key and is ignored"]


@pytest.mark.parametrize("override", ["num.partition=3", "num.partitions", "=3"])
def test_an_unknown_override_is_refused(override: str) -> None:
    with pytest.raises(SettingsError, match="--override"):
        assemble(Flags(overrides=[override]), {})


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        assemble(Flags(file=str(tmp_path / "none")), {})


def test_presets_and_apaches_values_are_legal_and_quiet() -> None:
    for settings in (assemble(Flags(), {}), assemble(Flags(), {}, presets=preset_values())):
        assert settings.warnings == []
        assert settings.remarks == []


def test_every_preset_has_a_reason_and_differs_from_the_default() -> None:
    defaults = BrokerConfig({})
    for preset in PRESETS:
        assert preset.key in BROKER_KEYS
        assert preset.reason
        if preset.key in preset_values():
            assert BrokerConfig({preset.key: preset.value}).value(preset.key) != defaults.value(preset.key)
            assert BROKER_KEYS[preset.key].effect is not Effect.NOT_SERVED
