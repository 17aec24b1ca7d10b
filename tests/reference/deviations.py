"""The differences from Apache Kafka that are meant. An entry that no longer differs fails the comparison."""

from __future__ import annotations

from tests.reference.comparison import Deviation

DEVIATIONS: tuple[Deviation, ...] = ()
