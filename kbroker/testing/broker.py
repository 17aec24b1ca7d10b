"""A broker for tests: started in milliseconds, its state, faults and time in the test's hands, gone without a trace.

``Broker`` is the sync face, ``AsyncBroker`` (``kbroker.testing.aio``) the same for coroutines. Both only pass on: what
is done is done by the engine, through a channel, in a thread of this process or in a process of its own.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from kbroker.testing import seeds
from kbroker.testing.channel import FORKED, KILLED, NOT_RUNNING, Channel, ThreadChannel
from kbroker.testing.clients import Clients
from kbroker.testing.faults import Faults
from kbroker.testing.names import Topics, new_topics, several
from kbroker.testing.operations import Operations
from kbroker.testing.options import Options
from kbroker.testing.time_travel import Clock
from kbroker.testing.values import (
    Group,
    Producer,
    Record,
    Request,
    Topic,
    Transaction,
    UnusedFaultError,
)

if TYPE_CHECKING:
    from kbroker.testing import seeding, spying, starting_over, state, waiting
    from kbroker.testing import story as stories
    from kbroker.testing.aio import AsyncBroker
    from kbroker.testing.engine import Engine
else:
    seeding, spying, starting_over, state, stories, waiting = map(
        Operations, ("seeding", "spying", "starting_over", "state", "story", "waiting")
    )

P = ParamSpec("P")
T = TypeVar("T")

TIMEOUT_S = 10.0
_running: weakref.WeakSet[Broker] = weakref.WeakSet()
_fork_watched: list[bool] = []


class Broker(Clients):
    """One broker, as a context manager or with ``start`` and ``stop``::

        with Broker(topics={"orders": 3}) as broker:
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
            ...
            broker.wait_for_records("orders", 5)

    ``topics`` are made before ``start`` returns: name to number of partitions, or a list of ``"name:partitions"``.
    ``configs`` are broker configs as in ``server.properties``; they win over the presets of ``kbroker dev``.
    ``data_dir`` keeps the data there; without it the data lies in a temporary folder that goes with the broker;
    relative paths in ``log.dirs`` lie in either. ``port`` 0 takes a free one. ``mode`` is ``"thread"`` (a thread of
    this process) or ``"process"``. ``load`` is what ``load()`` takes, several of it. ``unused_faults`` is ``"error"``
    or ``"ignore"``.
    """

    def __init__(
        self,
        *,
        topics: Topics | None = None,
        configs: Mapping[str, object] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        port: int = 0,
        mode: Literal["thread", "process"] = "thread",
        load: Iterable[Any] = (),
        unused_faults: Literal["error", "ignore"] = "error",
    ) -> None:
        if mode not in ("thread", "process"):
            raise ValueError(f"mode is 'thread' or 'process', not {mode!r}")
        if unused_faults not in ("error", "ignore"):
            raise ValueError(f"unused_faults is 'error' or 'ignore', not {unused_faults!r}")
        self._options = Options(
            topics=new_topics(topics),
            configs={name: text(value) for name, value in (configs or {}).items()},
            data_dir=None if data_dir is None else os.fspath(data_dir),
            port=port,
        )
        self.mode = mode
        self._load = several("load", load)
        self._seeded: str | None = None
        self._unused_faults = unused_faults
        self._channel: Channel | None = None
        self._why_not = NOT_RUNNING
        """Without a channel: what whoever asks is told."""
        self._unused: list[str] = []
        """Without a channel: the faults that had not happened when it went."""
        self.faults = Faults(self._call, self._wait)
        self.clock = Clock(self._call)

    # --- life

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: ``localhost:<port>``. Raises ``RuntimeError`` when the broker does not run."""
        return self._open_channel().address

    @property
    def is_running(self) -> bool:
        """Whether it was started, and not stopped since. A killed one is: it can be restarted."""
        return self._channel is not None

    @property
    def pid(self) -> int:
        """The process that the broker runs in: this one, or its own."""
        return self._call(spying.process_id)

    def start(self) -> Self:
        """Start; return when clients can connect, topics and loads are there. Raises what went wrong, cleaned up."""
        if self._channel is not None:
            raise RuntimeError("the broker runs already")
        channel = self._new_channel()
        channel.open()
        self._channel = channel
        self._why_not, self._unused = NOT_RUNNING, []
        _watch_forks()
        _running.add(self)
        try:
            for source in self._load:
                self.load(source)
            if self._load and self._options.chosen_place is None:
                self._seeded = self.snapshot().path
        except BaseException:
            self.stop()
            raise
        return self

    def _new_channel(self) -> Channel:
        if self.mode == "process":
            from kbroker.testing.process import ProcessChannel

            return ProcessChannel(self._options)
        return ThreadChannel(self._options)

    def stop(self) -> None:
        """Stop and clean up; harmless when the broker does not run. Raises what the broker's own stop raises."""
        channel = self._channel
        if channel is None:
            return
        channel.check_caller()
        with contextlib.suppress(RuntimeError):  # its process ended by itself
            self._unused = self._unused_faults_of(channel)
        self._channel = None
        _running.discard(self)
        channel.close()

    def kill(self, *, lose_unsynced: bool = False) -> None:
        """``kill -9``. With ``lose_unsynced`` the power fails, too: what was not synced to the disk is gone.

        The presets sync nothing (``kbroker.fsync=false``): for a power failure that keeps topics, set it to true.
        """
        self._open_channel().kill(lose_unsynced=lose_unsynced)

    def restart(self) -> None:
        """Start again on the same port and data: after ``kill``, or after a clean stop."""
        self._open_channel().restart()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._unused_faults == "error":
                self.verify_faults()
        finally:
            self.stop()

    async def __aenter__(self) -> AsyncBroker:
        import asyncio

        await asyncio.to_thread(self.start)
        return self.aio

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        await asyncio.to_thread(self.__exit__, kind, error, traceback)

    @property
    def aio(self) -> AsyncBroker:
        """The same broker for coroutines: every method is awaited."""
        from kbroker.testing.aio import AsyncBroker

        return AsyncBroker(self)

    def verify_faults(self) -> None:
        """Raises ``UnusedFaultError`` when a fault never fired, unless it is optional."""
        channel = self._channel
        unused = self._unused if channel is None else self._unused_faults_of(channel)
        if unused:
            raise UnusedFaultError(f"never happened: {'; '.join(unused)}")

    def _unused_faults_of(self, channel: Channel) -> list[str]:
        return self.faults.unused() if channel.is_reachable else channel.unused_when_killed

    # --- state

    def topics(self, *, internal: bool = False) -> dict[str, Topic]:
        """The topics by name."""
        return self._call(state.topics, internal=internal)

    def records(self, topic: str, partition: int | None = None, start: int = 0) -> list[Record]:
        """The records of a topic, decoded, partition by partition. Raises ``ValueError`` for an unknown topic."""
        return self._call(state.records, topic, partition, start)

    def next_offset(self, topic: str, partition: int = 0) -> int:
        """The offset that the next record gets."""
        return self._call(state.next_offset, topic, partition)

    def producers(self, topic: str | None = None) -> list[Producer]:
        """The idempotent and transactional producers that the logs remember."""
        return self._call(state.producers, topic)

    def groups(self) -> dict[str, Group]:
        """The groups by id, with members and assignments."""
        return self._run(state.groups)

    def committed(self, group: str, topic: str, partition: int = 0) -> int | None:
        """The offset that a group has committed, None when it has not."""
        return self._run(state.committed, group, topic, partition)

    def lag(self, group: str, topic: str | None = None) -> int:
        """How many records a group has still before it."""
        return self._run(state.lag, group, topic)

    def transactions(self) -> dict[str, Transaction]:
        """The transactional ids that the coordinator knows."""
        return self._run(state.transactions)

    def record_requests(self, *, size_max: int = 4 * 1024 * 1024) -> None:
        """Begin to write the journal that ``requests`` reads: at most so many bytes of it, the oldest go first."""
        self._call(spying.record, "full", size_max)

    def requests(self, api: str | None = None, client_id: str | None = None) -> list[Request]:
        """The requests in the journal, oldest first. Raises ``RuntimeError`` unless ``record_requests`` was called."""
        return self._call(spying.requests, api, client_id)

    def note_requests(self, *, size_max: int = 512 * 1024) -> None:
        """Begin to write, in short, what ``story`` tells."""
        self._call(spying.record, "short", size_max)

    def story(self) -> str:
        """What happened, for people: requests by client, their errors, rebalances and why, faults that fired."""
        if self._channel is None:
            return ""
        return self._run(stories.story) if self._channel.is_reachable else KILLED

    # --- waiting

    def wait_for_records(
        self,
        topic: str,
        count: int = 1,
        *,
        partition: int | None = None,
        committed_only: bool = False,
        timeout: float = TIMEOUT_S,
    ) -> list[Record]:
        """The topic's records, once there are ``count``. Raises ``WaitTimeoutError`` that says what there was."""
        __tracebackhide__ = True
        return self._wait(waiting.for_records, topic, count, timeout, partition, committed_only)

    def wait_for_assignment(
        self, group: str, *, members: int = 1, topic: str | None = None, timeout: float = TIMEOUT_S
    ) -> Group:
        """The group, once it is stable and ``members`` of it have their partitions."""
        __tracebackhide__ = True
        return self._wait(waiting.for_assignment, group, members, topic, timeout)

    def wait_for_commit(
        self, group: str, topic: str, offset: int, *, partition: int = 0, timeout: float = TIMEOUT_S
    ) -> int:
        """The committed offset, once it is ``offset`` or later."""
        __tracebackhide__ = True
        return self._wait(waiting.for_commit, group, topic, offset, partition, timeout)

    def wait_for_lag(self, group: str, lag: int = 0, *, topic: str | None = None, timeout: float = TIMEOUT_S) -> int:
        """The group's lag, once it has committed and the lag is at most ``lag``."""
        __tracebackhide__ = True
        return self._wait(waiting.for_lag, group, lag, topic, timeout)

    def assert_no_records(self, topic: str, *, within: float = 0.2, beyond: int = 0) -> None:
        """The topic has no record, or no more than ``beyond``, and none comes ``within`` so many seconds."""
        __tracebackhide__ = True
        self._wait(waiting.for_no_records, topic, within, beyond)

    def assert_exactly_once(self, topic: str, values: Iterable[Any], *, partition: int | None = None) -> None:
        """What read_committed sees of the topic is each of ``values`` once and nothing else, in any order."""
        __tracebackhide__ = True
        wanted = [seeds.as_bytes(value) for value in several("assert_exactly_once()", values)]
        self._call(waiting.exactly_once, topic, wanted, partition)

    # --- seeding

    def create_topics(self, topics: Topics, configs: Mapping[str, object] | None = None) -> None:
        """Make topics, each with these topic configs; one that is there with as many partitions is left alone."""
        named = {name: text(value) for name, value in (configs or {}).items()}
        self._run(seeding.create_topics, new_topics(topics), named)

    def produce(self, topic: str, records: Iterable[Any]) -> list[int]:
        """Write values, or mappings with value, key, headers, timestamp_ms, partition; their offsets.

        Straight through the log. Text is written as UTF-8, what is neither text nor bytes as JSON.
        """
        return self._run(seeding.produce, topic, [seeds.as_record(each) for each in several("produce()", records)])

    def load(self, source: Any) -> None:
        """A file of JSON lines, a Kafka data directory, or a function that is called with this broker."""
        if callable(source):
            _check_plain(source)
            source(self)
            return
        if not isinstance(source, (str, os.PathLike)):
            raise ValueError(f"load() takes a file, a data directory or a function, not {source!r}")
        path = os.fspath(source)
        if os.path.isdir(path):
            self._run(starting_over.restore, path)
            return
        for topic, records in seeds.read_lines(path).items():
            self._run(seeding.produce, topic, records)

    # --- starting over

    def reset(self, *, topics: Iterable[str] = (), groups: Iterable[str] = ()) -> None:
        """Everything as after ``start``, loads included: a new core behind the same address and cluster id.

        Connections are closed.
        With ``topics`` or ``groups`` only those are emptied and forgotten, by the ordinary APIs.
        """
        names, ids = several("reset(topics=)", topics), several("reset(groups=)", groups)
        if names or ids:
            self._run(seeding.reset_some, names, ids)
            return
        self.start_over()

    def start_over(self, *, topics: Topics | None = None, configs: Mapping[str, object] | None = None) -> None:
        """Reset, and until the next reset run with these topics and broker configs beside those of the start."""
        changed = {name: text(value) for name, value in (configs or {}).items()}
        self._revive()
        self._run(starting_over.start_over, self._seeded, new_topics(topics), changed)

    def snapshot(self) -> Snapshot:
        """The data of this moment, to go back to. It lives as long as the broker."""
        return Snapshot(self._call(starting_over.snapshot))

    def restore(self, snapshot: Snapshot) -> None:
        """Go back: a new core with the data of then; connections are closed."""
        if not isinstance(snapshot, Snapshot):
            raise ValueError(f"restore() takes what snapshot() gave, not {snapshot!r}")
        self._revive()
        self._run(starting_over.restore, snapshot.path)

    def _revive(self) -> None:
        """What starts over may have been killed, or ended by itself."""
        channel = self._open_channel()
        if not channel.is_reachable:
            channel.restart()

    # --- the channel

    def _open_channel(self) -> Channel:
        if self._channel is None:
            raise RuntimeError(self._why_not)
        return self._channel

    def submit(self, operation: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        """Have an operation of the engine run; for ``AsyncBroker``."""
        return self._open_channel().submit(operation, *arguments, **named)

    def _call(self, operation: Callable[Concatenate[Engine, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        __tracebackhide__ = True
        result: T = outcome(self.submit(operation, *args, **kwargs))
        return result

    def _run(
        self, operation: Callable[Concatenate[Engine, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        __tracebackhide__ = True
        result: T = outcome(self.submit(operation, *args, **kwargs))
        return result

    def _wait(
        self, operation: Callable[Concatenate[Engine, P], Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        __tracebackhide__ = True
        if _is_on_a_loop():
            raise RuntimeError(
                "waiting here would hold the event loop, and with it the clients on it: "
                "use 'await broker.aio.wait_for...', for a fault 'await broker.aio.wait_fired(fault)'"
            )
        return self._run(operation, *args, **kwargs)

    def forget_after_fork(self) -> None:
        """In a forked child: nothing runs here any more; close what was inherited."""
        channel, self._channel = self._channel, None
        self._why_not = FORKED
        if channel is not None:
            channel.forget_after_fork()


def outcome(future: Future[T]) -> T:
    """The result, or the error. What a test asserted and is not so is its own business: pytest shows its line alone."""
    __tracebackhide__ = True
    error = future.exception()
    if error is None:
        return future.result()
    raise error.with_traceback(None) if isinstance(error, AssertionError) else error


class Snapshot:
    """What ``Broker.snapshot`` gives and ``Broker.restore`` takes. ``path`` is a Kafka data directory."""

    def __init__(self, path: str) -> None:
        self.path = path


def text(value: object) -> str:
    """A config value as ``server.properties`` would have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_plain(function: Callable[..., Any]) -> None:
    """Raises ``ValueError`` for a coroutine function: what nobody awaits does nothing."""
    import inspect

    if inspect.iscoroutinefunction(function):
        raise ValueError(f"load() calls a plain function; have {function.__name__} run by 'await broker.aio.load(...)'")


def _is_on_a_loop() -> bool:
    """Whether the caller is a coroutine. Where nobody has imported asyncio, nobody is one."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def _watch_forks() -> None:
    """A forked child has none of our threads; what it inherited of our sockets and files it closes."""
    if not _fork_watched:
        _fork_watched.append(True)
        os.register_at_fork(after_in_child=_after_fork)


def _after_fork() -> None:
    for broker in list(_running):
        broker.forget_after_fork()
    _running.clear()
