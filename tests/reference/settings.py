"""How the two brokers of a comparison are started: alike, and kbroker walking every record as Apache Kafka does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.broker_process import BrokerProcess
from tools.reference_kafka import ReferenceKafka

STANDING_STILL = {"log.retention.ms": "-1"}
"""Nothing goes because it is old, at a moment that each broker has for itself: the records of many questions are."""
KBROKER_OPTIONS = (
    "--override",
    "kbroker.record.validation=full",
    "--override",
    "transaction.max.timeout.ms=900000",
    "--override",
    "offsets.topic.num.partitions=50",
)
KBROKER_STANDING_STILL = (
    *KBROKER_OPTIONS,
    *(word for key, value in STANDING_STILL.items() for word in ("--override", f"{key}={value}")),
)


def kbroker_with_two_directories(folder: Path, *options: str) -> BrokerProcess:
    """A kbroker to compare with, not started yet."""
    return BrokerProcess(folder / "kbroker", *options, more_dirs=[folder / "kbroker-more"])


@contextlib.contextmanager
def start_reference(
    folder: Path, running: str | None = None, *, directories: int = 1, overrides: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The address of an Apache Kafka: the one that runs already, or one for as long as the context lasts."""
    if running:
        yield running
        return
    paths = ",".join(f"{folder}/reference-data-{number}" for number in range(directories))
    with ReferenceKafka(folder / "reference", overrides={"log.dirs": paths, **(overrides or {})}) as reference:
        yield reference.bootstrap
