"""Apache's dump-log reads every file of a log of ours without a complaint, and finds in it what was written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kbroker.host.real import RealDisk
from kbroker.log.cleanable import cleanable_part
from kbroker.log.log import Log
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.control import ControlRecordType, EndTransactionMarker, build_end_transaction_marker
from kbroker.protocol.records.validation import AppendOrigin
from kbroker.types import TopicPartition
from tests.toolchains import require
from tests.unit.log.cleaning import clean_log
from tests.unit.log.logs import topic_config
from tools.reference_kafka import tool

pytestmark = pytest.mark.all


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


def mixed_log(directory: str) -> Log:
    """Many small segments: every codec, keys, nulls, headers, sequences, transactions, several leader epochs."""
    config = topic_config(internal_segment_bytes=20_000, index_interval_bytes=500)
    log = Log.open(RealDisk(32), directory, TopicPartition("orders", 0), bytes(range(16)), config)
    sequence = 0
    for number in range(900):
        now_ms = 1_700_000_000_000 + 10 * number
        records = [
            Record(each, now_ms + each, None if each else b"key", b"%d" % number * 20, [("h", None), ("i", b"j")])
            for each in range(1 + number % 3)
        ]
        stamp = {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence, "transactional": True}
        idempotent = number % 4 == 1
        batch = build_batch(
            records,
            compression=Compression(number % 5),
            **(stamp if idempotent else {}),  # type: ignore[arg-type]
        )
        log.append_as_leader(batch, number // 300, now_ms)
        if idempotent:
            sequence += len(records)
        if number % 40 == 39:
            kind = ControlRecordType.ABORT if number % 80 == 39 else ControlRecordType.COMMIT
            marker = build_end_transaction_marker(
                EndTransactionMarker(kind, 1), timestamp=now_ms, producer_id=7, producer_epoch=0
            )
            log.append_as_leader(marker, number // 300, now_ms, origin=AppendOrigin.COORDINATOR)
    return log


def files(directory: Path, *suffixes: str) -> str:
    return ",".join(str(path) for path in sorted(directory.iterdir()) if path.suffix in suffixes)


def complaints(printed: str) -> list[str]:
    """Whatever dump-log says beyond what it found. To every segment that begins past 0 it says that -1 went before."""
    fine = re.compile(
        r"Dumping |Log starting offset|baseOffset:|\| offset:|offset: |timestamp: |producerId: |version: \d+ producerId"
        r"|.* passed sanity check\.|.* is empty\.|Non-consecutive offsets in |  -1 is followed by "
    )
    return [line for line in printed.splitlines() if line and not fine.match(line)]


def compact(log: Log) -> None:
    """Two rounds: the second is past the horizons of the first."""
    settings = {"internal_segment_bytes": 20_000, "index_interval_bytes": 500, "delete_retention_ms": 1}
    log.config = topic_config(cleanup_policy="compact", min_cleanable_dirty_ratio=0, **settings)
    now_ms = 1_700_000_100_000
    end = log.log_end_offset
    for step in range(2):
        log.append_as_leader(build_batch([Record(0, now_ms, b"key", b"%d" % step)]), 3, now_ms)
        log.roll(now_ms)
        part = cleanable_part(log, log.log_end_offset, log.log_end_offset, now_ms + 10 * step)
        assert part is not None
        log.clean_end_offset = clean_log(log, part, now_ms + 10 * step, lambda discarded: discarded.remove()).end_offset
    assert log.clean_end_offset == end + 2


def check(directory: Path) -> str:
    """Let dump-log read all files; what it printed of the first reading."""
    everything = files(directory, ".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    printed = tool("dump-log", "--deep-iteration", "--files", everything)
    assert complaints(printed) == []
    indexes = files(directory, ".index", ".timeindex")
    assert complaints(tool("dump-log", "--index-sanity-check", "--files", indexes)) == []
    assert complaints(tool("dump-log", "--verify-index-only", "--files", indexes)) == []
    return printed


@pytest.mark.parametrize("stopped", [True, False])
def test_dump_log_reads_the_files_of_a_stopped_and_of_a_running_broker(tmp_path: Path, stopped: bool) -> None:
    directory = tmp_path / "orders-0"
    log = mixed_log(str(directory))
    if stopped:
        log.close()
        log.release()
    assert len(log.segments) > 3
    assert files(directory, ".txnindex")
    assert len(re.findall(r"^\| offset: ", check(directory), re.MULTILINE)) == log.log_end_offset


def test_dump_log_reads_what_a_compaction_leaves(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0"
    log = mixed_log(str(directory))
    compact(log)
    log.close()
    log.release()
    kept = re.findall(r"^\| offset: ", check(directory), re.MULTILINE)
    assert 0 < len(kept) < 100
