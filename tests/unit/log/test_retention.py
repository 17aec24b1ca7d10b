"""Old segments go by time, size and a moved log start, and their files after a delay."""

from __future__ import annotations

import pytest

from kbroker.log.retention import delete_old_segments
from tests.unit.log.logs import Bench, batch, read_all, topic_config

SIZE = len(batch(b"value"))


def filled(**config: object) -> Bench:
    """Ten records in segments of three, their timestamps 1000 apart."""
    bench = Bench(0, internal_segment_bytes=3 * SIZE, segment_ms=10**9, **config)
    for number in range(10):
        bench.append(timestamp=1000 * number, now_ms=10_000)
    return bench


def bases(bench: Bench) -> list[int]:
    return [segment.base_offset for segment in bench.log.segments]


@pytest.mark.parametrize(
    ("config", "now_ms", "left"),
    [
        ({"retention_ms": 5000}, 7000, [0, 3, 6, 9]),
        ({"retention_ms": 5000}, 7001, [3, 6, 9]),
        ({"retention_ms": 5000}, 10_001, [6, 9]),
        ({"retention_ms": 5000}, 14_001, [10]),
        ({"retention_ms": -1}, 10**12, [0, 3, 6, 9]),
        ({"retention_ms": -1, "retention_bytes": 7 * SIZE}, 0, [3, 6, 9]),
        ({"retention_ms": -1, "retention_bytes": 7 * SIZE + 1}, 0, [0, 3, 6, 9]),
        ({"retention_ms": -1, "retention_bytes": 0}, 0, [10]),
        ({"retention_ms": 0, "cleanup_policy": "compact"}, 10**12, [0, 3, 6, 9]),
    ],
)
def test_segments_go_when_all_their_records_are_too_old_or_too_many(
    config: dict[str, object], now_ms: int, left: list[int]
) -> None:
    bench = filled() if not config else Bench(0)
    if config:
        compacted = config.get("cleanup_policy") == "compact"
        bench = filled(**{name: value for name, value in config.items() if name != "cleanup_policy"})
        if compacted:
            bench.log.config = topic_config(internal_segment_bytes=3 * SIZE, **config)
    delete_old_segments(bench.log, now_ms, high_watermark=10)
    assert bases(bench) == left
    assert bench.log.log_start_offset == left[0]
    assert [offset for offset, _ in read_all(bench.log)] == list(range(left[0], 10))


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    bench = filled(retention_ms=1)
    delete_old_segments(bench.log, 10**12, high_watermark=5)
    assert bases(bench) == [3, 6, 9]


def test_segments_below_a_moved_log_start_go_whatever_the_policy() -> None:
    bench = filled(retention_ms=-1)
    bench.log.update_log_start_offset(7)
    delete_old_segments(bench.log, 0, high_watermark=10)
    assert bases(bench) == [6, 9]
    assert bench.log.log_start_offset == 7


def test_deleted_files_are_renamed_stay_readable_for_a_fetch_and_are_removed_later() -> None:
    bench = filled(retention_ms=5000)
    found = bench.log.read(0, 1000)
    discarded = delete_old_segments(bench.log, 7001, high_watermark=10)
    assert discarded is not None
    discarded.rename()
    assert [name for name in bench.names() if name.endswith(".deleted")] == [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
    ]
    assert not isinstance(found, bytes)
    assert len(found.to_bytes()) == len(found)
    discarded.remove()
    assert not [name for name in bench.names() if name.endswith(".deleted")]


def test_a_kill_between_renaming_and_removing_leaves_nothing_behind() -> None:
    bench = filled(retention_ms=5000)
    discarded = delete_old_segments(bench.log, 7001, high_watermark=10)
    assert discarded is not None
    discarded.rename()
    bench.kill()
    log = bench.open(clean=False)
    assert log.log_start_offset == 3
    assert not [name for name in bench.names() if name.endswith(".deleted")]
