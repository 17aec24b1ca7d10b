"""A broker in a thread, for tests: starts on a free port, goes away without a trace.

The broker is the production one with the presets of ``kbroker dev``. It runs on an event loop of its own in a thread of
its own; the caller talks to it as to any broker, over a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

if TYPE_CHECKING:
    from kbroker.broker import Broker as ProductionBroker
    from kbroker.host import Host

T = TypeVar("T")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


class Broker:
    """One broker, as a context manager or with ``start`` and ``stop``::

        with Broker(topics={"orders": 3}) as broker:
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    ``topics`` are made before ``start`` returns: name to number of partitions. ``configs`` are broker configs as in
    ``server.properties``; they win over the presets. ``data_dir`` keeps the data there; without it the data lies in a
    temporary folder that goes with the broker. ``port`` 0 takes a free one.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        configs: Mapping[str, object] | None = None,
        data_dir: str | None = None,
        port: int = 0,
    ) -> None:
        self._topics = dict(topics or {})
        self._configs = {name: _text(value) for name, value in (configs or {}).items()}
        self._data_dir = data_dir
        self._port = port
        self._temporary: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._host: Host | None = None
        self._broker: ProductionBroker | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect: ``localhost:<port>``. Raises ``RuntimeError`` when the broker does not run."""
        if self._broker is None:
            raise RuntimeError("the broker does not run: use it in a with statement, or call start()")
        return self._broker.bootstrap_servers

    @property
    def bootstrap_server(self) -> str:
        """The same, as some clients name it."""
        return self.bootstrap_servers

    def get_bootstrap_server(self) -> str:
        """The same, as testcontainers names it."""
        return self.bootstrap_servers

    def start(self) -> Self:
        """Start; returns when clients can connect and the topics are there. Raises what went wrong, cleaned up."""
        if self._loop is not None:
            raise RuntimeError("the broker runs already")
        loop = self._loop = _new_event_loop()
        self._thread = threading.Thread(target=_run, args=(loop,), name="kbroker", daemon=True)
        self._thread.start()
        try:
            self._in_loop(self._start(loop), START_TIMEOUT_S)
        except BaseException:
            with contextlib.suppress(Exception):  # the first error is the one to show
                self.stop()
            raise
        return self

    async def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        from kbroker.broker import Broker as ProductionBroker
        from kbroker.config import BrokerConfig
        from kbroker.config.checks import check_broker
        from kbroker.host.real import real_host

        config = BrokerConfig(self._values())
        check_broker(config)
        self._host = real_host(loop)
        self._broker = ProductionBroker(config, self._host, loop)
        await self._broker.start()

    def stop(self) -> None:
        """Stop and clean up; harmless when the broker does not run. Raises what the broker's own stop raises."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            if self._broker is not None:
                self._in_loop(self._broker.stop(), STOP_TIMEOUT_S)
        finally:
            if self._host is not None:
                self._host.workers.close()
            self._loop = self._thread = self._broker = self._host = None
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            self._remove_temporary()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _values(self) -> dict[str, str]:
        from kbroker.config.dev import preset_values

        values = preset_values()
        values["listeners"] = f"PLAINTEXT://localhost:{self._port}"
        if self._topics:
            values["kbroker.topics"] = ",".join(f"{name}:{partitions}" for name, partitions in self._topics.items())
        values.update(self._configs)
        if self._data_dir is not None:
            values["log.dirs"] = self._data_dir
        elif "log.dirs" not in values and "log.dir" not in values:
            from tempfile import mkdtemp

            self._temporary = values["log.dirs"] = mkdtemp(prefix="kbroker-")
        return values

    def _remove_temporary(self) -> None:
        if self._temporary is not None:
            import shutil

            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def _in_loop(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except BaseException:
            future.cancel()
            raise


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """The thread: the loop until it is stopped, then what asyncio wants done before a loop is closed."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def _new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's when it is installed; the process's policy stays as it is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _text(value: object) -> str:
    """A config value as ``server.properties`` would have it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
