"""How the client commands show things: tables for people, JSON for programs, progress on long work.

No colour without a terminal or with ``NO_COLOR``. The JSON of a command is what its function returns, one document;
streams (``consume``) are one document a line.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import click

from kbroker.cli.client_settings import SETTINGS, SettingOption, complete_pair, complete_profile, remember

if TYPE_CHECKING:
    from collections.abc import Iterator

F = TypeVar("F", bound=Callable[..., Any])
BOOTSTRAP_DEFAULT: Final = SETTINGS["bootstrap.servers"].default


def client_options(function: F) -> F:
    """``--bootstrap``, ``--timeout``, ``-X``, ``--profile``: what every client command takes."""

    @click.option(
        "--bootstrap",
        "-b",
        cls=SettingOption,
        setting="bootstrap.servers",
        envvar=["KBROKER_BROKERS", "KAFKA_BOOTSTRAP_SERVERS"],
        metavar="HOST:PORT",
        help=f"A broker, or several with commas; also $KBROKER_BROKERS. Default {BOOTSTRAP_DEFAULT}.",
    )
    @click.option(
        "--timeout",
        cls=SettingOption,
        setting="request.timeout.ms",
        translate=lambda milliseconds: milliseconds / 1000,
        type=click.FloatRange(min=0.1),
        metavar="SECONDS",
        help="For each answer. Default 30.",
    )
    @click.option(
        "--setting",
        "-X",
        "pairs",
        multiple=True,
        is_eager=True,
        expose_value=False,
        callback=remember,
        metavar="KEY=VALUE",
        shell_complete=complete_pair,
        help="A client setting by Kafka's name, as client.id=me. May be repeated.",
    )
    @click.option(
        "--profile",
        "--command-config",
        "profile",
        is_eager=True,
        expose_value=False,
        callback=remember,
        envvar="KBROKER_PROFILE",
        metavar="NAME|FILE",
        shell_complete=complete_profile,
        help="Client settings from a file: ~/.config/kbroker/NAME.properties, or its path.",
    )
    @wraps(function)
    def command(*arguments: Any, bootstrap: str, timeout: float, **given: Any) -> Any:
        return function(*arguments, bootstrap=bootstrap, timeout_ms=int(timeout * 1000), **given)

    return command  # type: ignore[return-value]  # the options turn into keywords


def format_option(function: F) -> F:
    """``--format table|json``."""
    option = click.option(
        "--format",
        "shape",
        type=click.Choice(["table", "json"]),
        default="table",
        help="A table for people or JSON for programs.",
    )
    return option(function)


def show(shape: str, rows: Sequence[Mapping[str, Any]], *, empty: str = "") -> None:
    """Rows as a table with their keys as heads, or as one JSON array."""
    if shape == "json":
        show_json(list(rows))
    elif rows:
        show_table(rows)
    elif empty:
        click.echo(empty, err=True)


def show_sections(shape: str, sections: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """One section as ``show`` shows it; several as tables below their titles, or as one JSON object of arrays."""
    if len(sections) == 1:
        show(shape, *sections.values())
    elif shape == "json":
        show_json(sections)
    else:
        for number, (title, rows) in enumerate(sections.items()):
            if number:
                click.echo()
            click.echo(f"{title.upper()}\n{'=' * len(title)}")
            show(shape, rows, empty="none")


def show_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def show_pairs(shape: str, values: Mapping[str, Any]) -> None:
    """One thing's properties."""
    if shape == "json":
        show_json(values)
        return
    width = max(map(len, values), default=0)
    for name, value in values.items():
        click.echo(f"{_bold(name.ljust(width))}  {_cell(value)}")


def show_table(rows: Sequence[Mapping[str, Any]]) -> None:
    heads = list(rows[0])
    cells = [[_cell(row[head]) for head in heads] for row in rows]
    widths = [max(len(head), *(len(line[n]) for line in cells)) for n, head in enumerate(heads)]
    click.echo("  ".join(_bold(head.upper().ljust(width)) for head, width in zip(heads, widths, strict=True)).rstrip())
    for line in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)


def has_colour() -> bool:
    """Whether standard output is a terminal whose owner has nothing against colour."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _bold(text: str) -> str:
    return click.style(text, bold=True) if has_colour() else text


@contextmanager
def progress(what: str, *, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A function to call with how many more are done; they are counted on standard error when that is a terminal."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda _count: None
        return
    # Imported here: it takes longer than most commands.
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn

    console = Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR")))
    columns = (SpinnerColumn(), TextColumn("{task.completed} {task.description}"))
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda count: shown.advance(task, count)


def is_file(stream: BinaryIO) -> bool:
    """Whether what is written goes to a file, rather than to a terminal or to another program."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:
        return False


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """``key=value`` arguments. Raises ``click.UsageError``."""
    pairs = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise click.UsageError(f"{text} is not KEY=VALUE")
        pairs[name] = value
    return pairs


def parse_headers(texts: Iterable[str]) -> list[tuple[str, str]]:
    """``name=value`` or ``name:value``, whichever sign comes first; a name may come again. Raises ``UsageError``."""
    headers = []
    for text in texts:
        name, *value = re.split("[=:]", text, maxsplit=1)
        if not value or not name:
            raise click.UsageError(f"{text} is not NAME=VALUE")
        headers.append((name, value[0]))
    return headers
