"""The differences from Apache Kafka 3.9 that are meant. An entry that no longer differs fails the comparison."""

from __future__ import annotations

from tests.reference.comparison import Deviation

OLD_DEVIATIONS: tuple[Deviation, ...] = (
    Deviation(
        "what_is_wrong_with_a_message_set-v2",
        "* magic 2 of a message.*.error_code",
        "kbroker says CORRUPT_MESSAGE where Apache Kafka runs out of its buffer and has no code",
        reference=-1,
    ),
    Deviation(
        "what_is_wrong_*-v2",
        "* a batch in a wrapper.*.error_code",
        "kbroker says INVALID_RECORD where Apache Kafka runs out of its buffer and has no code",
        reference=-1,
    ),
    Deviation(
        "a_topic_of_zstd-v*",
        "*.records",
        "empty records, as Apache Kafka 4 sends them, and not null: no old client asks for null",
        reference=None,
    ),
)
