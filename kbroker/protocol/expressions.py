"""Regular expressions that come in requests: RE2's, as in Apache Kafka, whose matching takes time linear in the text.

Python's own would let a hostile pattern hold the loop for ever. The library is imported with the first pattern.
"""

from __future__ import annotations

from kbroker.protocol.errors import ApiError, ErrorCode

MEMORY_MAX = 1 << 20
"""Bytes that an expression may take; one that needs more is refused."""


class Expression:
    """One pattern, ready to match. Raises ``ApiError`` (INVALID_REGULAR_EXPRESSION)."""

    def __init__(self, pattern: str) -> None:
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = MEMORY_MAX
        options.never_capture = True
        try:
            self._matches = re2.compile(pattern, options).fullmatch
        except re2.error as error:
            reason = error.args[0].decode(errors="replace") if error.args else ""
            raise ApiError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"The pattern {pattern!r} is no regular expression of RE2's: {reason}.",
            ) from error
        finally:
            re2.purge()  # it would keep the latest 128

    def matches(self, text: str) -> bool:
        """Whether the pattern covers the whole text."""
        return self._matches(text) is not None
