"""The differences from Apache Kafka that are meant. An entry that no longer differs fails the comparison."""

from __future__ import annotations

from collections.abc import Iterable

from tests.reference.comparison import Deviation, Difference

DEVIATIONS: tuple[Deviation, ...] = (
    Deviation("*", "*.error_message", "kbroker says cause and next step where Kafka sends no message", reference=None),
    Deviation(
        "a_type_of_coordinator*",
        "*error_message",
        "kbroker names the type that it does not have where Kafka has a text for all invalid requests",
    ),
    Deviation(
        "versions_that_kafka_4_dropped-v0",
        "*",
        "kbroker still serves the versions of record formats 0 and 1",
        reference="<connection closed>",
    ),
    Deviation("what_is_served*", "* key *", "kbroker still serves versions that Kafka 4 dropped"),
    Deviation(
        "every_configuration-v*",
        "*errors.deadletterqueue.group.enable=true*",
        "share groups are not served yet, and what is not served is refused",
    ),
    Deviation(
        "many_records_of_several_segments-v*",
        "*offset */1",
        "a large answer ends with a whole batch instead of inside of one that the reader would have to ask for again",
    ),
    Deviation(
        "the_quorum_of_one-v2",
        "* node/1",
        "the controller inside a lone broker has no listener of its own to tell of",
    ),
    Deviation(
        "alterations_that_a_broker_refuses-v1",
        "* ('listeners', 0, 'x').responses/0.error_message",
        "the same refusal says what is expected",
    ),
    Deviation(
        "alterations_that_a_broker_refuses-v1",
        "* ('log.cleaner.threads', 0, '*').responses/0.error_message",
        "Apache Kafka shows the text of a Java exception (a division by zero, a buffer that kbroker does not have)",
    ),
    Deviation(
        "alterations_of_a_group-v1",
        "* ('consumer.session.timeout.ms', 7, '1').responses/0.error_message",
        "the same error says what is wrong",
    ),
    Deviation(
        "every_configuration-v*",
        "* errors.deadletterqueue.group.enable=true.*",
        "there are no share groups yet, so nothing could do what this asks for",
    ),
    Deviation(
        "clients_that_are_too_new_for_the_level-v0",
        "* AddPartitionsToTxn.*",
        "each transaction of a batch has its own answer, where Apache Kafka's first failure answers for all",
    ),
    Deviation(
        "time_outs-v1",
        "* too late.error_code",
        "Apache Kafka takes a fenced producer's EndTxn 5 for a repeat of the end that an older client made after it",
        reference=48,
    ),
    Deviation(
        "an_end_by_an_older_client_and_whom_it_fenced-v0",
        "* the fenced one*",
        "the same: the fenced producer is given the epoch of its successor",
    ),
    Deviation(
        "the_four_operations-v*",
        "* retention.ms *.responses/0.error_message",
        "the same error says what is wrong",
    ),
)


def sift(
    found: Iterable[Difference], deviations: Iterable[Deviation] = DEVIATIONS
) -> tuple[list[Difference], list[Deviation]]:
    """The differences that are not meant, and the deviations that the others are."""
    open_differences, used = [], []
    for difference in found:
        covering = [deviation for deviation in deviations if deviation.covers(difference)]
        used += covering
        if not covering:
            open_differences.append(difference)
    return open_differences, used
