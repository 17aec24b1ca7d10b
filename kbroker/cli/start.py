"""``kbroker start`` and ``kbroker dev``: a broker in the foreground until it is told to end.

What touches the whole process (signals, logging, the event loop, memory) is not here but in ``kbroker.__main__``, which
hands its ``run`` in as click's context object.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from kbroker.cli.settings import Flags, Settings, SettingsError, assemble
from kbroker.config.dev import preset_values

Run = Callable[[Settings], int]
F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = (
    click.argument("file", metavar="[SERVER.PROPERTIES]", required=False),
    click.option("--host", help="Where to listen: a host name or address; 0.0.0.0 for all."),
    click.option("--port", type=click.IntRange(0, 65535), help="Where to listen; 0 takes a free port."),
    click.option("--data-dir", metavar="DIR", help="Where the data is."),
    click.option("--node-id", type=click.IntRange(0), help="This node's number in its cluster."),
    click.option(
        "--cluster-id", metavar="ID", help="The cluster an empty data directory joins, a used one must be of."
    ),
    click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Set any key. May be repeated."),
    click.option(
        "--topic",
        "topics",
        multiple=True,
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="Make a topic if it is not there. May be repeated.",
    ),
    click.option("--ephemeral", is_flag=True, help="Keep the data in a temporary folder that goes with the broker."),
)


def options(function: F) -> F:
    for option in reversed(OPTIONS):
        function = option(function)
    return function


@click.command()
@options
@click.pass_obj
def start(run: Run, /, *, ephemeral: bool, **given: Any) -> None:
    """Run a broker.

    Without a file it takes the values of the server.properties that Apache Kafka ships. Settings come, the strongest
    first, from flags, KAFKA_* variables, the file.
    """
    sys.exit(_launch(run, Flags(**given), ephemeral=ephemeral, dev=False))


@click.command()
@options
@click.pass_obj
def dev(run: Run, /, *, ephemeral: bool, **given: Any) -> None:
    """Run a broker for development and tests.

    Like start, with presets that suit a lone broker on one's own machine: data in a temporary folder unless told
    otherwise, no fsync, few internal partitions, a quiet log.
    """
    sys.exit(_launch(run, Flags(**given), ephemeral=ephemeral, dev=True))


def _launch(run: Run, flags: Flags, *, ephemeral: bool, dev: bool) -> int:
    """The exit status: 0 after a clean end, 1 when the broker could not start, 2 when the settings cannot be."""
    if ephemeral and flags.data_dir is not None:
        raise click.UsageError("--ephemeral and --data-dir exclude each other")
    temporary: str | None = None
    try:
        for topic in flags.topics:
            check_topic(topic)
        if ephemeral:
            temporary = flags.data_dir = _temporary_folder()
        settings = assemble(flags, os.environ, presets=preset_values() if dev else None)
        if dev and not (settings.config.is_set("log.dirs") or settings.config.is_set("log.dir")):
            temporary = flags.data_dir = _temporary_folder()
            settings = assemble(flags, os.environ, presets=preset_values())
        return run(settings)
    except SettingsError as error:
        click.echo(f"kbroker: {error}", err=True)
        return 2
    finally:
        if temporary is not None:
            from shutil import rmtree

            rmtree(temporary, ignore_errors=True)


def check_topic(text: str) -> None:
    """``name[:partitions[:replicas]]``. Raises ``SettingsError``."""
    name, *numbers = text.split(":")
    if (
        not name
        or len(numbers) > 2
        or not all(number.isascii() and number.isdigit() and int(number) for number in numbers)
    ):
        raise SettingsError(f"--topic {text}: name[:partitions[:replicas]] is expected, with numbers from 1 on")


def _temporary_folder() -> str:
    from tempfile import mkdtemp

    return mkdtemp(prefix="kbroker-")
