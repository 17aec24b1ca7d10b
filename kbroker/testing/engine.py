"""The broker under test and its whole life, on the event loop it runs on: in a thread, or in a process of its own.

    start -> running -> stop
             running -> reset, restore: the core goes, another starts behind the same sockets -> running
             running -> kill -> dead -> restart on the same port and data -> running

The *core* is a production broker with its own disk and workers. It is never cleaned: a test that wants a clean broker
gets a new core in a new folder. The clock, the faults and the journal outlive cores.

What is done to the engine comes in as functions of it (``kbroker.testing.channel``), each on the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, TypeVar

from kbroker.broker import Broker as Core
from kbroker.config import BrokerConfig
from kbroker.config.checks import check_start
from kbroker.config.dev import preset_values
from kbroker.config.registry import BROKER_KEYS
from kbroker.config.values import ConfigError
from kbroker.handlers.context import ConnectionMustCloseError, Node
from kbroker.host import Host
from kbroker.host.real import RealWorkers
from kbroker.server.connection import Answered, Connection, Waiting
from kbroker.server.listeners import Server
from kbroker.testing.clock import MovableClock
from kbroker.testing.disk import FaultyDisk
from kbroker.testing.fault_rules import FaultBook
from kbroker.testing.folders import Folder
from kbroker.testing.journal import Journal
from kbroker.testing.meddling import MeddlingDispatcher
from kbroker.testing.options import Options

logger = logging.getLogger(__name__)

T = TypeVar("T")

DESCRIPTORS_MAX = 64
"""A hundred brokers in one process share its descriptors."""
CURRENT = "current"
"""In the caller's folder: a link to the data of the moment."""
NOT_COPIED = shutil.ignore_patterns(".lock", "*-delete", "*.tmp")
STARTING_ANEW = "the broker starts anew"


class CountingWorkers(RealWorkers):
    """Workers that know whether anything is under way, so that a clock's advance can wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.running: set[asyncio.Future[Any]] = set()

    def run(self, work: Callable[[], T]) -> Awaitable[T]:
        future = asyncio.ensure_future(super().run(work))
        self.running.add(future)
        future.add_done_callback(self.running.discard)
        return future


class Engine:
    """Owner: the channel. Every method runs on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, options: Options, folder: str | None = None) -> None:
        self.loop = loop
        self.options = options
        self._first_options = options
        self.clock = MovableClock(loop)
        self.faults = FaultBook(loop)
        self.journal = Journal()
        self.own_tasks: set[asyncio.Task[Any]] = set()
        """Tasks of whoever talks to the engine: they survive the core."""
        self.failure: BaseException | None = None
        self._core: Core | None = None
        self._disk: FaultyDisk | None = None
        self._workers: CountingWorkers | None = None
        self._folder: Folder | None = None
        self._folder_path = folder
        """A folder that belongs to the caller; without one the engine makes its own when it needs one."""
        self._port = options.port
        self._cluster_id: str | None = None
        self._data_dir = ""
        self._listeners: list[Callable[[], None]] = []
        self._cleaning: set[asyncio.Future[Any]] = set()

    # --- what there is

    @property
    def core(self) -> Core:
        """Raises ``RuntimeError`` while it is dead."""
        if self._core is None:
            raise RuntimeError("the broker was killed: call restart() first")
        return self._core

    @property
    def is_alive(self) -> bool:
        return self._core is not None

    @property
    def node(self) -> Node:
        return self.core.node

    @property
    def server(self) -> Server:
        return self.core.server

    @property
    def data_dir(self) -> str:
        return self._data_dir

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call back when a core has started and when its metadata change."""
        self._listeners.append(callback)

    def off_change(self, callback: Callable[[], None]) -> None:
        if callback in self._listeners:
            self._listeners.remove(callback)

    def _tell(self) -> None:
        for callback in list(self._listeners):
            callback()

    # --- life

    async def start(self) -> str:
        """The address. Raises what went wrong; ``stop`` cleans up."""
        check(BrokerConfig(self._values("/nowhere")))
        self._data_dir = self.options.data_dir or self._last_folder() or self._fresh_folder()
        await self._start_core(None, self._config(self._data_dir))
        return self.core.bootstrap_servers

    async def stop(self) -> None:
        """Stop cleanly and remove what is temporary. Harmless when dead or stopped."""
        self.faults.release_all()
        self.faults.disk_rules.clear()  # the test is over: what it did to the disk is not done to its end
        self.clock.resume()  # a stop gives clients some time, which must pass
        core, self._core = self._core, None
        try:
            if core is not None:
                await core.stop()
        finally:
            if self._workers is not None:
                self._workers.close()
            if self._disk is not None:
                self._disk.die()
            self.clock.drop_timers()
            if self._cleaning:
                await asyncio.wait(self._cleaning)
            if self._folder is not None:
                self._folder.remove()
                self._folder = self._folder_path = None

    async def kill(self, *, lose_unsynced: bool = False) -> None:
        """``kill -9``: connections break, ports close, nothing is flushed; with ``lose_unsynced`` the power fails."""
        await self.core.server.refuse_new()
        await self._drop_core(lose_unsynced=lose_unsynced)

    async def restart(self) -> str:
        """Start on the same port and data: after ``kill``, or after a clean stop of what runs."""
        if self._core is not None:
            core, self._core = self._core, None
            self.faults.release_all()
            was_frozen = self.clock.is_frozen
            self.clock.resume()
            try:
                await core.stop()
            finally:
                self._bury()
                if was_frozen:
                    self.clock.freeze()
        await self._start_core(None, self._config(self._data_dir))
        return self.core.bootstrap_servers

    def change(self, topics: Mapping[str, int], configs: Mapping[str, str]) -> None:
        """What the next core has beside the options of the start. Raises ``ConfigError``."""
        first = self._first_options
        changed = first._replace(topics={**first.topics, **topics}, configs={**first.configs, **configs})
        if changed.configs != self.options.configs:
            check(BrokerConfig({**preset_values(), **changed.configs}))
        self.options = changed

    async def reset(self) -> None:
        """A new core in a new folder behind the same sockets; every connection is closed."""
        await self._replace_core(self._fresh_folder())

    async def restore(self, copy: str) -> None:
        """A new core that finds the data of ``copy``. Raises what is wrong with them, the data of before in place."""
        identity = _identity(copy, self.options.log_dirs(copy))
        before, fresh = self._data_dir, self._fresh_folder()
        shutil.copytree(copy, fresh, dirs_exist_ok=True, ignore=NOT_COPIED)
        try:
            await self._replace_core(fresh, identity)
        except Exception:
            if self._core is None:
                self._data_dir = before
                await self._start_core(None, self._config(before, _identity(before, self.options.log_dirs(before))))
            self._remove(fresh)
            raise

    def snapshot(self) -> str:
        """Copy the data as a crash of this moment would leave it; the path of the copy."""
        if self.options.chosen_place == "log.dirs":
            raise ValueError("snapshot() copies what lies in the broker's own folder: give log.dirs relative paths")
        copy = self._fresh_folder()
        shutil.copytree(self._data_dir, copy, dirs_exist_ok=True, ignore=NOT_COPIED)
        return copy

    async def _replace_core(self, data_dir: str, identity: Mapping[str, str] | None = None) -> None:
        place = self.options.chosen_place
        if place is not None:
            raise ValueError(
                f"reset() and restore() would leave {place} behind: choose no place, or use reset(topics=...)"
            )
        config = self._config(data_dir, identity)
        core = self._core
        server = None
        if core is not None:
            server = core.server
            server.dispatch = _nobody
            await server.disconnect()
            await self._drop_core(lose_unsynced=False)
        old, self._data_dir = self._data_dir, data_dir
        await self._start_core(server, config)
        self._remove(old)

    def _config(self, data_dir: str, identity: Mapping[str, str] | None = None) -> BrokerConfig:
        """Raises ``ConfigError``."""
        return BrokerConfig({**self._values(data_dir), **(identity or {})})

    async def _start_core(self, server: Server | None, config: BrokerConfig) -> None:
        loop = self.loop
        disk = self._disk = FaultyDisk(DESCRIPTORS_MAX, self.faults.disk_rules)
        workers = self._workers = CountingWorkers(loop)
        host = Host(clock=self.clock, disk=disk, random=Random(), workers=workers)
        core = Core(config, host, loop, self._on_failure, server)
        try:
            await core.start()
        except BaseException:
            try:
                await core.stop()
            finally:
                self._bury()
            raise
        self._core = core
        self._note_folder()
        self._cluster_id = self._cluster_id or core.cluster_id
        self._port = int(core.bootstrap_servers.rpartition(":")[2])
        self.meddle()
        core.node.quorum.subscribe(lambda _delta, _image: self._tell())
        self._tell()

    async def _drop_core(self, *, lose_unsynced: bool) -> None:
        """End the core as a kill ends a process: no code of its own runs in the end."""
        self.faults.release_all()
        core = self.core
        await core.server.disconnect()
        for _ in range(3):  # the transports tell their connections, those give up what waits
            await asyncio.sleep(0)
        self._core = None
        self.clock.drop_timers()
        mine = {asyncio.current_task(), *self.own_tasks}
        rest = [task for task in asyncio.all_tasks() if task not in mine]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=5)
        self._bury(lose_unsynced=lose_unsynced)

    def _bury(self, *, lose_unsynced: bool = False) -> None:
        if self._workers is not None:
            self._workers.close()
        if self._disk is not None:
            self._disk.die(lose_unsynced=lose_unsynced)
        self.clock.drop_timers()

    def _on_failure(self, error: BaseException) -> None:
        self.failure = error

    # --- settling

    async def settle(self) -> None:
        """Return when what was set off just now is done: the loop's turns and the workers' jobs."""
        for _ in range(5):
            await asyncio.sleep(0)
            running = set() if self._workers is None else set(self._workers.running)
            if running:
                await asyncio.wait(running, timeout=10)

    # --- meddling

    def meddle(self) -> None:
        """Put faults and journal between sockets and handlers, or take them away when nobody needs them."""
        if self._core is None:
            return
        server = self._core.server
        server.refusal = self.faults.refusal
        needed = self.faults.is_needed or self.journal.is_on
        if needed and not isinstance(server.dispatch, MeddlingDispatcher):
            server.dispatch = MeddlingDispatcher(
                self.node, self.loop, self.clock, self.faults, self.journal, server.dispatch
            )
        elif not needed and isinstance(server.dispatch, MeddlingDispatcher):
            server.dispatch = server.dispatch.plain

    # --- folders and descriptors

    def close_descriptors(self) -> None:
        """In a forked child, where nothing of the engine runs: give back its sockets, files and locks."""
        found = [] if self._disk is None else list(self._disk.descriptors())
        if self._core is not None:
            found += self._core.server.descriptors()
        if self._folder is not None:
            found.append(self._folder.descriptor)
        for descriptor in found:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def _values(self, data_dir: str) -> dict[str, str]:
        options = self.options
        values = preset_values()
        values["listeners"] = f"PLAINTEXT://localhost:{self._port}"
        if options.topics:
            values["kbroker.topics"] = ",".join(f"{name}:{partitions}" for name, partitions in options.topics.items())
        if self._cluster_id is not None:
            values["kbroker.cluster.id"] = self._cluster_id
        values.update(options.configs)
        values["log.dirs"] = ",".join(options.log_dirs(data_dir))
        return values

    def _fresh_folder(self) -> str:
        if self._folder_path is None:
            self._folder = Folder()
            self._folder_path = self._folder.path
        return tempfile.mkdtemp(prefix="data-", dir=self._folder_path)

    def _last_folder(self) -> str | None:
        """Where a process that was killed had its data."""
        try:
            return os.readlink(f"{self._folder_path}/{CURRENT}")
        except OSError:
            return None

    def _note_folder(self) -> None:
        """For the process that comes after a kill."""
        if self._folder_path is not None and self._folder is None:
            link = f"{self._folder_path}/{CURRENT}"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(link)
            os.symlink(self._data_dir, link)

    def _remove(self, path: str) -> None:
        """In a thread: a test need not wait for it."""
        work = self.loop.run_in_executor(None, shutil.rmtree, path, True)
        self._cleaning.add(work)
        work.add_done_callback(self._cleaning.discard)


def check(config: BrokerConfig) -> None:
    """Raises ``ConfigError`` for what cannot be, and for an unknown key that looks like a slip."""
    check_start(config)
    for name in config.unknown_names():
        nearest = BROKER_KEYS.nearest(name)
        if nearest is not None:
            raise ConfigError(name, None, "unknown", message=f"there is no key {name!r}: did you mean {nearest!r}?")


def _identity(data_dir: str, log_dirs: list[str]) -> dict[str, str]:
    """Whose a data directory is: the configs that a broker must have to take it up. Raises ``ValueError``."""
    from kbroker.host.disk import RealDisk
    from kbroker.log import meta_properties

    if not os.path.isdir(data_dir):
        raise ValueError(f"there is no {data_dir}: a snapshot lives as long as its broker runs")
    owner = meta_properties.read(RealDisk(), log_dirs[0])
    if owner is None:
        raise ValueError(f"{data_dir} is no Kafka data directory: there is no {log_dirs[0]}/meta.properties")
    return {"kbroker.cluster.id": owner.cluster_id, "node.id": str(owner.node_id)}


def _nobody(_connection: Connection, _frame: memoryview) -> Answered | Waiting:
    raise ConnectionMustCloseError(STARTING_ANEW)
