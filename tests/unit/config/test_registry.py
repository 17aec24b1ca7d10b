"""The registry is whole: every key says what it does, and what the source reads acts."""

from __future__ import annotations

import re
from pathlib import Path

import kbroker
from kbroker.config import BROKER_KEYS, TOPIC_KEYS, Effect, effects
from kbroker.config.dynamic import GROUP_BOUNDS
from kbroker.config.registry import SCOPES

READ_TO_REFUSE = {
    "connection.failed.authentication.delay.ms",
    "group.coordinator.rebalance.protocols",
    "group.streams.assignors",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleaner.threads",
    "queued.max.request.bytes",
    "replica.fetch.wait.max.ms",
    "replica.lag.time.max.ms",
    "replica.socket.timeout.ms",
    "security.inter.broker.protocol",
}
"""What is read only to refuse or to warn."""
READS = re.compile(r'\.(?:boolean|floating|integer|optional_integer|string|strings)\(\s*"([a-z][a-z.]*\.[a-z.]+)"')


ONLY_NAMED_IN = {f"config/{name}.py" for name in ("docs", "effects", "dev", "own")} | {
    f"cli/{name}.py" for name in ("settings", "client_settings", "consume", "produce")
}
"""Where a key stands that nobody reads there, or a client's setting of the same name."""


def test_the_hand_written_lists_name_existing_keys_once() -> None:
    assert set(BROKER_KEYS) >= effects.BROKER_ACTS | effects.BROKER_NOT_SERVED
    assert not effects.BROKER_ACTS & effects.BROKER_NOT_SERVED
    assert set(TOPIC_KEYS) >= effects.TOPIC_NO_MEANING | effects.TOPIC_NOT_SERVED


def test_every_key_is_described_and_every_acting_broker_key_in_words_of_its_own() -> None:
    assert [key.name for keys in SCOPES.values() for key in keys.all() if not key.doc] == []
    acting = [key for key in BROKER_KEYS.all() if key.effect is Effect.ACTS]
    assert [key.name for key in acting if "does not have" in key.doc or "does not serve" in key.doc] == []


def test_every_acting_broker_key_is_read_by_the_source_or_gives_topics_or_groups_their_bounds() -> None:
    sources = "".join(
        path.read_text()
        for path in Path(kbroker.__file__).parent.rglob("*.py")
        if path.parent.name != "keys" and "/".join(path.parts[-2:]) not in ONLY_NAMED_IN
    )
    defaults = {name for key in TOPIC_KEYS.all() for name in key.synonyms}
    limits = {name for bound in GROUP_BOUNDS for name in (bound.least, bound.most)}
    found = {
        key.name
        for key in BROKER_KEYS.all()
        if key.effect is Effect.ACTS
        and f'"{key.name}"' not in sources
        and key.name not in defaults
        and key.name not in limits
    }
    assert found == set()


def test_every_key_that_the_source_reads_acts() -> None:
    read = set()
    for path in Path(kbroker.__file__).parent.rglob("*.py"):
        read |= set(READS.findall(path.read_text()))
    assert "num.partitions" in read
    assert sorted(name for name in read - READ_TO_REFUSE if BROKER_KEYS[name].effect is not Effect.ACTS) == []


def test_a_misspelt_name_finds_the_nearest() -> None:
    assert BROKER_KEYS.nearest("num.partition") == "num.partitions"
    assert BROKER_KEYS.nearest("log.retention.msec") == "log.retention.ms"
    assert BROKER_KEYS.nearest("zookeeper") is None


def test_every_topic_key_with_a_broker_synonym_names_one() -> None:
    for key in TOPIC_KEYS.all():
        assert all(name in BROKER_KEYS for name in key.synonyms), key
