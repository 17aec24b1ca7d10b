"""kbroker starts with the static configurations with which Apache Kafka starts, and refuses those that it refuses.

Words are compared where they are Kafka's own; of what kbroker does not serve, and of listeners, it speaks in its own.
"""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterable, Iterator, Mapping
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


class Verdicts:
    """A JVM that says what Apache Kafka thinks of static configurations."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program

    def of(self, case: Mapping[str, str]) -> str:
        """The message with which Apache Kafka refuses, empty where it starts."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        file = format_properties({**BASE, **case}).encode()
        self._program.stdin.write(f"{base64.b64encode(file).decode()}\n")
        self._program.stdin.flush()
        return base64.b64decode(self._program.stdout.readline()).decode()

    def differences(self, cases: Iterable[Mapping[str, str]]) -> list[tuple[Mapping[str, str], str, str]]:
        """The cases whose verdicts differ, or whose words do where they should not."""
        found = []
        for case in cases:
            mine, theirs = ours(case), self.of(case)
            if bool(mine) != bool(theirs) or (mine != theirs and not OWN_WORDS & case.keys()):
                found.append((case, mine, theirs))
        return found


@pytest.fixture(scope="module")
def verdicts() -> Iterator[Verdicts]:
    require("java")
    command = java(str(Path(__file__).with_name("StartVerdicts.java")))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as program:
        try:
            found = Verdicts(program)
            assert found.of({}) == ""
            assert found.of({"node.id": "x"}) != ""
            yield found
        finally:
            program.kill()


def ours(case: Mapping[str, str]) -> str:
    try:
        check_start(BrokerConfig({**BASE, **case}))
    except ConfigError as error:
        return str(error)
    return ""


def test_single_values_are_refused_alike(verdicts: Verdicts) -> None:
    asked = [
        {key.name: text}
        for key in BROKER_KEYS.all()
        if not key.name.startswith("kbroker.") and key.effect is not Effect.NOT_SERVED
        for text in ALTERATIONS[key.type]
        if text not in TAKEN_HERE.get(key.name, ())
    ]
    assert verdicts.differences(asked) == []


def test_listeners_are_refused_alike(verdicts: Verdicts) -> None:
    asked = [
        {**case, PROTOCOLS: NAMES, **({LISTENERS: case[LISTENERS] + CONTROLLER} if LISTENERS in case else {})}
        for case in OF_LISTENERS
    ]
    assert verdicts.differences([*asked, *({PROTOCOLS: text} for text in OF_PROTOCOLS)]) == []


def test_values_that_do_not_go_together_are_refused_alike(verdicts: Verdicts) -> None:
    assert verdicts.differences([*({PER_IP: text} for text in OF_ADDRESSES), *OF_SEVERAL]) == []


def test_numbers_stand_in_the_same_order(verdicts: Verdicts) -> None:
    asked = []
    for left, _, right in RELATIONS:
        low, high = BrokerConfig({}).integer(left), BrokerConfig({}).integer(right)
        asked += [{left: str(high + step)} for step in (-1, 0, 1)]
        asked += [{right: str(low + step)} for step in (-1, 0, 1)]
    assert verdicts.differences(asked) == []
