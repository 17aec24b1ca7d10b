"""The parts of the benchmarks that can be wrong without anybody seeing it in the figures."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from benchmarks import wire
from benchmarks.goals import GOALS, Goal, verdict
from benchmarks.report import Result, markdown, rows, write_json
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.requests import judge, numbered
from benchmarks.targets import Target
from kbroker.protocol.records.batch import crc_is_right, read_header


def results() -> list[Result]:
    case = "Produce of one record, 1 in flight"
    return [
        Result(case, "kbroker", 0, {"server CPU us/request": 900.0}),
        *(
            Result(case, "kbroker", n, {"server CPU us/request": value})
            for n, value in enumerate((12.0, 10.0, 30.0), 1)
        ),
        *(Result(case, "kafka", n, {"server CPU us/request": value}) for n, value in enumerate((24.0, 20.0, 26.0), 1)),
        Result(case, "other", 1, error="WireError: closed"),
    ]


def test_the_table_shows_medians_without_the_warm_up_and_the_ratio_to_the_reference() -> None:
    table = markdown(results(), ["kbroker", "kafka", "other"])
    assert "| 12 [10–30] | 24 [20–26] | – | 0.50 | <= 1 x: met |" in table
    assert "900" not in table


def test_a_goal_names_what_is_measured() -> None:
    names = {case.name for name in SCENARIOS for case in importlib.import_module(f"benchmarks.scenarios.{name}").CASES}
    assert {case for case, _ in GOALS} <= names


@pytest.mark.parametrize(
    ("goal", "value", "reference", "said"),
    [
        (Goal(0.4), 3.0, 10.0, "<= 0.4 x: met"),
        (Goal(0.4), 5.0, 10.0, "<= 0.4 x: MISSED"),
        (Goal(1.0, is_least=True), 9.0, 10.0, ">= 1 x: MISSED"),
        (Goal(0.12, 250), 200.0, 1000.0, "<= 0.12 x, <= 250: MISSED"),
        (Goal(absolute=45), 44.0, None, "<= 45: met"),
        (Goal(0.4), 5.0, None, "<= 0.4 x: no reference"),
    ],
)
def test_a_goal_says_whether_it_is_met(goal: Goal, value: float, reference: float | None, said: str) -> None:
    assert verdict(goal, value, reference) == said


def test_the_json_has_every_single_figure(tmp_path: Path) -> None:
    write_json(tmp_path / "figures.json", results(), [], 1.0)
    document = json.loads((tmp_path / "figures.json").read_text())
    assert len(document["results"]) == len(results())
    assert document["summary"][0]["kbroker"] == [12.0, 10.0, 30.0]
    assert "other: Produce of one record, 1 in flight: WireError: closed" in document["remarks"]
    assert list(rows(results())) == [("Produce of one record, 1 in flight", "server CPU us/request")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a=127.0.0.1:9092:17", ("a", "127.0.0.1", 9092, 17)), ("b=host:1", ("b", "host", 1, None))],
)
def test_a_target_is_a_name_an_address_and_perhaps_a_process(
    text: str, expected: tuple[str, str, int, int | None]
) -> None:
    target = Target.parse(text)
    assert (target.name, target.host, target.port, target.pid) == expected


@pytest.mark.parametrize("text", ["", "a", "a=", "a=host", "a=host:port", "=host:1", "a=host:1:2:3"])
def test_something_else_is_no_target(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Target.parse(text)


def test_a_stamped_batch_is_a_right_one() -> None:
    batch = wire.Batch([b"one", b"two"])
    assert crc_is_right(batch.data)
    stamped = batch.stamp(7, 1, 5)
    header = read_header(stamped)
    assert crc_is_right(stamped)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.record_count) == (7, 1, 5, 2)


def test_answers_are_judged_in_order_and_parts_of_one_are_left() -> None:
    seen: list[tuple[int, bytes]] = []
    answer = b"\0\0\0\x05\0\0\0\x03x"
    arrived = bytearray(answer + b"\0\0\0\x05\0\0\0\x04y" + answer[:6])
    assert judge(arrived, 3, lambda n, view: seen.append((n, bytes(view[4:])))) == 2
    assert seen == [(3, b"x"), (4, b"y")]
    assert arrived == answer[:6]
    with pytest.raises(wire.WireError):
        judge(bytearray(answer), 9, lambda *_: None)


def test_numbered_requests_differ_in_their_correlation_id_only() -> None:
    request = wire.metadata_request("t")
    second = numbered(request)(77)
    assert second[8:12] == b"\0\0\0\x4d"
    assert second[:8] + second[12:] == request[:8] + request[12:]
