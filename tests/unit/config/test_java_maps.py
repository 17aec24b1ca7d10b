"""Java's hash, and the orders of its maps that Kafka's answers show."""

from __future__ import annotations

import pytest

from kbroker.config.java_maps import (
    copied_table,
    grouped_by_topic,
    in_map_order,
    in_set_order,
    in_timeline_order,
    java_hash,
)


def test_the_hash_is_that_of_java() -> None:
    assert [java_hash(text) for text in ("", "a", "hello", "polygenelubricants")] == [0, 97, 99162322, 1 << 31]


def test_strings_come_in_the_order_of_their_slots() -> None:
    assert in_map_order(["retention.ms", "no.such.key"]) == ["retention.ms", "no.such.key"]
    assert in_map_order(["no.such.key", "retention.ms"]) == ["retention.ms", "no.such.key"]
    assert in_map_order(["nonsense", "transaction.version", ""]) == ["", "transaction.version", "nonsense"]


def test_longs_have_slots_too() -> None:
    assert in_map_order([17, 4001, 1, 4000, 1 << 32]) == [4000, 17, 4001, 1, 1 << 32]


def test_partitions_are_grouped_by_their_topics() -> None:
    topics = [f"ord-{number}" for number in range(7)]
    assert [topic for topic, _ in grouped_by_topic([(topic, 0) for topic in topics])] == [
        f"ord-{number}" for number in (2, 3, 0, 6, 4, 1, 5)
    ]
    assert grouped_by_topic([("ord-0", 0), ("ord-0", 1), ("ord-0", 3)]) == [("ord-0", [3, 0, 1])]


def test_a_set_of_more_than_four_is_ordered_by_hashes() -> None:
    assert in_set_order(["x3b", "x0a", "x0c", "x0b"]) == ["x3b", "x0a", "x0c", "x0b"]
    assert in_set_order(["x3b", "x0a", "x0c", "x0b", "x1c"]) == ["x3b", "x0a", "x0c", "x1c", "x0b"]


def test_strings_of_one_hash_stay_together() -> None:
    assert in_set_order(["AaAa", "BBBB", "AaBB", "BBAa", "z"])[-4:] == ["AaAa", "BBBB", "AaBB", "BBAa"]


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


def test_a_copied_map_has_a_table_of_its_own_size() -> None:
    assert [copied_table(entries) for entries in range(8)] == [16, 2, 4, 8, 8, 8, 16, 16]
