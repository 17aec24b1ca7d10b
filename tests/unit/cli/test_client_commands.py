"""The client commands against a broker in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from kbroker.cli import cluster
from kbroker.cli.cluster_client import Cluster
from kbroker.cli.consume import Range, parse_range
from tests.unit.cli.shell import Shell


def test_a_topic_is_made_listed_described_grown_and_deleted(shell: Shell) -> None:
    assert shell("topic", "create", "made", "-p", "2", "-c", "retention.ms=777").stdout == "created made\n"
    assert {row["name"]: row["partitions"] for row in shell.json("topic", "list", "-r", "^ma")} == {"made": 2}
    shell("topic", "add-partitions", "made", "--partitions", "1")
    assert [row["partition"] for row in shell.json("topic", "describe", "made")] == [0, 1, 2]
    assert shell.json("config", "show", "topic", "made")[0]["value"] == "777"
    shell("topic", "delete", "made")
    assert shell("topic", "delete", "made", "--if-exists").stdout == "made is not there\n"


def test_a_topic_is_described_as_far_as_is_asked(shell: Shell, topic: str) -> None:
    shell("config", "set", "topic", topic, "retention.ms=777")
    shell("produce", topic, "-p", "1", "-v", "a")
    (summary,) = shell.json("topic", "describe", topic, "-s")
    assert {key: summary[key] for key in ("topic", "partitions", "replicas", "internal")} == {
        "topic": topic,
        "partitions": 2,
        "replicas": 1,
        "internal": False,
    }
    configs = {row["key"]: (row["value"], row["source"]) for row in shell.json("topic", "describe", topic, "-c")}
    assert configs["retention.ms"] == ("777", "topic")
    assert configs["cleanup.policy"] == ("delete", "default")
    partitions = shell.json("topic", "describe", topic, "-p")
    assert partitions == shell.json("topic", "describe", topic)
    assert [row["partition"] for row in partitions] == [0, 1]
    everything = shell.json("topic", "describe", topic, "-a")
    assert list(everything) == ["summary", "partitions", "configs"]
    assert everything["summary"] == [summary]
    assert [(row["start"], row["end"]) for row in everything["partitions"]] == [(0, 0), (0, 1)]
    assert list(shell.json("topic", "describe", topic, "-s", "-o")) == ["summary", "partitions"]
    text = shell("topic", "describe", topic, "-s", "-p").stdout
    assert text.startswith("SUMMARY\n=======\nTOPIC ")
    assert "\n\nPARTITIONS\n==========\nTOPIC " in text


def test_topics_are_described_and_listed_in_detail_by_regular_expressions(shell: Shell) -> None:
    shell("topic", "create", "regular.a", "regular.b", "-p", "2")
    described = shell.json("topic", "describe", "-r", r"^regular\.", r"^never\.")
    assert [(row["topic"], row["partition"]) for row in described] == [
        ("regular.a", 0),
        ("regular.a", 1),
        ("regular.b", 0),
        ("regular.b", 1),
    ]
    assert shell.json("topic", "list", "-d", "-r", r"^regular\.") == described
    assert shell.json("topic", "list", "-d", "regular.b") == described[2:]
    assert "no topic matches ^never" in shell("topic", "describe", "-r", "^never", status=1).stderr


def test_an_error_says_what_is_wrong_and_what_to_try(shell: Shell, topic: str) -> None:
    again = shell("topic", "create", topic, status=1)
    assert "already exists" in again.stderr
    assert "\n  try: --if-not-exists" in again.stderr
    assert shell("topic", "create", topic, "--if-not-exists").stdout == f"{topic} is there already\n"
    assert "try: kbroker topic list" in shell("topic", "describe", "nowhere", status=1).stderr


def test_errors_come_in_order_and_what_to_try_once(shell: Shell) -> None:
    lines = shell("topic", "delete", "nowhere", "elsewhere", status=1).stderr.splitlines()
    assert [line.split(":")[1] for line in lines[:-1]] == [" topic nowhere", " topic elsewhere"]
    assert "try: kbroker topic list" in lines[-1]


def test_a_dry_run_makes_nothing(shell: Shell) -> None:
    assert "would create" in shell("topic", "create", "dry", "--dry-run").stdout
    assert shell.json("topic", "list", "dry") == []


def test_lines_are_produced_and_consumed(shell: Shell, topic: str) -> None:
    shell("produce", topic, "-p", "1", "-z", "gzip", "-H", "a=b", text="one\ntwo\nthree\n")
    assert shell("consume", topic).stdout == "one\ntwo\nthree\n"
    assert shell("consume", topic, "-o", "-1", "-f", r"%p:%o %v %h\n").stdout == "1:2 three a=b\n"
    assert shell("consume", topic, "-o", "1:2").stdout == "two\n"
    assert shell("consume", topic, "-n", "1").stdout == "one\n"
    assert shell("consume", topic, "-o", "end").stdout == ""


def test_a_line_that_cannot_be_read_is_told_and_those_before_it_are_written(shell: Shell, topic: str) -> None:
    result = shell("produce", topic, "-f", "%k:%v", text="a:1\nb:2\nbad\nc:3\n", status=1)
    assert "line 3: no ':' in 'bad' (the 2 before it are written)" in result.stderr
    assert sorted(shell("consume", topic).stdout.split()) == ["1", "2"]


def test_what_json_consumes_json_produces_again(shell: Shell, topic: str) -> None:
    shell("produce", topic, "-f", "%k:%v", text="a:1\nb:2\na:3\n")
    lines = shell("consume", topic, "-f", "json").stdout
    shell("produce", topic, "-f", "json", text=lines)
    pairs = [
        (row["key"], row["value"])
        for row in map(json.loads, shell("consume", topic, "-f", "json").stdout.split("\n")[:-1])
    ]
    assert sorted(pairs) == sorted([("a", "1"), ("b", "2"), ("a", "3")] * 2)


def test_a_header_is_parted_at_its_first_sign_and_may_come_again(shell: Shell, topic: str) -> None:
    headers = ("-H", "a=b:c", "-H", "a:d=e", "-H", "f=")
    shell("produce", topic, "-v", "x", *headers)
    assert json.loads(shell("consume", topic, "-f", "json").stdout)["headers"] == [
        ["a", "b:c"],
        ["a", "d=e"],
        ["f", ""],
    ]
    shell("produce", topic, "-v", "x", "-H", "alone", status=2)


def test_without_acknowledgement_the_records_have_arrived_when_the_command_ends(shell: Shell, topic: str) -> None:
    shell("produce", topic, "--acks", "0", text="".join(f"{n}\n" for n in range(2500)))
    assert len(shell("consume", topic).stdout.split()) == 2500


def test_sizes_instead_of_contents_are_shown_as_json_only(shell: Shell, topic: str) -> None:
    assert "--format json" in shell("consume", topic, "--meta-only", status=2).stderr


def test_a_tombstone_has_no_value(shell: Shell, topic: str) -> None:
    shell("produce", topic, "-k", "k", "-v", "", "-Z")
    assert json.loads(shell("consume", topic, "-f", "json").stdout)["value"] is None


def test_many_records_go_in_batches_to_all_partitions(shell: Shell, topic: str) -> None:
    shell("produce", topic, text="".join(f"{n}\n" for n in range(3500)))
    assert sorted(map(int, shell("consume", topic).stdout.split())) == list(range(3500))
    assert all(row["end"] > 0 for row in shell.json("topic", "describe", topic, "-o"))


def test_records_are_trimmed_after_a_yes_only(shell: Shell, topic: str) -> None:
    shell("produce", topic, "-p", "0", text="a\nb\nc\n")
    shell("topic", "trim", topic, "--offset", "2", "-p", "0", text="n\n", status=1)
    assert "try: --yes" in shell("topic", "trim", topic, "--offset", "2", "-p", "0", text="", status=1).stderr
    assert "begins at 2" in shell("topic", "trim", topic, "--offset", "2", "-p", "0", text="y\n").stdout
    assert shell("consume", topic).stdout == "c\n"


def test_configs_are_set_shown_and_unset(shell: Shell, topic: str) -> None:
    shell("config", "set", "topic", topic, "retention.ms=5", "cleanup.policy=compact")
    assert {row["key"]: row["value"] for row in shell.json("config", "show", "topic", topic)} == {
        "cleanup.policy": "compact",
        "retention.ms": "5",
    }
    shell("config", "append", "topic", topic, "cleanup.policy=delete")
    assert shell.json("config", "show", "topic", topic, "cleanup.policy")[0]["value"] == "compact,delete"
    shell("config", "subtract", "topic", topic, "cleanup.policy=compact")
    assert shell.json("config", "show", "topic", topic, "cleanup.policy")[0]["value"] == "delete"
    assert "could append" in shell("config", "append", "topic", topic, "cleanup.policy=compact", "--dry-run").stdout
    assert "INVALID_CONFIG" in shell("config", "append", "topic", topic, "retention.ms=7", status=1).stderr
    shell("config", "unset", "topic", topic, "retention.ms")
    assert [row["key"] for row in shell.json("config", "show", "topic", topic)] == ["cleanup.policy"]
    shell("config", "set", "cluster", "message.max.bytes=99999")
    assert "99999" in {row["value"] for row in shell.json("config", "show", "cluster")}
    shell("config", "unset", "cluster", "message.max.bytes")
    (row,) = shell.json("config", "show", "topic", topic, "retention.ms", "--docs")
    assert row["what it does"].startswith("Age in milliseconds")
    assert "INVALID_CONFIG" in shell("config", "set", "topic", topic, "retention.ms=x", status=1).stderr
    assert "try: retention.ms\n" in shell("config", "set", "topic", topic, "retentin.ms=5", status=1).stderr
    assert "try: retention.ms\n" in shell("topic", "create", "other", "-c", "retentin.ms=5", status=1).stderr
    assert {"kind": "topic", "name": topic} in shell.json("config", "list", "topic")


def test_the_cluster_is_shown(shell: Shell) -> None:
    (row,) = shell.json("cluster", "info")
    assert (row["broker"], row["controller"]) == (1, True)
    assert shell.json("cluster", "health")["healthy"] is True
    assert shell.json("cluster", "quorum")[0]["role"] == "leader"
    assert {row["feature"] for row in shell.json("cluster", "features")} > {"group.version", "metadata.version"}
    assert shell.json("cluster", "logdirs")[0]["free"] > 0
    assert any(row["api"] == "Produce" for row in shell.json("cluster", "info", "--apis"))


def test_health_is_watched_until_it_is_well(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    lagging = iter([["t-0"], ["t-0"], []])

    async def health(_cluster: Cluster) -> dict[str, Any]:
        names = next(lagging)
        return {"healthy": not names, "not all in sync": names}

    monkeypatch.setattr(cluster, "_health", health)
    monkeypatch.setattr(cluster, "WATCH_S", 0)
    assert shell("cluster", "health", "--watch", "-e").stdout.splitlines() == [
        "healthy          no",
        "not all in sync  t-0",
        "",
        "healthy          yes",
        "not all in sync  -",
    ]
    lagging = iter([["t-0"], []])
    assert shell.json("cluster", "health", "--exit-when-healthy") == {"healthy": True, "not all in sync": []}
    lagging = iter([["t-0"]])
    assert "t-0" in shell("cluster", "health", status=1).stdout


@pytest.mark.parametrize("address", ["localhost:0", "localhost:65536", "localhost:abc", ":9092", ""])
def test_what_is_no_address_is_told_before_anybody_is_asked(shell: Shell, address: str) -> None:
    result = shell("topic", "list", "-b", address, status=1)
    assert f"{address!r} is no address\n  try: host:port" in result.stderr


def test_wrong_options_end_with_status_2(shell: Shell, topic: str) -> None:
    for arguments in (
        ("consume", topic, "-o", "soon"),
        ("produce", topic, "-f", "%v%k"),
        ("topic", "trim", topic, "-y"),
        ("config", "set", "topic", topic, "retention.ms"),
        ("config", "show", "topic"),
        ("group", "seek", "g"),
        ("group", "describe", "g", "--members", "--history"),
        ("group", "describe", "g", "--members", "--lag-per-topic"),
        ("topic", "describe", "-r", "["),
        ("topic", "list", "-r", "["),
        ("consume", topic, "-g", "g", "-p", "0"),
        ("group", "list", "--state", "Asleep"),
    ):
        shell(*arguments, status=2)


def test_a_key_that_is_none_is_named(shell: Shell, topic: str) -> None:
    result = shell("config", "show", "topic", topic, "retention.ms", "no.such.key", status=1)
    assert f"topic {topic} has no key no.such.key" in result.stderr
    assert f"try: kbroker config show topic {topic} --all" in result.stderr


@pytest.mark.parametrize(
    ("typed", "meant"), [("tpoic list", "topic"), ("topic crate x", "create"), ("group offset-deelte", "offset-delete")]
)
def test_a_command_that_is_none_is_answered_with_the_one_that_was_meant(shell: Shell, typed: str, meant: str) -> None:
    assert f"Did you mean '{meant}'?" in shell(*typed.split(), status=2).stderr


def into(output: int) -> subprocess.CompletedProcess[str]:
    """A command that prints a line, into a file descriptor that is closed then."""
    command = [sys.executable, "-m", "kbroker", "storage", "random-uuid"]
    try:
        return subprocess.run(command, stdout=output, stderr=subprocess.PIPE, text=True, check=False)
    finally:
        os.close(output)


def test_whoever_reads_no_more_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = into(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk_is_one_line() -> None:
    done = into(os.open("/dev/full", os.O_WRONLY))
    assert (done.returncode, done.stderr) == (1, "kbroker: cannot read or write: No space left on device\n")


def test_a_broker_that_is_not_there_is_named(shell: Shell) -> None:
    result = shell("topic", "list", "-b", "localhost:1", status=1)
    assert "localhost:1 cannot be reached: Connection refused" in result.stderr
    assert "try: -b HOST:PORT" in result.stderr


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: Shell, name: str) -> None:
    assert "_KBROKER_COMPLETE" in shell("completion", name).stdout


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("start", Range("start")),
        ("-3", Range("-3")),
        ("5:+7", Range("5", "+7")),
        ("@1000", Range("@1000")),
        ("@2026-01-31T12:00:@2026-02-01T12:00", Range("@2026-01-31T12:00", "@2026-02-01T12:00")),
    ],
)
def test_places_are_words_numbers_times_and_two_of_them(text: str, found: Range) -> None:
    assert parse_range(text) == found
