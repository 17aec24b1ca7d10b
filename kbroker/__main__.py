"""``python -m kbroker`` and the ``kbroker`` command: everything that touches the whole process, and nothing else does.

Signals, logging, the event loop, the garbage collector, malloc, the descriptor limit. A broker inside somebody else's
process (``kbroker.testing``) leaves its host process alone.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbroker.broker import Broker
    from kbroker.cli.settings import Settings

LOG_FORMAT = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"
# What others wait for is logged whatever the level.
READY_LOGGER = "kbroker.ready"

MALLOC_SETTINGS = {
    -3: 32 << 20,  # M_MMAP_THRESHOLD, the most glibc takes: blocks of a megabyte come from the heap, not from mmap
    -1: 64 << 20,  # M_TRIM_THRESHOLD: freeing one of them does not give the heap's end back each time
    -2: 4 << 20,  # M_TOP_PAD
}
TUNE_DELAY_S = 0.2
"""Loading ctypes takes milliseconds that belong to the first clients."""


def main() -> None:
    """The entry point of the ``kbroker`` command."""
    if sys.platform == "win32":
        sys.exit("kbroker: Windows is not supported; run it under WSL or in a Linux container")
    open_standard_streams()
    # A start makes many objects and hardly any garbage.
    gc.disable()
    from kbroker.cli import cli

    cli(obj=run)


def open_standard_streams() -> None:
    """A stream that whoever started us has closed leads nowhere; else the first socket would take its number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # the lowest number that is free is the stream's own
            descriptor = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(descriptor, "r" if name == "stdin" else "w", encoding="utf-8"))


def run(settings: Settings) -> int:
    """Run a broker until a signal ends it; the exit status of the process."""
    from kbroker.types import StartupError

    configure_logging(settings.config.string("kbroker.log.level") or "INFO")
    logger = logging.getLogger("kbroker")
    for line in settings.remarks:
        logger.info(line)
    for line in settings.warnings:
        logger.warning(line)
    raise_descriptor_limit()
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(serve(settings, loop))
    except StartupError as error:
        print(f"kbroker: {error}", file=sys.stderr, flush=True)
        return 1
    except Exception:
        logger.exception("the broker cannot go on; this is a mistake of kbroker's own")
        return 1
    finally:
        loop.close()


async def serve(settings: Settings, loop: asyncio.AbstractEventLoop) -> int:
    """Start, announce, wait for a signal, stop. Raises ``StartupError``."""
    from kbroker.broker import Broker
    from kbroker.host.real import real_host

    told_to_end = asyncio.Event()

    def on_signal(number: int) -> None:
        if told_to_end.is_set():
            os._exit(128 + number)
        told_to_end.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    logger = logging.getLogger("kbroker")
    status = 0

    def on_failure(error: BaseException) -> None:
        nonlocal status
        status = 1
        logger.critical("the broker ends itself: %s", error, exc_info=error)
        told_to_end.set()

    host = real_host(
        loop,
        descriptors_max=settings.config.integer("kbroker.open.files.max"),
        worker_threads=settings.config.integer("kbroker.worker.threads"),
        processes=True,
    )
    broker = Broker(settings.config, host, loop, on_failure)
    starting = loop.create_task(broker.start())
    ending = loop.create_task(told_to_end.wait())
    try:
        await asyncio.wait({starting, ending}, return_when=asyncio.FIRST_COMPLETED)
        if not ending.done():
            await starting
            sign_locks(settings.config.log_dirs)
            announce(broker, is_dev=settings.is_dev)
            settle(loop)
            await ending
    finally:
        # Without a start that got to its end there may still be something to close.
        for task in (starting, ending):
            task.cancel()
        await asyncio.gather(starting, ending, return_exceptions=True)
        try:
            await broker.stop()
        except Exception:  # An error of the start is on its way already, and must not be hidden by this one.
            status = 1
            logger.exception("the broker did not stop cleanly")
    return status


def sign_locks(directories: Sequence[str]) -> None:
    """Leave this process's number where ``kbroker stop`` looks for it: in the lock files that the broker holds."""
    for directory in directories:
        with suppress(OSError), open(f"{directory}/.lock", "w", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")


def announce(broker: Broker, *, is_dev: bool) -> None:
    """Tell people and programs that the broker serves: a line on standard output, Kafka's lines in the log.

    In ``dev`` lines to paste follow. A broker whose standard output has no reader any more serves all the same.
    """
    from kbroker.cli import discard_output

    logger = logging.getLogger(READY_LOGGER)
    logger.info(
        "[BrokerLifecycleManager id=%d] The broker has been unfenced. Transitioning from RECOVERY to RUNNING.",
        broker.node_id,
    )
    logger.info("[KafkaRaftServer nodeId=%d] Kafka Server started", broker.node_id)
    servers = broker.bootstrap_servers
    lines = [f"kbroker ready: bootstrap.servers={servers} node.id={broker.node_id} cluster.id={broker.cluster_id}"]
    if is_dev:
        lines += (
            f"  Python  KafkaProducer(bootstrap_servers='{servers}')",
            f"  Java    bootstrap.servers={servers}",
            f"  shell   export KAFKA_BOOTSTRAP_SERVERS={servers}",
            f"  kcat    kcat -b {servers} -L",
        )
    try:
        print("\n".join(lines), flush=True)
    except OSError:
        discard_output()


def configure_logging(level: str) -> None:
    """Log lines in Kafka's form on standard error."""
    logging.basicConfig(level=level, format=LOG_FORMAT, stream=sys.stderr)
    logging.getLogger(READY_LOGGER).setLevel(logging.INFO)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's when it is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def raise_descriptor_limit() -> None:
    """As many descriptors as this process may have; each connection and each open segment takes one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 1 << 20 if hard == resource.RLIM_INFINITY else hard
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    # macOS says that there is no limit, and refuses more than its own.
    for limit in (wanted, 10240):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
        except (OSError, ValueError):
            continue
        return


def settle(loop: asyncio.AbstractEventLoop) -> None:
    """What was made for the start stays: the collector need not look at it again. Then the heap is tuned."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()
    loop.call_later(TUNE_DELAY_S, tune_malloc)


def tune_malloc() -> None:
    """Stop glibc from giving memory back and faulting it in again for every block of a megabyte. Elsewhere: nothing."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return
    for parameter, value in MALLOC_SETTINGS.items():
        mallopt(parameter, value)


if __name__ == "__main__":
    main()
