"""How the generator merges definitions and names things."""

from __future__ import annotations

from typing import Any

import pytest

from tools.generate_messages import merge_definitions, merge_fields, message_text, snake_case


def definition(valid: str, *fields: dict[str, Any], name: str = "ThingRequest", key: int = 7) -> dict[str, Any]:
    return {
        "name": name,
        "type": "request",
        "apiKey": key,
        "validVersions": valid,
        "flexibleVersions": "none",
        "fields": list(fields),
    }


def field(name: str, versions: str, kind: str = "int32", **rest: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, **rest}


def merged(newer: dict[str, Any], older: dict[str, Any]) -> dict[str, Any]:
    return dict(merge_definitions({newer["name"]: newer}, {older["name"]: older})[newer["name"]])


def test_versions_that_were_dropped_come_back_with_the_fields_that_only_they_had() -> None:
    newer = definition("2-5", field("A", "0+"), field("C", "3+"))
    older = definition("0-4", field("A", "0+"), field("B", "0-1"), field("C", "3+"))
    message = merged(newer, older)
    assert message["validVersions"] == "0-5"
    assert [(each["name"], each["versions"]) for each in message["fields"]] == [("A", "0+"), ("B", "0-1"), ("C", "3+")]


def test_a_field_renamed_in_versions_that_live_on_is_not_there_twice() -> None:
    message = merged(definition("0-2", field("ReplicaId", "0+")), definition("0-1", field("CandidateId", "0+")))
    assert [each["name"] for each in message["fields"]] == ["ReplicaId"]


def test_a_field_renamed_together_with_a_drop_keeps_the_old_name_for_the_dropped_versions_only() -> None:
    message = merged(definition("1-2", field("New", "0+")), definition("0-1", field("Old", "0+")))
    assert {each["name"]: each["versions"] for each in message["fields"]} == {"Old": "0", "New": "1+"}


def test_what_was_nullable_in_a_dropped_version_still_is() -> None:
    newer = [field("A", "0+", "string")]
    older = [field("A", "0+", "string", nullableVersions="0+")]
    assert merge_fields(newer, older, {0})[0]["nullableVersions"] == "0"


def test_a_message_that_is_only_a_name_today_is_taken_from_the_past() -> None:
    older = definition("0-3", field("A", "0+"))
    assert merged(definition("none"), older) == older


def test_an_api_under_a_new_name_does_not_come_back_under_the_old_one() -> None:
    newer, older = definition("0-1", name="NewRequest"), definition("0", name="OldRequest")
    assert list(merge_definitions({"NewRequest": newer}, {"OldRequest": older})) == ["NewRequest"]


def test_versions_with_a_gap_are_refused() -> None:
    with pytest.raises(ValueError, match="gap"):
        merged(definition("3"), definition("0-1"))


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("ThrottleTimeMs", "throttle_time_ms"),
        ("IsrChangeDelayMs", "isr_change_delay_ms"),
        ("SCRAMMechanism", "scram_mechanism"),
        ("KRaftVersionFeature", "kraft_version_feature"),
        ("group", "group"),
    ],
)
def test_names_are_written_in_snake_case(name: str, snake: str) -> None:
    assert snake_case(name) == snake


def test_a_json_null_is_no_default_but_the_text_null_is() -> None:
    text = message_text(
        definition(
            "0",
            field("A", "0+", "[]int32", nullableVersions="0+", default=None),
            field("B", "0+", "[]int32", nullableVersions="0+", default="null"),
            field("C", "0+", default="0x7fffffff"),
        )
    )
    assert 'a: list[int] | None = field("[]int32", "0+", default=NEW, nullable="0+")' in text
    assert 'b: list[int] | None = field("[]int32", "0+", default=None, nullable="0+")' in text
    assert 'c: int = field("int32", "0+", default=2147483647)' in text
