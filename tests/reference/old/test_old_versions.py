"""Apache Kafka 3.9 and kbroker answer alike in the versions that Apache Kafka 4 no longer serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.reference.comparison import Deviation
from tests.reference.conversation import Question, ask_both
from tests.reference.old.deviations import OLD_DEVIATIONS
from tests.reference.old.questions import OLD_QUESTIONS
from tests.reference.settings import KBROKER_STANDING_STILL, STANDING_STILL
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

LAST_WITH_OLD_FORMATS = "3.9.2"
AS_KAFKA_4 = {"log.message.timestamp.after.max.ms": "3600000"}

pytestmark = pytest.mark.all
used: set[Deviation] = set()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    require("java")
    folder: Path = tmp_path_factory.mktemp("old")
    with (
        ReferenceKafka(
            folder / "reference", version=LAST_WITH_OLD_FORMATS, overrides={**STANDING_STILL, **AS_KAFKA_4}
        ) as reference,
        BrokerProcess(folder / "kbroker", *KBROKER_STANDING_STILL) as broker,
    ):
        yield reference.bootstrap, broker.bootstrap


@pytest.mark.parametrize("asked", OLD_QUESTIONS, ids=str)
def test_both_answer_an_old_client_alike(brokers: tuple[str, str], asked: Question) -> None:
    _, open_differences, meant = ask_both(asked, *brokers, OLD_DEVIATIONS)
    used.update(meant)
    assert not open_differences, "\n".join(map(str, open_differences))


def test_every_deviation_that_is_listed_was_seen() -> None:
    """Runs after the questions; an entry of the list that no longer differs is to be taken out."""
    assert not set(OLD_DEVIATIONS) - used
