"""Each dynamic key that acts, changed under a log that is in use: what the broker does is another thing from then on.

That a change reaches the config of partitions is in ``test_dynamic_configs``; here it is what comes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from kbroker.config import BROKER_KEYS, TOPIC_KEYS, Effect
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records.metadata import ConfigRecord
from kbroker.protocol.records.batch import BATCH_OVERHEAD, Record, build_batch, read_header
from kbroker.protocol.records.compression import Compression, compress, decompress
from tests.sim.disk import SimFile
from tests.unit.log.cleaning import all_records
from tests.unit.replication.test_cleaning import KeptHouse
from tests.unit.replication.test_dynamic_configs import CHANGED

ROOT = Path(__file__).parents[3]
TOPIC, BROKER = 2, 4
HOUR_MS = 3_600_000
WORDS = Random(1).choices([b"so", b"on", b"until", b"the", b"end", b"of", b"time"], k=4000)
TEXT = b" ".join(WORDS)
LEVELS = {Compression.GZIP: (-1, 1), Compression.LZ4: (9, 12), Compression.ZSTD: (3, 19)}


class Bench(KeptHouse):
    """A house with the topic ``t``, whose log is in use, and what may be seen of it."""

    def __init__(self, configs: Mapping[str, str], settings: dict[str, str] | None = None) -> None:
        super().__init__(settings)
        self.node.create("t", replicas=(1, 2), isr=(1,), configs=configs)
        self.put("t", b"first")

    def change(self, kind: int, name: str, key: str, value: str | None) -> None:
        self.node.apply(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))

    def append(
        self,
        value: bytes = b"v",
        *,
        key: bytes | None = b"k",
        age_ms: int = 0,
        acks: int = 1,
        codec: Compression = Compression.NONE,
    ) -> ErrorCode:
        now_ms = self.node.host.clock.wall_ms()
        batch = build_batch([Record(0, now_ms - age_ms, key, value, [])], compression=codec)
        try:
            self.node.partition("t").append_as_leader(bytearray(batch), acks, now_ms)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    def stored(self) -> bytes:
        """The last batch, as it is in the file."""
        log = self.log("t")
        found = log.read(log.log_end_offset - 1, 1 << 20, end_offset=log.log_end_offset, at_least_one=True)
        return found if isinstance(found, bytes) else found.to_bytes()

    def close(self) -> None:
        self.node.wait(self.housekeeping.stop())
        self.node.close()


# --- what there is to see, before and after


def level(bench: Bench) -> int:
    bench.append(TEXT)
    batch = bench.stored()
    used, packed = read_header(batch).compression, batch[BATCH_OVERHEAD:]
    plain = decompress(used, packed, 1 << 20)
    return next(each for each in LEVELS[used] if compress(used, plain, each) == packed)


def codec(bench: Bench) -> str:
    bench.append()
    return read_header(bench.stored()).compression.name


def takes_a_record_without_a_key(bench: Bench) -> str:
    return bench.append(key=None).name


def takes_300_bytes(bench: Bench) -> str:
    return bench.append(bytes(300)).name


def takes_a_small_batch_of_5000_bytes(bench: Bench) -> str:
    return bench.append(bytes(5000), codec=Compression.GZIP).name


def takes_what_is_a_minute_old(bench: Bench) -> str:
    return bench.append(age_ms=60_000).name


def takes_what_is_a_minute_ahead(bench: Bench) -> str:
    return bench.append(age_ms=-60_000).name


def takes_acks_all(bench: Bench) -> str:
    return bench.append(acks=-1).name


def whose_time_is_stored(bench: Bench) -> str:
    bench.append(age_ms=5000)
    return read_header(bench.stored()).timestamp_type.name


def is_shown_before_its_fsync(bench: Bench) -> bool:
    bench.append()
    return bench.node.partition("t").high_watermark == bench.log("t").log_end_offset


def is_synced_in_5_seconds(bench: Bench) -> bool:
    bench.append()
    bench.node.turn(5)
    return bench.log("t").recovery_point == bench.log("t").log_end_offset


def entries_of_the_next_offset_index(bench: Bench) -> int:
    bench.log("t").roll(0)
    for _ in range(4):
        bench.append()
    return len(bench.log("t").segments[-1].offset_index.entries())


def segments_after_four_appends(bench: Bench) -> int:
    for _ in range(4):
        bench.append()
    return len(bench.log("t").segments)


def segments_after_the_next_and_four_appends(bench: Bench) -> int:
    bench.log("t").roll(0)
    return segments_after_four_appends(bench)


def segments_after_two_large_appends(bench: Bench) -> int:
    for _ in range(2):
        bench.append(bytes(600_000))
    return len(bench.log("t").segments)


def segments_after_almost_10_seconds(bench: Bench) -> int:
    bench.log("t").roll(bench.node.host.clock.wall_ms())
    bench.append()
    bench.append(age_ms=-9900)
    return len(bench.log("t").segments)


def room_asked_for(bench: Bench) -> int:
    asked: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimFile, "reserve", lambda _, size: asked.append(size))
        bench.append()
    return sum(asked)


def files_of_a_deleted_topic_after_5_seconds(bench: Bench) -> bool:
    bench.node.delete("t")
    bench.node.turn(5)
    return any(name.endswith("-delete") for name in bench.node.host.disk.list_dir("/data"))


def records_after_20_seconds(bench: Bench) -> int:
    for _ in range(4):
        bench.append()
    bench.node.turn(20)
    return bench.log("t").log_end_offset - bench.log("t").log_start_offset


def is_compacted(bench: Bench) -> bool:
    for _ in range(20):
        bench.append()
    bench.node.turn(5)
    return bench.log("t").clean_end_offset is not None


def is_compacted_for_a_few_records_more(bench: Bench) -> bool:
    for number in range(100):
        bench.append(key=b"%d" % number)
    bench.node.turn(5)
    for _ in range(10):
        bench.append()
    bench.node.turn(5)
    return bench.log("t").clean_end_offset == bench.log("t").segments[-1].base_offset


def tombstones_after_two_cleanings(bench: Bench) -> int:
    bench.put("t", b"gone", None)
    for _ in range(2):
        for _ in range(10):
            bench.append()
        bench.node.turn(5)
    return sum(record.value is None for record in all_records(bench.log("t")))


class Case(NamedTuple):
    """``look`` sees ``usually`` with the default, and ``then`` once the key has ``value``."""

    value: str
    look: Callable[[Bench], object]
    usually: object
    then: object
    configs: Mapping[str, str] = {}
    """Of the topic from the start."""


ROLLED = {"internal.segment.bytes": "100"}
COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": "300", "min.cleanable.dirty.ratio": "0.01"}
LATER = {**COMPACTED, "min.cleanable.dirty.ratio": "1"}
TOPIC_CASES = {
    "cleanup.policy": Case("compact", takes_a_record_without_a_key, "NONE", "INVALID_RECORD"),
    "compression.gzip.level": Case("1", level, -1, 1, {"compression.type": "gzip"}),
    "compression.lz4.level": Case("12", level, 9, 12, {"compression.type": "lz4"}),
    "compression.type": Case("lz4", codec, "NONE", "LZ4"),
    "compression.zstd.level": Case("19", level, 3, 19, {"compression.type": "zstd"}),
    "delete.retention.ms": Case("1", tombstones_after_two_cleanings, 1, 0, COMPACTED),
    "file.delete.delay.ms": Case("1000", files_of_a_deleted_topic_after_5_seconds, True, False),
    "flush.messages": Case("1", is_shown_before_its_fsync, True, False),
    "flush.ms": Case("1000", is_synced_in_5_seconds, False, True),
    "index.interval.bytes": Case("1", entries_of_the_next_offset_index, 0, 3),
    "internal.segment.bytes": Case("100", segments_after_four_appends, 1, 5),
    "max.compaction.lag.ms": Case("1000", is_compacted, False, True, LATER),
    "max.decompressed.message.bytes": Case("1000", takes_a_small_batch_of_5000_bytes, "NONE", "INVALID_RECORD"),
    "max.message.bytes": Case("300", takes_300_bytes, "NONE", "MESSAGE_TOO_LARGE"),
    "message.timestamp.after.max.ms": Case("1000", takes_what_is_a_minute_ahead, "NONE", "INVALID_TIMESTAMP"),
    "message.timestamp.before.max.ms": Case("1000", takes_what_is_a_minute_old, "NONE", "INVALID_TIMESTAMP"),
    "message.timestamp.type": Case("LogAppendTime", whose_time_is_stored, "CREATE_TIME", "LOG_APPEND_TIME"),
    "min.cleanable.dirty.ratio": Case(
        "0.01", is_compacted_for_a_few_records_more, False, True, {**COMPACTED, "min.cleanable.dirty.ratio": "0.5"}
    ),
    "min.compaction.lag.ms": Case(str(HOUR_MS), is_compacted, True, False, COMPACTED),
    "min.insync.replicas": Case("2", takes_acks_all, "NONE", "NOT_ENOUGH_REPLICAS"),
    "preallocate": Case("true", room_asked_for, 0, 1 << 30),
    "retention.bytes": Case("100", records_after_20_seconds, 5, 2, ROLLED),
    "retention.ms": Case("10000", records_after_20_seconds, 5, 0, ROLLED),
    "segment.bytes": Case("1048576", segments_after_two_large_appends, 1, 2),
    "segment.index.bytes": Case("16", segments_after_the_next_and_four_appends, 2, 5, {"index.interval.bytes": "1"}),
    "segment.jitter.ms": Case("9999", segments_after_almost_10_seconds, 2, 3, {"segment.ms": "10000"}),
    "segment.ms": Case("5000", segments_after_almost_10_seconds, 2, 3),
}


# --- what the broker itself goes by


def is_compacted_in_6_seconds(bench: Bench) -> bool:
    for number in range(1500):
        bench.append(bytes(100), key=b"%d" % (number % 300))
    bench.node.turn(6)
    return bench.log("t").clean_end_offset is not None


def rounds_of_cleaning(bench: Bench) -> int:
    for number in range(300):
        bench.append(key=b"%d" % number)
    ends = set()
    for _ in range(400):
        bench.node.turn(0.01)
        ends.add(bench.log("t").clean_end_offset)
    return len(ends - {None})


def logs_cleaned_at_a_time(bench: Bench) -> int:
    topics = ("t", "u", "v")
    for topic in topics[1:]:
        bench.node.create(topic, configs=LARGER)
    for topic in topics:
        for number in range(200):
            bench.put(topic, b"%d" % (number % 100), bytes(100))
    seen = set()
    for _ in range(1500):
        bench.node.turn(0.001)
        seen.add(sum(bool(bench.files(topic, ".cleaned")) for topic in topics))
    return max(seen)


LARGER = {**COMPACTED, "internal.segment.bytes": "3000"}
BROKER_CASES = {
    "log.cleaner.dedupe.buffer.size": Case("40000", rounds_of_cleaning, 1, 2, LARGER),
    "log.cleaner.io.buffer.load.factor": Case("0.0003", rounds_of_cleaning, 1, 2, LARGER),
    "log.cleaner.io.max.bytes.per.second": Case("20000", is_compacted_in_6_seconds, True, False, LARGER),
    "log.cleaner.threads": Case("2", logs_cleaned_at_a_time, 1, 2, LARGER),
}
ELSEWHERE = {
    "cordoned.log.dirs": "tests/unit/replication/test_moves.py",
    "log.cleaner.backoff.ms": "tests/unit/replication/test_cleaning.py",
    "max.connection.creation.rate": "tests/unit/server/test_dynamic_limits.py",
    "max.connections": "tests/unit/server/test_dynamic_limits.py",
    "max.connections.per.ip": "tests/unit/server/test_dynamic_limits.py",
    "max.connections.per.ip.overrides": "tests/unit/server/test_dynamic_limits.py",
    "producer.id.expiration.ms": "tests/unit/replication/test_dynamic_configs.py",
    "transaction.partition.verification.enable": "tests/unit/coordinator/test_transactions.py",
    "unclean.leader.election.enable": "tests/unit/kraft/test_partitions.py",
}
"""Where each of the others is changed and looked at."""
FIXED = {"listeners", "listener.security.protocol.map"}
"""Every change of these is refused."""


def seen(key: str, case: Case, kind: int, name: str, value: str | None) -> object:
    bench = Bench(case.configs)
    if value is not None:
        bench.change(kind, name, key, value)
    found = case.look(bench)
    bench.close()
    return found


@pytest.mark.parametrize("key", sorted(TOPIC_CASES))
def test_a_topics_changed_value_acts(key: str) -> None:
    case = TOPIC_CASES[key]
    assert seen(key, case, TOPIC, "t", None) == case.usually
    assert seen(key, case, TOPIC, "t", case.value) == case.then


@pytest.mark.parametrize("key", sorted(BROKER_CASES))
def test_a_brokers_changed_value_acts(key: str) -> None:
    case = BROKER_CASES[key]
    assert seen(key, case, BROKER, "", None) == case.usually
    for every_or_this in ("", "1"):
        assert seen(key, case, BROKER, every_or_this, case.value) == case.then


def test_every_dynamic_key_that_acts_is_seen_to_act() -> None:
    topic = {key.name for key in TOPIC_KEYS.all() if key.effect is Effect.ACTS}
    assert topic == set(TOPIC_CASES) | {"unclean.leader.election.enable"}
    assert set(TOPIC_CASES) == set(CHANGED)
    defaults = {name for key in TOPIC_KEYS.all() for name in key.synonyms}
    broker = {key.name for key in BROKER_KEYS.all() if key.effect is Effect.ACTS and not key.read_only}
    assert broker - defaults == (set(BROKER_CASES) | set(ELSEWHERE) | FIXED) - {"unclean.leader.election.enable"}
    for key, path in ELSEWHERE.items():
        assert f'"{key}"' in (ROOT / path).read_text()
