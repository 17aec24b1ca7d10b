"""``kbroker log``: look into the files of partitions, and check whole data directories, without a broker.

``dump`` shows what a file or a partition's directory holds, ``verify`` reads everything that is in a data directory:
every CRC, offsets in order, indexes against the batches they point to, producer snapshots. Both only read.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable

import click

from kbroker.cli import CommandGroup


@click.group(cls=CommandGroup)
def log() -> None:
    """Look into the files of logs."""


@log.command()
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...", type=click.Path(exists=True))
@click.option("--records", is_flag=True, help="Show the records of every batch too.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="json: one object a line.")
def dump(paths: tuple[str, ...], *, records: bool, form: str) -> None:
    """Show what log files, indexes, snapshots and checkpoints hold; of a directory, all of them."""
    from kbroker.host.real import RealDisk
    from kbroker.log.errors import CorruptFileError
    from kbroker.log.inspection import entries_of

    failed = False
    disk = RealDisk(16)
    for path in _files(paths):
        try:
            for entry in entries_of(disk, path, records=records):
                click.echo(json.dumps(entry) if form == "json" else _line(entry))
        except BrokenPipeError:
            raise
        except (CorruptFileError, OSError) as error:
            failed = True
            click.echo(f"kbroker log: {error}", err=True)
    sys.exit(1 if failed else 0)


@log.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...", type=click.Path(exists=True, file_okay=False))
@click.option("--quiet", "-q", is_flag=True, help="Only what is wrong.")
def verify(directories: tuple[str, ...], *, quiet: bool) -> None:
    """Check data directories, or directories of single partitions; status 1 when something is wrong."""
    from kbroker.host.real import RealDisk
    from kbroker.log.inspection import partition_directories
    from kbroker.log.verification import verify_partition

    disk = RealDisk(16)
    problems = batches = records = size = logs = 0
    for directory in directories:
        paths = partition_directories(disk, directory.rstrip("/") or "/")
        if not paths:
            problems += 1
            click.echo(f"{directory}: there are no logs")
        for path in paths:
            report = verify_partition(disk, path)
            logs += 1
            batches, records, size = batches + report.batches, records + report.records, size + report.size
            problems += len(report.problems)
            for problem in report.problems:
                click.echo(f"{path}: {problem}")
            if not report.problems and not quiet:
                click.echo(f"{path}: offsets {report.start} to {report.end}, {report.batches} batches, fine")
    click.echo(f"{logs} logs, {batches} batches, {records} records, {size} bytes: {problems or 'no'} problems")
    sys.exit(1 if problems else 0)


def _files(paths: Iterable[str]) -> list[str]:
    """The files that are meant: of a directory those in it, and in its partitions' directories."""
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            for folder, folders, names in os.walk(path):
                folders.sort()
                found += [os.path.join(folder, name) for name in sorted(names)]
        else:
            found.append(path)
    return found


def _line(entry: dict[str, object]) -> str:
    indent = "  " if entry["kind"] == "record" else ""
    values = " ".join(f"{key}={_shown(value)}" for key, value in entry.items() if key != "kind")
    return f"{indent}{entry['kind']} {values}"


def _shown(value: object) -> str:
    return value if isinstance(value, str) and value and " " not in value else json.dumps(value)
