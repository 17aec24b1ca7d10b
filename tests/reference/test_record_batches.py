"""Record batches, held against Apache Kafka's own classes: what each side writes, the other reads alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.records.batch import crc_is_right
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.control import ControlRecordType, EndTransactionMarker, build_end_transaction_marker
from tests import toolchains
from tests.unit.protocol.records.batch_cases import (
    NOW,
    BatchCase,
    data,
    describe,
    named_cases,
    random_cases,
    text,
)
from tools import reference_kafka

PROGRAM = Path(__file__).with_name("RecordBatches.java")
KEPT = Path(__file__).parents[1] / "unit" / "protocol" / "records" / "apache_batches.json"

pytestmark = pytest.mark.all


def ask(questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    toolchains.require("java")
    answers: list[dict[str, Any]] = json.loads(reference_kafka.tool(str(PROGRAM), stdin=json.dumps(questions)))
    return answers


def test_each_side_reads_what_the_other_writes() -> None:
    cases = [*named_cases(), *random_cases(seed=20, count=400)]
    answers = ask([case.to_json() | {"ours": text(case.build())} for case in cases])
    for case, answer in zip(cases, answers, strict=True):
        ours, theirs = case.build(), data(answer["theirs"])
        assert answer["read"] == describe(ours), case.name
        assert crc_is_right(theirs), case.name
        assert describe(theirs) | {"size": len(ours)} == describe(ours), case.name
        if case.codec is Compression.NONE:
            assert theirs == ours, case.name


def test_the_kept_batches_are_what_apache_kafka_writes() -> None:
    questions = [case.to_json() for case in named_cases()]
    answers = {each["name"]: answer["theirs"] for each, answer in zip(questions, ask(questions), strict=True)}
    assert answers == json.loads(KEPT.read_text())


@pytest.mark.parametrize("kind", [ControlRecordType.COMMIT, ControlRecordType.ABORT])
def test_markers_are_written_byte_for_byte_alike(kind: ControlRecordType) -> None:
    ours = build_end_transaction_marker(
        EndTransactionMarker(kind, 77), timestamp=NOW, producer_id=5, producer_epoch=6, base_offset=100, leader_epoch=3
    )
    asked = BatchCase(
        "marker",
        [],
        base_offset=100,
        producer_id=5,
        producer_epoch=6,
        leader_epoch=3,
        transactional=True,
        control=True,
        extra={"marker": kind.name, "coordinator_epoch": 77, "timestamp": NOW},
    )
    assert data(ask([asked.to_json()])[0]["theirs"]) == ours
