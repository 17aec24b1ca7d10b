"""Message sets and down-conversion, held against the classes of Apache Kafka 3.9, the last that had them."""

from __future__ import annotations

import json
import random
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.records.batch import Record, build_batch, read_header
from kbroker.protocol.records.compression import Compression
from kbroker.protocol.records.conversion import down_convert
from kbroker.protocol.records.legacy import build_message_set
from tests import toolchains
from tests.message_sets import read_message_set
from tests.reference.old.test_old_versions import LAST_WITH_OLD_FORMATS
from tools import reference_kafka

pytestmark = pytest.mark.all

PROGRAM = Path(__file__).with_name("MessageSets.java")
CODECS = [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4]


def some_records(source: random.Random) -> list[Record]:
    """Up to 30 records with gaps between their offsets, as compaction leaves them."""
    offset = source.randrange(1 << 40)
    made = []
    for _ in range(source.randint(1, 30)):
        key, value = (
            None if source.random() < 0.2 else source.randbytes(source.choice((0, 1, 30, 300))) for _ in range(2)
        )
        made.append(Record(offset, source.choice((-1, 0, source.randrange(1 << 42))), key, value))
        offset += source.choice((1, 1, 1, source.randrange(1, 1000)))
    return made


def text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def shown(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {"offset": each.offset, "timestamp": each.timestamp, "key": text(each.key), "value": text(each.value)}
        for each in records
    ]


def read(message_set: bytes) -> list[Record]:
    return list(read_message_set(message_set, max_decompressed=1 << 24))


def test_each_side_reads_and_converts_what_the_other_writes() -> None:
    toolchains.require("java")
    source = random.Random(11)
    cases = []
    for number in range(200):
        magic, codec, records = number % 2, CODECS[number // 2 % 4], some_records(source)
        batch = build_batch(
            [record._replace(headers=[("h", b"1")]) for record in records],
            base_offset=records[0].offset,
            last_offset=records[-1].offset,
            keep_offsets=True,
            compression=codec,
        )
        cases.append((magic, codec, records, batch, source.choice(records).offset))
    questions = [
        {
            "magic": magic,
            "codec": int(codec),
            "records": shown(records),
            "ours": text(build_message_set(records, magic, compression=codec)),
            "batch": text(batch),
            "first_offset": first_offset,
        }
        for magic, codec, records, batch, first_offset in cases
    ]
    said = reference_kafka.tool(str(PROGRAM), stdin=json.dumps(questions), version=LAST_WITH_OLD_FORMATS)
    for (magic, codec, records, batch, first_offset), answer in zip(cases, json.loads(said), strict=True):
        expected = records if magic else [record._replace(timestamp=-1) for record in records]
        theirs, their_down = b64decode(answer["theirs"]), b64decode(answer["down"])
        our_down = down_convert(read_header(batch), batch, magic, first_offset)
        assert answer["read"] == shown(expected)
        assert read(theirs) == expected
        assert read(our_down) == read(their_down)
        if codec is Compression.NONE:
            assert build_message_set(records, magic) == theirs
            assert our_down == their_down
