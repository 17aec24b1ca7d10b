from __future__ import annotations

import pytest

from kbroker.config.java_maps import in_map_order, in_timeline_order, java_hash


def test_the_hash_is_that_of_java() -> None:
    assert [java_hash(text) for text in ("", "a", "hello", "polygenelubricants")] == [0, 97, 99162322, 1 << 31]


def test_strings_come_in_the_order_of_their_slots() -> None:
    assert in_map_order(["retention.ms", "no.such.key"]) == ["retention.ms", "no.such.key"]
    assert in_map_order(["no.such.key", "retention.ms"]) == ["retention.ms", "no.such.key"]
    assert in_map_order(["nonsense", "transaction.version", ""]) == ["", "transaction.version", "nonsense"]


def test_a_larger_table_has_more_slots() -> None:
    letters = [chr(97 + number) for number in range(26)]
    assert in_map_order(letters[::-1])[:3] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("count", "order"),
    [
        (2, [0, 1]),
        (3, [2, 0, 1]),
        (5, [2, 0, 4, 1, 3]),
        (12, [0, 5, 10, 2, 7, 4, 9, 1, 6, 11, 3, 8]),
    ],
)
def test_numbers_stand_as_in_a_timeline_map(count: int, order: list[int]) -> None:
    """Read off Apache Kafka 4.4: the partitions of all offsets of a group."""
    assert in_timeline_order(range(count)) == order
