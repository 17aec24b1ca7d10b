"""Texts to records and back."""

from __future__ import annotations

import json
import re

import pytest

from kbroker.cli.records import FormatError, Given, Shown, printer, reader
from kbroker.protocol.partitioner import murmur2, partition_of

RECORD = Shown("t", 3, 7, 1000, b"k", b"v", [("h", b"1"), ("i", None)])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_keys_are_hashed_as_java_does(text: str, value: int) -> None:
    assert murmur2(text.encode()) == value & 0xFFFFFFFF
    assert partition_of(text.encode(), 7) == (value & 0x7FFFFFFF) % 7


def test_a_format_is_letters_escapes_and_text() -> None:
    assert printer(r"%t-%p@%o %T %k=%v [%h] 100%%\n")(RECORD) == b"t-3@7 1000 k=v [h=1,i=] 100%\n"
    assert printer("%k:%v")(RECORD._replace(key=None, value=None)) == b":"


@pytest.mark.parametrize("text", ["%x", r"\q"])
def test_what_stands_for_nothing_is_an_error(text: str) -> None:
    with pytest.raises(FormatError, match="stands for nothing"):
        printer(text)


def test_json_goes_out_and_comes_in_again_bytes_that_are_no_text_too() -> None:
    for record in (RECORD, RECORD._replace(key=None, value=b"\xff\x00", headers=[("h", b"\xff")])):
        line = printer("json")(record)
        given = reader("json")(line)
        assert given == Given(record.key, record.value, list(record.headers), 3, 1000)


def test_meta_only_shows_sizes() -> None:
    shown = json.loads(printer("json", meta_only=True)(RECORD))
    assert (shown["key_size"], shown["value_size"]) == (1, 1)
    assert "key" not in shown


def test_a_json_value_that_is_no_text_is_written_as_json() -> None:
    assert reader("json")(b'{"value": {"a": 1}}').value == b'{"a": 1}'


def test_key_and_value_are_parted_by_what_stands_between_them() -> None:
    assert reader("%v")(b"a:b") == Given(None, b"a:b", [])
    assert reader("%k:%v")(b"a:b:c") == Given(b"a", b"b:c", [])
    assert reader(r"%k\t%v\n")(b"a\tb") == Given(b"a", b"b", [])
    with pytest.raises(FormatError, match="no ':'"):
        reader("%k:%v")(b"nothing")


@pytest.mark.parametrize("text", ["%v%k", "%k%v", "text", ""])
def test_other_input_formats_are_refused(text: str) -> None:
    with pytest.raises(FormatError):
        reader(text)


@pytest.mark.parametrize("line", [b"{", b"[1]", b"\xff"])
def test_a_line_that_is_no_json_object_is_an_error_that_shows_it(line: bytes) -> None:
    with pytest.raises(FormatError, match="no JSON"):
        reader("json")(line)


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ('{"kee": "a", "value": "b"}', "no field 'kee'; there are key, "),
        ('{"key_size": 1, "value_size": 1}', "no field 'key_size'"),
        ('{"partition": "1"}', "partition '1' is no number"),
        ('{"partition": true}', "partition True is no number"),
        ('{"timestamp": -1}', "timestamp -1 is no number"),
        ('{"timestamp": 9223372036854775808}', "timestamp 9223372036854775808 is no number"),
        ('{"headers": ["ab", "abc"]}', "headers are"),
        ('{"headers": 7}', "headers are"),
        ('{"value_base64": "a"}', "no base64: 'a'"),
        ('{"value_base64": 7}', "no base64: '7'"),
        ('{"headers": [["h", {"base64": "?"}]]}', "no base64"),
    ],
)
def test_a_json_document_that_is_no_record_is_an_error_that_says_why(line: str, wrong: str) -> None:
    with pytest.raises(FormatError, match=re.escape(wrong)):
        reader("json")(line.encode())


def test_headers_may_be_an_object_or_hold_json() -> None:
    assert reader("json")(b'{"headers": {"a": "1"}}').headers == [("a", b"1")]
    assert reader("json")(b'{"headers": [["a", 1], ["b", {"c": 2}], ["d", null]]}').headers == [
        ("a", b"1"),
        ("b", b'{"c": 2}'),
        ("d", None),
    ]
