"""What can be killed: everything that runs on the loop on behalf of one operating-system process.

A process is known by a context variable, which asyncio hands on to every task, callback and timer that comes of it.
Killing it means that nothing of it ever runs again: no ``finally``, no ``except CancelledError``, no timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any

PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)


class Killed(BaseException):
    """Unwinds the code of a process that was killed in the middle of it. Nothing that code does any more has effect."""


class Process:
    """One incarnation of a simulated process; a restart is a new one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.is_ending = False
        """Whether it ends itself."""
        self.context: Context = copy_context()
        self.context.run(PROCESS.set, self)
        self.tasks: list[asyncio.Task[Any]] = []
        self._on_kill: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<process {self.name}{'' if self.alive else ' (dead)'}>"

    def run(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        """Run a callback of this process, unless it is dead."""
        if self.alive:
            callback(*arguments)

    def start(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as this process."""
        return loop.create_task(work, context=self.context.copy())

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Hold a task: a killed task must not be collected, which would run its ``finally`` blocks."""
        self.tasks.append(task)
        if len(self.tasks) % 256 == 0:
            self.tasks = [task for task in self.tasks if not task.done()]

    def on_kill(self, callback: Callable[[], None]) -> None:
        """What the operating system does when this process ends: close sockets, let go of locks."""
        self._on_kill.append(callback)

    def kill(self) -> None:
        """``kill -9``. What was written to the disk stays written."""
        if not self.alive:
            return
        self.alive = False
        for callback in self._on_kill:
            callback()

    def bury(self) -> None:
        """Let go of the tasks of a dead process, after its loop was closed: their last gasps reach nothing."""
        tasks, self.tasks = self.tasks, []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for task in tasks:
                task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 # asyncio has no other way
                work = task.get_coro()
                if work is None or task.done():
                    continue
                with contextlib.suppress(Exception, asyncio.CancelledError):  # whatever a dead process says
                    work.close()
