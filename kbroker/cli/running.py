"""``kbroker status`` and ``kbroker stop``: the broker on this machine that holds a data directory.

A broker holds the lock file of each of its directories as long as it runs, and its process writes its number there
(``kbroker.__main__``). The lock says whether there is one, the number only which: a number without a lock is an old
one, a lock without a number is of a broker inside another program, which is not ours to end.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kbroker.cli.cluster_client import CommandError
from kbroker.cli.output import format_option, show
from kbroker.cli.settings import Flags, SettingsError, assemble
from kbroker.host.real import RealDisk
from kbroker.log import meta_properties
from kbroker.log.data_directory import LOCK
from kbroker.log.errors import InconsistentDirectoryError

F = TypeVar("F", bound=Callable[..., Any])
UNKNOWN: Final = 0
"""Of a holder that did not say its number."""
POLL_S: Final = 0.05


def directory_options(function: F) -> F:
    """Whose directories: as for ``kbroker start``."""
    file = click.argument("file", metavar="[SERVER.PROPERTIES]", required=False)
    return file(click.option("--data-dir", metavar="DIR", help="Where its data is; log.dirs otherwise.")(function))


@click.command()
@directory_options
@format_option
def status(*, file: str | None, data_dir: str | None, shape: str) -> None:
    """Say whether a broker runs on its data directories; status 1 when not."""
    rows = [_row(each) for each in _directories(file, data_dir)]
    show(shape, rows)
    sys.exit(0 if any(row["running"] for row in rows) else 1)


@click.command()
@directory_options
@click.option(
    "--timeout", type=click.FloatRange(min=0), default=60.0, metavar="SECONDS", help="How long to wait. Default 60."
)
def stop(*, file: str | None, data_dir: str | None, timeout: float) -> None:
    """End the broker of the data directories cleanly, and wait until it has let go of them."""
    directories = _directories(file, data_dir)
    holders = {each: found for each in directories if (found := holder(each)) is not None}
    if not holders:
        raise CommandError(
            f"no broker runs on {','.join(directories)}", "--data-dir DIR, or the server.properties that it has"
        )
    for directory, process in holders.items():
        if process == UNKNOWN:
            raise CommandError(
                f"the broker of {directory} is only starting, or runs inside another program",
                "again in a moment, or end that program",
            )
    for process in set(holders.values()):
        try:
            os.kill(process, signal.SIGTERM)
        except ProcessLookupError:
            continue
        except PermissionError as error:
            raise CommandError(f"process {process} is another user's", "as that user") from error
    deadline = time.monotonic() + timeout
    while any(holder(each) is not None for each in holders):
        if time.monotonic() > deadline:
            numbers = " ".join(map(str, set(holders.values())))
            raise CommandError(
                f"the broker is still ending after {timeout:g} s",
                f"--timeout with more seconds, or kill -9 {numbers}: the next start recovers what it left",
            )
        time.sleep(POLL_S)
    click.echo(f"stopped the broker of {','.join(holders)}")


def holder(directory: str) -> int | None:
    """The process that holds a data directory, ``UNKNOWN`` when it did not say, None when nobody does."""
    try:
        descriptor = os.open(f"{directory}/{LOCK}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(f"cannot look into {directory}: {error.strerror}", "as the broker's user") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        written = os.read(descriptor, 32).strip()
        return int(written) if written.isdigit() else UNKNOWN
    finally:
        os.close(descriptor)
    return None


def _row(directory: str) -> dict[str, Any]:
    process = holder(directory)
    try:
        found = meta_properties.read(RealDisk(1), directory)
    except (OSError, InconsistentDirectoryError):  # What is wrong with it, kbroker storage info tells.
        found = None
    return {
        "directory": directory,
        "running": process is not None,
        "process": process or None,
        "node": None if found is None else found.node_id,
        "cluster": None if found is None else found.cluster_id,
    }


def _directories(file: str | None, data_dir: str | None) -> list[str]:
    try:
        return list(assemble(Flags(file=file, data_dir=data_dir), os.environ).config.log_dirs)
    except SettingsError as error:
        click.echo(f"kbroker: {error}", err=True)
        sys.exit(2)
