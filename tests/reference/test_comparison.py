"""Apache Kafka and kbroker are asked the same questions and answer alike, but for the differences that are meant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reference.comparison import Deviation
from tests.reference.conversation import Question, ask_both
from tests.reference.deviations import DEVIATIONS
from tests.reference.questions import QUESTIONS, produce
from tests.reference.settings import KBROKER_OPTIONS, kbroker_with_two_directories, start_reference
from tests.toolchains import require

pytestmark = pytest.mark.all
used: set[Deviation] = set()
OF_PRODUCE = [each for each in QUESTIONS if each.scenario.__module__ == produce.__name__]


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    require("java")
    folder: Path = tmp_path_factory.mktemp("comparison")
    with (
        start_reference(folder, directories=2) as reference,
        kbroker_with_two_directories(folder, *KBROKER_OPTIONS) as broker,
    ):
        yield reference, broker.bootstrap


@pytest.mark.parametrize("asked", QUESTIONS, ids=str)
def test_both_answer_alike(brokers: tuple[str, str], asked: Question) -> None:
    _, open_differences, meant = ask_both(asked, *brokers)
    used.update(meant)
    assert not open_differences, "\n".join(map(str, open_differences))


@pytest.fixture(scope="module")
def by_header(brokers: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The second broker looks at records as deep as it does by default."""
    with kbroker_with_two_directories(tmp_path_factory.mktemp("by-header")) as broker:
        yield brokers[0], broker.bootstrap


@pytest.mark.parametrize("asked", OF_PRODUCE, ids=str)
def test_batches_are_answered_alike_whatever_the_depth(by_header: tuple[str, str], asked: Question) -> None:
    _, open_differences, _ = ask_both(asked, *by_header)
    assert not open_differences, "\n".join(map(str, open_differences))


def test_every_deviation_that_is_listed_was_seen() -> None:
    """Runs after the questions; an entry of the list that no longer differs is to be taken out."""
    assert [deviation for deviation in DEVIATIONS if deviation not in used] == []
