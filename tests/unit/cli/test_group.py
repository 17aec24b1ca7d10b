"""``kbroker consume --group`` and ``kbroker group`` against a broker in this process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import confluent_kafka
import pytest

from kbroker.cli.membership import assign, pack, unpack
from tests.unit.cli.shell import Shell

DEADLINE_SECONDS = 60.0


def test_a_group_goes_on_where_it_was(shell: Shell, topic: str) -> None:
    shell("produce", topic, text="a\nb\nc\n")
    assert shell("consume", topic, "-g", topic, "-n", "2").stdout == "a\nb\n"
    assert shell("consume", topic, "-g", topic).stdout == "c\n"
    assert shell("consume", topic, "-g", topic).stdout == ""
    shell("produce", topic, text="d\n")
    assert shell("consume", topic, "--group", topic, "-o", "end").stdout == "d\n"
    assert sum(row["lag"] for row in shell.json("group", "describe", topic)) == 0
    (listed,) = [row for row in shell.json("group", "list") if row["group"] == topic]
    assert (listed["state"], listed["protocol"]) == ("Empty", "consumer")


def test_where_a_group_never_was_the_offset_says_where_to_begin(shell: Shell, topic: str) -> None:
    shell("produce", topic, text="a\nb\nc\n", status=0)
    assert shell("consume", topic, "-g", topic, "-o", "end").stdout == ""
    shell("produce", topic, text="d\n")
    assert shell("consume", topic, "-g", topic).stdout == "d\n"


def test_a_group_that_was_where_records_are_gone_begins_at_the_first(shell: Shell, topic: str) -> None:
    shell("produce", topic, "-p", "0", text="a\nb\nc\n")
    shell("consume", topic, "-g", topic, "-n", "1")
    shell("topic", "trim", topic, "-p", "0", "--offset", "2", "--yes")
    assert shell("consume", topic, "-g", topic).stdout == "c\n"


def test_a_group_is_moved_to_what_a_file_lists(shell: Shell, topic: str) -> None:
    shell("produce", topic, "-p", "0", text="a\nb\nc\n")
    shell("produce", topic, "-p", "1", text="d\n")
    listed = f'"{topic}",0,2\n\n{topic},1,1\nother,0,5\n'
    moved = shell("group", "seek", topic, "--to-file", "-", "-t", topic, "--format", "json", text=listed)
    assert [(row["partition"], row["from"], row["to"]) for row in json.loads(moved.stdout)] == [
        (0, None, 2),
        (1, None, 1),
    ]
    assert shell("consume", topic, "-g", topic).stdout == "c\n"
    assert (
        "line 2: TOPIC,PARTITION,OFFSET"
        in shell("group", "seek", topic, "--to-file", "-", text=f"{topic},0,2\n{topic},0\n", status=2).stderr
    )
    shell("group", "seek", topic, "--to", "end", "--to-file", "-", status=2)


@pytest.fixture
def member(shell: Shell, topic: str) -> Iterator[confluent_kafka.Consumer]:
    settings = {"bootstrap.servers": shell.bootstrap, "group.id": topic, "heartbeat.interval.ms": 100}
    consumer = confluent_kafka.Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(consumer.assignment()) < 2:
        assert time.monotonic() < deadline
        consumer.poll(0.05)
    yield consumer
    consumer.close()


def test_the_lag_is_added_up_for_each_topic(shell: Shell, topic: str) -> None:
    shell("topic", "create", f"{topic}-more")
    for partition in ("0", "1"):
        shell("produce", topic, "-p", partition, text="a\nb\nc\n")
    moves = f"{topic},0,1\n{topic},1,3\n{topic}-more,0,0\n"
    shell("group", "seek", topic, "--to-file", "-", text=moves)
    assert [row["lag"] for row in shell.json("group", "describe", topic)] == [2, 0, 0]
    common = {"group": topic, "state": "Empty", "members": 0}
    assert shell.json("group", "describe", topic, "-t") == [
        {**common, "topic": topic, "partitions": 2, "lag": 2},
        {**common, "topic": f"{topic}-more", "partitions": 1, "lag": 0},
    ]


@pytest.mark.usefixtures("member")
def test_a_group_that_still_has_a_deleted_topic_is_described_without_its_ends(shell: Shell, topic: str) -> None:
    shell("topic", "delete", topic)
    described = shell.json("group", "describe", topic)
    assert [(row["partition"], row["end offset"], row["lag"]) for row in described] == [
        (0, None, None),
        (1, None, None),
    ]
    (row,) = shell.json("group", "describe", topic, "--lag-per-topic")
    assert (row["partitions"], row["members"], row["lag"]) == (2, 1, None)


def test_the_command_shares_with_other_members_and_the_history_tells_why(
    shell: Shell, topic: str, member: confluent_kafka.Consumer
) -> None:
    command = [sys.executable, "-m", "kbroker", "consume", topic, "-g", topic, "-n", "1", "--follow"]
    deadline = time.monotonic() + DEADLINE_SECONDS
    with subprocess.Popen([*command, "-b", shell.bootstrap], stdout=subprocess.PIPE, text=True) as other:
        while len(member.assignment()) != 1:
            assert time.monotonic() < deadline
            member.poll(0.05)
        members = shell.json("group", "describe", topic, "--members")
        assert sorted(len(row["assigned"]) for row in members) == [1, 1]
        for partition in ("0", "1"):
            shell("produce", topic, "-p", partition, "-v", f"to {partition}")
        while (mine := member.poll(0.05)) is None:
            assert time.monotonic() < deadline
        # Its leaving waits for nobody, and its partition comes back to the member that stays.
        theirs = other.communicate(timeout=DEADLINE_SECONDS)[0]
    assert {mine.value(), theirs.strip().encode()} == {b"to 0", b"to 1"}
    while len(member.assignment()) < 2:
        assert time.monotonic() < deadline
        member.poll(0.05)
    told = shell.json("group", "describe", topic, "--history")
    assert [row["members"] for row in told] == [1, 2, 1]
    assert "kbroker-cli" in told[1]["reason"]
    assert "the command ends" in told[2]["reason"]
    assert all(row["at"].startswith("20") for row in told)
    assert "REASON" in shell("group", "describe", topic, "--history").stdout


def test_ctrl_c_commits_what_was_printed(shell: Shell, topic: str) -> None:
    shell("produce", topic, text="a\nb\n")
    command = [sys.executable, "-m", "kbroker", "consume", topic, "-g", topic, "--follow", "-b", shell.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert [running.stdout.readline() for _ in range(2)] == ["a\n", "b\n"]
        running.send_signal(signal.SIGINT)
        assert running.wait(DEADLINE_SECONDS) == 0
    assert shell("consume", topic, "-g", topic).stdout == ""
    assert shell.json("group", "list", "-s", "Stable") == []


def test_ranges_go_to_members_in_the_order_of_their_ids() -> None:
    wanted = {"b": ["t", "u"], "a": ["t"], "c": ["t"]}
    assert assign(wanted, {"t": 4, "u": 1, "v": 1}) == {
        "a": {"t": [0, 1]},
        "b": {"t": [2], "u": [0]},
        "c": {"t": [3]},
    }


def test_an_assignment_is_read_as_it_was_written_and_what_is_none_is_empty() -> None:
    assert unpack(pack({"t": [0, 1]})) == {"t": [0, 1]}
    assert unpack(b"") == unpack(b"\x00\x00garbage") == {}
