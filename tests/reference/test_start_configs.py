"""kbroker starts with the static configurations with which Apache Kafka starts, and refuses those that it refuses.

Words are compared where they are Kafka's own; of what kbroker does not serve, and of listeners, it speaks in its own.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest

from kbroker.config import BROKER_KEYS, BrokerConfig, ConfigError, ConfigType, Effect
from kbroker.config.checks import check_start
from kbroker.config.properties import format_properties
from kbroker.config.relations import RELATIONS
from tests.reference.test_configs import ALTERATIONS
from tests.toolchains import require
from tools.reference_kafka import java

pytestmark = pytest.mark.all

LISTENERS = "listeners"
ADVERTISED = "advertised.listeners"
PROTOCOLS = "listener.security.protocol.map"
INTER_BROKER = "inter.broker.listener.name"
PER_IP = "max.connections.per.ip.overrides"
CONTROLLER = ",CONTROLLER://:9093"
BASE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    LISTENERS: f"PLAINTEXT://:9092{CONTROLLER}",
    "log.dirs": "/data",
}
TAKEN_HERE = {
    # A quorum of one needs no address.
    "controller.quorum.voters": {""},
    "controller.quorum.bootstrap.servers": {"x", "a,b", "a,a", "delete", ",", "delete,delete"},
    # Assignors of groups that kbroker does not have.
    **{f"group.{kind}.assignors": {"x", "a,b", "a,a", "delete", "delete,delete"} for kind in ("consumer", "share")},
    "group.streams.assignors": {"x", "a,b", "a,a", "delete", "delete,delete"},
    "group.streams.rack.aware.assignment.tags": {"a,a", "delete,delete"},
    # A class that is none.
    **{key.name: {""} for key in BROKER_KEYS.all() if key.type is ConfigType.CLASS and key.default is None},
    # No connection ever: that helps nobody.
    "max.connections": {"0"},
}
"""Values of single keys on which the two do not agree, on purpose."""
OWN_WORDS = {
    LISTENERS,
    ADVERTISED,
    PROTOCOLS,
    INTER_BROKER,
    PER_IP,
    "controller.listener.names",
    "controller.quorum.voters",
    "node.id",
    "process.roles",
    "log.cleaner.threads",
}
NAMES = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT"
OF_LISTENERS: tuple[dict[str, str], ...] = (
    {LISTENERS: "PLAINTEXT://localhost:9091,A://localhost:9091"},
    {LISTENERS: "PLAINTEXT://localhost:9091,PLAINTEXT://localhost:9092"},
    {LISTENERS: "A://:9091,B://:9092", INTER_BROKER: "A", ADVERTISED: "A://localhost:9091,B://localhost:9091"},
    {LISTENERS: "A://:9091,B://:9092", INTER_BROKER: "A", ADVERTISED: "A://localhost:9091,A://localhost:9092"},
    {LISTENERS: "PLAINTEXT://[::1]:9092,A://[::1]:9092"},
    {LISTENERS: "PLAINTEXT://127.0.0.1:9092,A://127.0.0.1:9092"},
    {LISTENERS: "PLAINTEXT://127.0.0.1:9092,A://[::1]:9092"},
    {LISTENERS: "A://[::1]:9096,PLAINTEXT://127.0.0.1:9096,B://:9096"},
    {LISTENERS: "PLAINTEXT://apache.org:9092,A://[::1]:9092"},
    {LISTENERS: "PLAINTEXT://127.0.0.1:9094,A://[::1]:9094,B://127.0.0.1:9095,C://[::1]:9095"},
    {LISTENERS: "plaintext://localhost:9091"},
    {LISTENERS: "NONE://localhost:9091"},
    {LISTENERS: "A://localhost:9091", ADVERTISED: "PLAINTEXT://localhost:9092"},
    {LISTENERS: "A://localhost:9091", INTER_BROKER: "A"},
    {LISTENERS: "A://localhost:9091", INTER_BROKER: "A", "security.inter.broker.protocol": "PLAINTEXT"},
    {LISTENERS: "A://:9091,PLAINTEXT://:9092", "security.inter.broker.protocol": "NONE"},
    {INTER_BROKER: "CONTROLLER"},
    {INTER_BROKER: "plaintext"},
    {INTER_BROKER: ""},
    {ADVERTISED: "PLAINTEXT://0.0.0.0:9092"},
    {ADVERTISED: "CONTROLLER://localhost:9093"},
    {ADVERTISED: "PLAINTEXT://localhost"},
    {ADVERTISED: "PLAINTEXT://a b:9092"},
    {ADVERTISED: "PLAINTEXT://::1:9092"},
)
OF_PROTOCOLS = (
    "PLAINTEXT:PLAINTEXT",
    "plaintext:plaintext,controller:PLAINTEXT",
    " PLAINTEXT : PLAINTEXT , CONTROLLER : PLAINTEXT ",
    "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,",
    "PLAINTEXT:NONE",
    ":PLAINTEXT",
)
OF_ADDRESSES = (
    "127.0.0.1:x",
    "127.0.0.0#:1",
    "a b:1",
    "127.0.0.1",
    "::1:5",
    "h:-1",
    "h:1,",
    "h:99999999999",
    " h : 5 ",
)
OF_SEVERAL: tuple[dict[str, str], ...] = (
    {"max.connections.per.ip": "0"},
    {"max.connections.per.ip": "0", PER_IP: "127.0.0.1:100"},
    {"broker.id": "2"},
    {"process.roles": "controller,broker"},
    {"process.roles": "broker,controller,x"},
    {"log.retention.ms": "5", "log.retention.hours": "0"},
    {"log.retention.minutes": "-5"},
    {"log.roll.ms": "1", "log.roll.hours": "0"},
    {"log.cleaner.dedupe.buffer.size": "1048577"},
    {"log.cleaner.dedupe.buffer.size": "1048576"},
    {"log.cleaner.dedupe.buffer.size": "2097153", "log.cleaner.threads": "2"},
    {"group.coordinator.rebalance.protocols": "consumer"},
    {"replica.fetch.wait.max.ms": "31000"},
    {"queued.max.request.bytes": "104857600"},
    {"queued.max.request.bytes": "104857599"},
    {"connections.max.idle.ms": "-1"},
    {"connections.max.idle.ms": "100"},
    {"group.min.session.timeout.ms": "9", "group.max.session.timeout.ms": "8"},
)


def verdicts(cases: Sequence[Mapping[str, str]]) -> list[str]:
    """The messages with which Apache Kafka refuses, empty where it starts."""
    require("java")
    files = [base64.b64encode(format_properties({**BASE, **case}).encode()).decode() for case in cases]
    command = java(str(Path(__file__).with_name("StartVerdicts.java")))
    lines = subprocess.run(command, input="\n".join(files), capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert len(lines) == len(cases) + 1
    return [base64.b64decode(line).decode() for line in lines[:-1]]


def ours(case: Mapping[str, str]) -> str:
    try:
        check_start(BrokerConfig({**BASE, **case}))
    except ConfigError as error:
        return str(error)
    return ""


def differences(cases: Iterable[Mapping[str, str]]) -> list[tuple[Mapping[str, str], str, str]]:
    """The cases whose verdicts differ, or whose words do where they should not."""
    asked = list(cases)
    found = []
    for case, theirs in zip(asked, verdicts(asked), strict=True):
        mine = ours(case)
        words_count = not OWN_WORDS & case.keys()
        if bool(mine) != bool(theirs) or (words_count and mine != theirs):
            found.append((case, mine, theirs))
    return found


def test_single_values_are_refused_alike() -> None:
    asked = [
        {key.name: text}
        for key in BROKER_KEYS.all()
        if not key.name.startswith("kbroker.") and key.effect is not Effect.NOT_SERVED
        for text in ALTERATIONS[key.type]
        if text not in TAKEN_HERE.get(key.name, ())
    ]
    # It moves the broker.id along, which the voters do not know.
    assert differences(case for case in asked if "broker.id" not in case or case["broker.id"] != "1") == []


def test_listeners_are_refused_alike() -> None:
    asked = [
        {**case, PROTOCOLS: NAMES, **({LISTENERS: case[LISTENERS] + CONTROLLER} if LISTENERS in case else {})}
        for case in OF_LISTENERS
    ]
    assert differences([*asked, *({PROTOCOLS: text} for text in OF_PROTOCOLS)]) == []


def test_values_that_do_not_go_together_are_refused_alike() -> None:
    assert differences([*({PER_IP: text} for text in OF_ADDRESSES), *OF_SEVERAL]) == []


def test_numbers_stand_in_the_same_order() -> None:
    asked = []
    for left, _, right in RELATIONS:
        low, high = BrokerConfig({}).integer(left), BrokerConfig({}).integer(right)
        asked += [{left: str(high + step)} for step in (-1, 0, 1)]
        asked += [{right: str(low + step)} for step in (-1, 0, 1)]
    assert differences(asked) == []
