"""Parsing and validation say what Apache Kafka says. The messages were read off a running Apache Kafka 4.4."""

from __future__ import annotations

import pytest

from kbroker.config import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS, ConfigError
from kbroker.config.registry import SCOPES
from kbroker.config.values import java_double, parse, to_text

THROTTLED = "leader.replication.throttled.replicas"
REPLICAS = (
    "must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)
CODECS = "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"
REFUSED = [
    ("retention.ms", "x", "Invalid value x for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
    (
        "segment.bytes",
        "99999999999",
        "Invalid value 99999999999 for configuration segment.bytes: Not a number of type INT",
    ),
    ("segment.bytes", "1", "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
    (
        "cleanup.policy",
        "compact,x",
        "Invalid value x for configuration cleanup.policy: String must be one of: compact, delete",
    ),
    ("cleanup.policy", ",compact", "Configuration 'cleanup.policy' values must not be empty."),
    ("compression.type", "GZIP", f"Invalid value GZIP for configuration compression.type: {CODECS}"),
    (
        "compression.gzip.level",
        "10",
        "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
    ),
    (
        "compression.zstd.level",
        "23",
        "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22",
    ),
    (
        "preallocate",
        "yes",
        "Invalid value yes for configuration preallocate: Expected value to be either true or false",
    ),
    (
        "min.cleanable.dirty.ratio",
        "2",
        "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
    ),
    (
        "min.cleanable.dirty.ratio",
        "abc",
        "Invalid value abc for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE",
    ),
    (
        "leader.replication.throttled.replicas",
        "*,0:1",
        f"Invalid value [*, 0:1] for configuration {THROTTLED}: {THROTTLED} {REPLICAS}",
    ),
]


@pytest.mark.parametrize(("name", "text", "message"), REFUSED)
def test_a_bad_value_is_refused_in_kafkas_words(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(TOPIC_KEYS[name], text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("retention.ms", " +5 ", "5"),
        ("preallocate", " TRUE ", "true"),
        ("cleanup.policy", "", ""),
        ("cleanup.policy", "compact , delete", "compact,delete"),
        ("cleanup.policy", "compact,compact", "compact"),
        ("compression.type", " gzip ", "gzip"),
        ("compression.gzip.level", "-1", "-1"),
        ("min.cleanable.dirty.ratio", "1d", "1.0"),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("leader.replication.throttled.replicas", "0:1,", "0:1,"),
        ("leader.replication.throttled.replicas", "*", "*"),
    ],
)
def test_a_good_value_is_shown_as_kafka_shows_it(name: str, text: str, shown: str) -> None:
    assert to_text(parse(TOPIC_KEYS[name], text)) == shown


def test_lists_that_must_hold_something_say_so() -> None:
    with pytest.raises(ConfigError, match=r"'listeners' must not be empty. Valid values include: any non-empty value"):
        parse(BROKER_KEYS["listeners"], "")


def test_words_without_a_case_are_taken_in_any_case() -> None:
    assert parse(BROKER_KEYS["group.consumer.migration.policy"], "Upgrade") == "Upgrade"
    with pytest.raises(ConfigError, match="case insensitive"):
        parse(BROKER_KEYS["group.consumer.migration.policy"], "sideways")


@pytest.mark.parametrize(
    "text", ["earliest", "latest", "by_duration:PT1H", "by_duration:P1DT2H3M4.5S", "by_duration:pt1s"]
)
def test_share_groups_reset_to_an_end_or_by_a_duration(text: str) -> None:
    assert parse(GROUP_KEYS["share.auto.offset.reset"], text) == text


@pytest.mark.parametrize(
    "text", ["middle", "by_duration:", "by_duration:P", "by_duration:1h", "by_duration:-PT1S", "BY_DURATION:PT1S", ""]
)
def test_other_resets_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="by_duration"):
        parse(GROUP_KEYS["share.auto.offset.reset"], text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (0.001, "0.001"),
        (1e-4, "1.0E-4"),
        (2.5e-5, "2.5E-5"),
        (1e7, "1.0E7"),
        (-12345678.5, "-1.23456785E7"),
    ],
)
def test_floating_point_numbers_are_written_as_java_writes_them(number: float, text: str) -> None:
    assert java_double(number) == text


def test_every_default_is_a_legal_value_and_reads_back_as_it_was_written() -> None:
    for keys in SCOPES.values():
        for key in keys.all():
            # Kafka itself gives these an empty default and refuses an empty value.
            if key.default is not None and key.valid != "non-empty list":
                assert to_text(parse(key, key.default)) == key.default, key


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("min.cleanable.dirty.ratio", "1" * 500_000 + "x"),
        ("retention.ms", "1" * 500_000),
        ("cleanup.policy", "x" + " " * 500_000 + "x"),
    ],
)
def test_a_long_value_is_refused_as_fast_as_a_short_one(name: str, text: str) -> None:
    with pytest.raises(ConfigError):
        parse(TOPIC_KEYS[name], text)


def test_the_white_space_around_commas_is_no_part_of_a_list() -> None:
    assert parse(TOPIC_KEYS["cleanup.policy"], " compact \t, delete\n") == ["compact", "delete"]
