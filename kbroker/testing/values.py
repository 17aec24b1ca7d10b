"""What a test sees of a broker's state: plain values that outlive the broker and travel between processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it lies in a log.

    ``transaction`` is None outside transactions, else ``"open"``, ``"committed"`` or ``"aborted"``. ``producer_id`` is
    None for a producer without idempotence.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    producer_id: int | None = None
    producer_epoch: int | None = None
    sequence: int | None = None
    transaction: str | None = None

    @property
    def text(self) -> str | None:
        """The value as text."""
        return None if self.value is None else self.value.decode()

    def json(self) -> Any:
        """The value as JSON."""
        return None if self.value is None else json.loads(self.value)


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic and the configs that were set for it."""

    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Producer:
    """One producer as one partition's log knows it. ``transaction_start`` is None when it has none open there."""

    producer_id: int
    epoch: int
    last_sequence: int
    topic: str
    partition: int
    transaction_start: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a group and the partitions it has, by topic."""

    member_id: str
    client_id: str
    instance_id: str | None
    assignment: Mapping[str, tuple[int, ...]] | None


@dataclass(frozen=True, slots=True)
class Group:
    """One group. ``state`` is Kafka's: Empty, PreparingRebalance, Stable, ..."""

    group_id: str
    type: str
    state: str
    members: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id. ``state`` is Kafka's: Empty, Ongoing, CompleteCommit, ..."""

    transactional_id: str
    producer_id: int
    state: str
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the journal has it.

    ``fields`` is the decoded request, record bytes replaced by their size. ``errors`` are the names of the errors in
    the answer, ``faults`` what was done to it. ``duration_ms`` is None while it waits.
    """

    number: int
    at_ms: int
    api: str
    version: int
    client_id: str | None
    client: str
    fields: Mapping[str, Any]
    errors: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    duration_ms: float | None = None

    def __str__(self) -> str:
        waited = "waits" if self.duration_ms is None else f"{self.duration_ms:.1f} ms"
        said = "".join(f" {each}" for each in self.errors) + "".join(f" [{each}]" for each in self.faults)
        return f"{self.api} v{self.version} {waited}{said}"


class WaitTimeoutError(AssertionError):
    """What was waited for did not come in time; the message says what was there instead."""


class UnusedFaultError(AssertionError):
    """A fault was set up and never fired: the test did not test what it says."""
