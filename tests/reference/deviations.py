"""The differences from Apache Kafka that are meant. An entry that no longer differs fails the comparison."""

from __future__ import annotations

from tests.reference.comparison import Deviation

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation("*", "*.error_message", "kbroker says cause and next step where Kafka sends no message", reference=None),
    Deviation(
        "a_type_of_coordinator*",
        "*error_message",
        "kbroker names the type that it does not have where Kafka has a text for all invalid requests",
    ),
    Deviation("what_is_served*", "* key *", "kbroker still serves versions that Kafka 4 dropped"),
    Deviation(
        "every_configuration*",
        "*errors.deadletterqueue.group.enable=true*",
        "share groups are not served yet, and what is not served is refused",
    ),
    Deviation(
        "every_configuration-v7",
        "*internal.segment.bytes*topic_id",
        "one topic id fewer was given out before, as the entry above was refused",
    ),
)
