"""Patterns of requests are RE2's, and matching them takes time in proportion to the text."""

from __future__ import annotations

import pytest

from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.expressions import Expression


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("orders-.*", "orders-1", True),
        ("orders", "orders-1", False),
        ("(?i)ORDERS", "orders", True),
        (r"\pL+-\d", "ördérs-1", True),
        (r"[[:alpha:]]+\z", "orders", True),
        ("a|ab", "ab", True),
        (".", "\n", False),
    ],
)
def test_a_pattern_must_cover_the_whole_text(pattern: str, text: str, matches: bool) -> None:
    assert Expression(pattern).matches(text) is matches


@pytest.mark.parametrize(
    "pattern", ["(", "(?=a)", r"(a)\1", "a{5000}", "((a{100}){100}){100}", "[b-a]", "*", "(" * 5000]
)
def test_what_re2_does_not_know_or_could_not_hold_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError) as raised:
        Expression(pattern)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.timeout(120)
@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*", "(a*)*b", "(.*)(.*)(.*)(.*)(.*)x"])
def test_no_pattern_takes_long_on_any_text(pattern: str) -> None:
    assert not Expression(pattern).matches("a" * 30_000 + "!")
