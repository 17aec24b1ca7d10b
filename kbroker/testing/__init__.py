"""What users' tests import: ``Broker``, a broker of their own, and what it shows of itself.

Nothing of the host process is touched: no signal, no logging handler, no environment variable, no event loop policy.
Importing this package imports nothing else: the pytest plugin lies in it and is loaded by every run of pytest.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kbroker.testing.aio import AsyncBroker as AsyncBroker
    from kbroker.testing.broker import Broker as Broker
    from kbroker.testing.values import Group as Group
    from kbroker.testing.values import Member as Member
    from kbroker.testing.values import Producer as Producer
    from kbroker.testing.values import Record as Record
    from kbroker.testing.values import Request as Request
    from kbroker.testing.values import Topic as Topic
    from kbroker.testing.values import Transaction as Transaction
    from kbroker.testing.values import UnusedFaultError as UnusedFaultError
    from kbroker.testing.values import WaitTimeoutError as WaitTimeoutError

_HOMES = {"Broker": "broker", "AsyncBroker": "aio"}
_VALUES = ("Group", "Member", "Producer", "Record", "Request", "Topic", "Transaction")
_ERRORS = ("UnusedFaultError", "WaitTimeoutError")
_HOMES.update(dict.fromkeys((*_VALUES, *_ERRORS), "values"))

__all__ = [
    "AsyncBroker",
    "Broker",
    "Group",
    "Member",
    "Producer",
    "Record",
    "Request",
    "Topic",
    "Transaction",
    "UnusedFaultError",
    "WaitTimeoutError",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
