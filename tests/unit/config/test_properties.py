"""``.properties`` files read as Java reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbroker.config.properties import PropertiesError, format_properties, load_properties, parse_properties

FILE = r"""# a comment
! another
a=1
 b : 2
c 3
d=one \
   two\
   three
e\=f\ g=h\tz
k\u00e9=\ud83d\ude00 v\:w
empty
empty2=
x = y = z
cont=a\\
cont2=a\\\
b
   # indented comment
z=1\
# not a comment
last=v\
"""


def test_javas_rules_hold() -> None:
    assert load_properties(FILE) == {
        "a": "1",
        "b": "2",
        "c": "3",
        "d": "one twothree",
        "e=f g": "h\tz",
        "ké": "\U0001f600 v:w",
        "empty": "",
        "empty2": "",
        "x": "y = z",
        "cont": "a\\",
        "cont2": "a\\b",
        "z": "1# not a comment",
        "last": "v",
    }


def test_an_entry_knows_the_line_on_which_it_begins() -> None:
    assert [(entry.key, entry.line) for entry in parse_properties("\n#\na=1\\\n2\nb=3\r\nc=4")] == [
        ("a", 3),
        ("b", 5),
        ("c", 6),
    ]


def test_the_last_of_a_repeated_key_wins() -> None:
    assert load_properties("a=1\na=2") == {"a": "2"}


def test_a_malformed_escape_is_refused_with_its_line() -> None:
    with pytest.raises(PropertiesError, match=r"line 2: malformed \\uXXXX: \\u12G4"):
        load_properties("a=1\nb=\\u12G4")


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"]))
    )
)
def test_what_is_written_reads_back(values: dict[str, str]) -> None:
    text = format_properties(values, comment="made by a test")
    assert load_properties(text) == values
    assert text.isascii()
