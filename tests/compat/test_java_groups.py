"""Groups of Apache Kafka's console-consumer, and its tools for groups: ``consumer-groups``, ``groups``."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.compat.test_confluent_kafka import make_topic
from tests.compat.test_groups import PARTITIONS, RECORDS, ConfluentKafka, produce
from tests.toolchains import require
from tools.reference_kafka import TOOLS, java, tool

pytestmark = pytest.mark.all

DEADLINE_SECONDS = 45.0
EACH = RECORDS // PARTITIONS


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


@pytest.fixture
def group(bootstrap: str, topic: str) -> str:
    """A group without members that read all records of ``topic``; both have the same name."""
    make_topic(bootstrap, topic, partitions=PARTITIONS)
    produce(bootstrap, topic, 0)
    member = ConfluentKafka(bootstrap, topic, topic)
    read(member, RECORDS)
    member.commit()
    member.close()
    return topic


def read(member: ConfluentKafka, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while count > 0:
        assert time.monotonic() < deadline
        count -= len(member.poll())


def groups(bootstrap: str, *arguments: str) -> str:
    return tool("consumer-groups", "--bootstrap-server", bootstrap, *arguments)


def offsets(bootstrap: str, group: str) -> dict[int, tuple[str, str]]:
    """Partition -> where the group is, and its lag, as ``--describe`` shows them."""
    lines = [line.split() for line in groups(bootstrap, "--describe", "--group", group).splitlines()]
    head = next((line for line in lines if "CURRENT-OFFSET" in line), [])
    rows = [dict(zip(head, line, strict=False)) for line in lines if line[:1] == [group]]
    return {int(row["PARTITION"]): (row["CURRENT-OFFSET"], row["LAG"]) for row in rows}


@contextmanager
def console_consumer(bootstrap: str, group: str) -> Iterator[None]:
    command = java(TOOLS["console-consumer"], "--bootstrap-server", bootstrap, "--topic", group, "--group", group)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            yield
        finally:
            running.terminate()
            running.wait(DEADLINE_SECONDS)


def test_console_consumers_share_and_are_described(bootstrap: str, group: str) -> None:
    with console_consumer(bootstrap, group), console_consumer(bootstrap, group):
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not re.search(r"\sStable\s+2\s*$", groups(bootstrap, "--describe", "--state", "--group", group)):
            assert time.monotonic() < deadline
        members = groups(bootstrap, "--describe", "--members", "--verbose", "--group", group)
        assert sorted(",".join(re.findall(rf"{group}:([\d,]+)", members)).split(",")) == list("0123"), members
        assert f"Group '{group}' could not be deleted" in groups(bootstrap, "--delete", "--group", group)
    assert re.search(r"\sEmpty\s+0\s*$", groups(bootstrap, "--describe", "--state", "--group", group))


def test_a_group_is_listed_described_and_deleted(bootstrap: str, group: str) -> None:
    assert group in groups(bootstrap, "--list").split()
    assert re.search(rf"^{group}\s+Empty", groups(bootstrap, "--list", "--state", "empty"), re.MULTILINE)
    assert re.search(rf"^{group}\s+Classic", groups(bootstrap, "--list", "--type"), re.MULTILINE)
    listed = tool("groups", "--bootstrap-server", bootstrap, "--list")
    assert re.search(rf"^{group}\s+Classic\s+consumer", listed, re.MULTILINE)
    filtered = tool("groups", "--bootstrap-server", bootstrap, "--list", "--group-type", "share")
    assert group not in filtered
    assert offsets(bootstrap, group) == dict.fromkeys(range(PARTITIONS), (str(EACH), "0"))
    assert f"('{group}') was successful" in groups(bootstrap, "--delete", "--group", group)
    assert group not in groups(bootstrap, "--list").split()


def test_offsets_are_reset_in_every_way(bootstrap: str, group: str, tmp_path: Path) -> None:
    between = datetime.now(UTC)
    produce(bootstrap, group, RECORDS)
    plan = tmp_path / "plan.csv"

    def reset(*how: str, topic: str = group) -> list[str]:
        target = () if topic is None else ("--topic", topic)
        groups(bootstrap, "--reset-offsets", "--group", group, *target, "--execute", *how)
        return [offset for offset, _ in offsets(bootstrap, group).values()]

    def everywhere(offset: int) -> list[str]:
        return [str(offset)] * PARTITIONS

    assert reset("--to-earliest") == everywhere(0)
    assert reset("--to-latest") == everywhere(2 * EACH)
    assert reset("--to-offset", "3") == everywhere(3)
    assert reset("--to-offset", "1000000") == everywhere(2 * EACH)
    assert reset("--shift-by", "-4") == everywhere(2 * EACH - 4)
    assert reset("--to-datetime", between.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]) == everywhere(EACH)
    assert reset("--by-duration", "PT1H") == everywhere(0)
    assert reset("--to-current") == everywhere(0)
    assert reset("--to-offset", "5", topic=f"{group}:1,2") == ["0", "5", "5", "0"]
    exported = groups(bootstrap, "--reset-offsets", "--group", group, "--topic", group, "--to-current", "--export")
    plan.write_text("\n".join(line for line in exported.splitlines() if line.count(",") >= 2) + "\n")
    assert reset("--to-latest") == everywhere(2 * EACH)
    groups(bootstrap, "--reset-offsets", "--group", group, "--from-file", str(plan), "--execute")
    assert [offset for offset, _ in offsets(bootstrap, group).values()] == ["0", "5", "5", "0"]
    groups(bootstrap, "--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--dry-run")
    assert [offset for offset, _ in offsets(bootstrap, group).values()] == ["0", "5", "5", "0"]
    groups(bootstrap, "--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute")
    assert [offset for offset, _ in offsets(bootstrap, group).values()] == everywhere(2 * EACH)


def test_offsets_are_deleted(bootstrap: str, group: str) -> None:
    groups(bootstrap, "--delete-offsets", "--group", group, "--topic", f"{group}:0,2")
    assert sorted(offsets(bootstrap, group)) == [1, 3]
    groups(bootstrap, "--delete-offsets", "--group", group, "--topic", group)
    assert offsets(bootstrap, group) == {}


def test_the_offsets_of_a_group_with_members_stay(bootstrap: str, group: str) -> None:
    member = ConfluentKafka(bootstrap, group, group)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not member.assignment():
        assert time.monotonic() < deadline
        member.poll()
    told = groups(bootstrap, "--reset-offsets", "--group", group, "--topic", group, "--to-earliest", "--execute")
    assert f"can only be reset if the group '{group}' is inactive, but the current state is Stable" in told
    assert set(offsets(bootstrap, group).values()) == {(str(EACH), "0")}
    shown = tool("consumer-groups", "--bootstrap-server", bootstrap, "--describe", "--group", group)
    assert len(re.findall(r"rdkafka-", shown)) >= PARTITIONS
    member.close()
