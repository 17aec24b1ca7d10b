"""What a broker of its own process remembers of the test when that process is killed: handed to the next one.

In a thread the engine itself outlives its core, and remembers.
"""

from __future__ import annotations

from typing import NamedTuple

from kbroker.testing.clock import ClockState
from kbroker.testing.engine import Engine
from kbroker.testing.fault_rules import FaultBookState
from kbroker.testing.journal import Journal
from kbroker.testing.options import Options


class Memory(NamedTuple):
    options: Options
    clock: ClockState
    faults: FaultBookState
    journal: Journal


def take(engine: Engine) -> Memory:
    return Memory(engine.options, engine.clock.state(), engine.faults.state(), engine.journal)


def give(engine: Engine, memory: Memory) -> None:
    """To an engine that has not started."""
    engine.options = memory.options
    engine.clock.take_up(memory.clock)
    engine.faults.take_up(memory.faults)
    engine.journal = memory.journal
