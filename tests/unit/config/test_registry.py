"""The registry is whole: every key says what it does, and what the source reads acts."""

from __future__ import annotations

import re
from pathlib import Path

import kbroker
from kbroker.config import BROKER_KEYS, TOPIC_KEYS, Effect, effects

READS = re.compile(r'\.(?:boolean|floating|integer|optional_integer|string|strings)\(\s*"([a-z][a-z.]*\.[a-z.]+)"')


def test_the_hand_written_lists_name_existing_keys_once() -> None:
    assert set(BROKER_KEYS) >= effects.BROKER_ACTS | effects.BROKER_NOT_SERVED
    assert not effects.BROKER_ACTS & effects.BROKER_NOT_SERVED
    assert set(TOPIC_KEYS) >= effects.TOPIC_NO_MEANING | effects.TOPIC_NOT_SERVED


def test_every_topic_key_and_every_acting_broker_key_is_described() -> None:
    keys = TOPIC_KEYS.all() + [key for key in BROKER_KEYS.all() if key.effect is Effect.ACTS]
    assert [key.name for key in keys if not key.doc] == []


def test_every_key_that_the_source_reads_acts() -> None:
    read = set()
    for path in Path(kbroker.__file__).parent.rglob("*.py"):
        read |= set(READS.findall(path.read_text()))
    assert "num.partitions" in read
    # Read only to refuse or to warn.
    read -= {"security.inter.broker.protocol"}
    assert sorted(name for name in read if BROKER_KEYS[name].effect is not Effect.ACTS) == []


def test_a_misspelt_name_finds_the_nearest() -> None:
    assert BROKER_KEYS.nearest("num.partition") == "num.partitions"
    assert BROKER_KEYS.nearest("log.retention.msec") == "log.retention.ms"
    assert BROKER_KEYS.nearest("zookeeper") is None


def test_every_topic_key_with_a_broker_synonym_names_one() -> None:
    for key in TOPIC_KEYS.all():
        assert all(name in BROKER_KEYS for name in key.synonyms), key
