"""What the caller's side asks of the engine: functions by name, imported where they run.

With the broker in a process of its own, the process of the test imports nothing of it. Type checkers see the modules
themselves::

    if TYPE_CHECKING:
        from kbroker.testing import state
    else:
        state = Operations("state")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, NamedTuple


class Operation(NamedTuple):
    """A function of a module of this package whose first argument is the engine. Travels between processes."""

    module: str
    name: str

    def __call__(self, engine: object, *arguments: Any, **named: Any) -> Any:
        return getattr(import_module(f"kbroker.testing.{self.module}"), self.name)(engine, *arguments, **named)


class Operations:
    """The functions of a module of this package, without importing it."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Operation:
        return Operation(self._module, name)
