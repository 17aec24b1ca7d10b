"""Kafka's APIs: keys, versions, header versions, and where their messages are declared.

``Api`` says what Apache Kafka serves and what is declared here; what this broker serves is the handlers' table. A
message module is imported when its API is first used.
"""

from __future__ import annotations

import importlib
from typing import Final, NamedTuple, cast

from kbroker.protocol.api_table import ROWS, ApiKey
from kbroker.protocol.declarations import Message

__all__ = ["API_BY_KEY", "Api", "ApiKey", "request_header_version", "response_header_version"]


class Api(NamedTuple):
    """Facts about one API. ``latest_stable`` is -1 where Kafka only remembers the key."""

    key: ApiKey
    name: str
    module: str
    oldest: int
    """The oldest version that Apache Kafka serves."""
    latest_stable: int
    """The latest version that Apache Kafka serves without being asked for unstable ones."""
    oldest_declared: int
    """The oldest version that can be read here: what Kafka 3.9 served, and from 4.0 on no longer does."""
    first_flexible: int | None
    """The first version in the flexible encoding (KIP-482), if there is one."""
    listeners: tuple[str, ...]
    """Where Kafka serves it: ``broker``, ``controller``."""

    def request_class(self) -> type[Message]:
        return self._class("Request")

    def response_class(self) -> type[Message]:
        return self._class("Response")

    def is_flexible(self, version: int) -> bool:
        return self.first_flexible is not None and version >= self.first_flexible

    def _class(self, suffix: str) -> type[Message]:
        module = importlib.import_module(f"kbroker.protocol.messages.{self.module}")
        return cast("type[Message]", getattr(module, self.name + suffix))


API_BY_KEY: Final[dict[int, Api]] = {row[0]: Api(*row) for row in ROWS}


def request_header_version(key: int, version: int) -> int:
    """The version of the header before a request: 0 has no client id, 2 has tagged fields. Raises ``KeyError``."""
    if key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if API_BY_KEY[key].is_flexible(version) else 1


def response_header_version(key: int, version: int) -> int:
    """The version of the header before an answer: 1 has tagged fields. Raises ``KeyError``.

    ApiVersions always answers with version 0: its client does not know yet what the broker speaks (KIP-511).
    """
    if key == ApiKey.API_VERSIONS:
        return 0
    return 1 if API_BY_KEY[key].is_flexible(version) else 0
