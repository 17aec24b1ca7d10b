"""Groups whose members are programs in Go, JavaScript and Java: shared, rebalanced, committed, gone on with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.compat.group_member import ConsoleConsumer, ProgramMember, VerifiableConsumer
from tests.compat.registry_clients import PROGRAMS, go_client, java_program, node_client
from tests.compat.test_confluent_kafka import make_topic
from tests.compat.test_groups import PARTITIONS, RECORDS, are_shared, poll_until, produce
from tests.toolchains import require

pytestmark = pytest.mark.all

Start = Callable[[str], ProgramMember]
GO = {
    "franz-go": ("franz_go_member", "github.com/twmb/franz-go@v1.22.3"),
    "sarama": ("sarama_member", "github.com/IBM/sarama@v1.61.1"),
    "kafka-go": ("kafka_go_member", "github.com/segmentio/kafka-go@v0.4.51"),
}
NODE = {
    "kafkajs": ("kafkajs_member.js", "kafkajs@2.2.4"),
    # The newest that runs on Node 20.
    "platformatic": ("platformatic_member.js", "@platformatic/kafka@1.35.0"),
}
JAVA = {
    "java": lambda *arguments: ProgramMember(java_program("GroupMember", *arguments)),
    "verifiable-consumer": VerifiableConsumer,
    "console-consumer": ConsoleConsumer,
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data") as process:
        make_topic(process.bootstrap, "t", partitions=PARTITIONS)
        yield process


@pytest.fixture(params=[*GO, *NODE, *JAVA])
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts a member of the group ``g``."""
    started: list[ProgramMember] = []

    def member(bootstrap: str) -> ProgramMember:
        arguments = (bootstrap, "t", "g")
        if request.param in GO:
            made = ProgramMember([str(go_client(*GO[request.param])), *arguments])
        elif request.param in NODE:
            program, package = NODE[request.param]
            modules = node_client(package) / "node_modules"
            made = ProgramMember(["node", str(PROGRAMS / program), *arguments], modules)
        else:
            require("java")
            made = JAVA[request.param](*arguments)
        started.append(made)
        return made

    yield member
    for each in started:
        each.kill()


def test_a_group_shares_rebalances_commits_and_goes_on_after_a_kill_of_the_broker(
    broker: BrokerProcess, start: Start
) -> None:
    produce(broker.bootstrap, "t", 0)
    first = start(broker.bootstrap)
    assert sorted(poll_until([first], lambda received: len(received) >= RECORDS)) == list(range(RECORDS))
    first.commit()
    second = start(broker.bootstrap)
    assert poll_until([first, second], lambda _: are_shared([first, second])) == []
    produce(broker.bootstrap, "t", RECORDS)
    received = poll_until([first, second], lambda received: len(received) >= RECORDS)
    assert sorted(received) == list(range(RECORDS, 2 * RECORDS))
    first.commit()
    second.commit()
    second.close()
    first.close()
    broker.kill()
    broker.start()
    produce(broker.bootstrap, "t", 2 * RECORDS)
    third = start(broker.bootstrap)
    received = poll_until([third], lambda received: len(received) >= RECORDS)
    assert sorted(received) == list(range(2 * RECORDS, 3 * RECORDS))
    third.close()


def test_members_live_through_a_restart_of_the_broker(broker: BrokerProcess, start: Start) -> None:
    members = [start(broker.bootstrap) for _ in range(2)]
    poll_until(members, lambda _: are_shared(members))
    # @platformatic/kafka must have begun: it asks where a partition begins with the leader epoch that it once learned,
    # 50 times if need be, and every restart makes a new one.
    produce(broker.bootstrap, "t", 0)
    before = poll_until(members, lambda received: len(set(received)) >= RECORDS)
    assert set(before) == set(range(RECORDS))
    broker.stop()
    broker.start()
    produce(broker.bootstrap, "t", RECORDS)
    # Who joins anew reads again what it has not committed.
    received = poll_until(members, lambda received: len(set(received) - set(before)) >= RECORDS)
    assert set(received) - set(before) == set(range(RECORDS, 2 * RECORDS))
    poll_until(members, lambda _: are_shared(members))
    for each in members:
        each.commit()
    for each in members:
        each.close()
