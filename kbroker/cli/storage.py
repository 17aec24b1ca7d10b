"""``kbroker storage``: format and inspect data directories, with the options and words of Kafka's ``kafka-storage``.

A broker formats empty directories by itself; this is for whoever wants to decide the ids, or to look before a start.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from kbroker.cli import CommandGroup
from kbroker.cli.settings import Flags, SettingsError, assemble
from kbroker.config.broker import BrokerConfig
from kbroker.host import Disk
from kbroker.types import Uuid, is_directory, uuid_from_string, uuid_to_string

if TYPE_CHECKING:
    from kbroker.kraft.raft.voters import Voter
    from kbroker.log.meta_properties import MetaProperties
    from kbroker.protocol.messages.records.metadata import FeatureLevelRecord


F = TypeVar("F", bound=Callable[..., Any])

_INITIAL_CONTROLLER = re.compile(r"(?P<id>\d+)@(?P<host>\[[^]]+\]|[^:,]+):(?P<port>\d+):(?P<directory>[^:,]+)")


def whose_options(function: F) -> F:
    """Whose directories: those of a configuration, or one that is named as for ``kbroker start``."""
    directory = click.option("--data-dir", metavar="DIR", help="The directory, instead of log.dirs.")
    file = click.option("--config", "-c", "file", metavar="SERVER.PROPERTIES", help="The broker's configuration.")
    return file(directory(function))


@click.group(cls=CommandGroup)
def storage() -> None:
    """Format and inspect data directories."""


@storage.command("random-uuid")
def random_uuid() -> None:
    """Print a random UUID, for a cluster id."""
    click.echo(uuid_to_string(new_uuid()))


@storage.command("format")
@whose_options
@click.option("--cluster-id", "-t", required=True, metavar="ID", help="The id of the cluster (see random-uuid).")
@click.option("--ignore-formatted", "-g", is_flag=True, help="Skip directories that are formatted instead of failing.")
@click.option("--standalone", "-s", is_flag=True, help="For a dynamic quorum of this node alone.")
@click.option("--no-initial-controllers", "-N", is_flag=True, help="Accepted for Kafka's sake.")
@click.option(
    "--initial-controllers",
    "-I",
    "initial_controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID",
    help="For a dynamic quorum of this node alone, at this address, with this directory id.",
)
@click.option("--release-version", "-r", metavar="VERSION", help="Hold the cluster at the levels of this release.")
@click.option(
    "--feature", "-f", "features", multiple=True, metavar="FEATURE=LEVEL", help="A level that is not the default."
)
def format_command(
    *,
    file: str | None,
    data_dir: str | None,
    cluster_id: str,
    ignore_formatted: bool,
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    release_version: str | None,
    features: Sequence[str],
) -> None:
    """Format the directories of log.dirs."""
    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise click.UsageError("--standalone, --no-initial-controllers and --initial-controllers exclude each other")
    from kbroker.cli.feature_levels import FeatureError, records_to_format_with
    from kbroker.host.real import RealDisk

    is_dynamic = standalone or initial_controllers is not None
    try:
        records = records_to_format_with(release_version, features, is_dynamic=is_dynamic)
        config = assemble(Flags(file=file, data_dir=data_dir), os.environ).config
        if is_dynamic and config.strings("controller.quorum.voters"):
            raise StorageError(
                "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
                "--standalone: leave one out"
            )
        if config.leaves_voters_to_the_log and not is_dynamic and not no_initial_controllers:
            raise StorageError(
                "Because controller.quorum.voters is not set on this controller, you must specify one of the "
                "following: --standalone, --initial-controllers, or --no-initial-controllers."
            )
        voter = None
        if initial_controllers is not None:
            voter = initial_controller(initial_controllers, config)
        elif standalone:
            voter = standalone_voter(config)
        lines = format_directories(
            RealDisk(16),
            config,
            cluster_id,
            records,
            voter,
            ignore_formatted=ignore_formatted,
            now_ms=time.time_ns() // 1_000_000,
        )
    except SettingsError as error:
        _fail(str(error), status=2)
    except (OSError, StorageError, FeatureError) as error:
        _fail(str(error), status=1)
    click.echo("\n".join(lines))


@storage.command()
@whose_options
def info(*, file: str | None, data_dir: str | None) -> None:
    """Show what the directories of log.dirs hold; status 1 when something is wrong with them."""
    from kbroker.host.real import RealDisk

    try:
        config = assemble(Flags(file=file, data_dir=data_dir), os.environ).config
    except SettingsError as error:
        _fail(str(error), status=2)
    report = inspect_directories(RealDisk(16), [*config.log_dirs, config.metadata_log_dir])
    click.echo("\n".join(report.lines))
    sys.exit(1 if report.problems else 0)


@storage.command("version-mapping")
@click.option("--release-version", "-r", metavar="VERSION", help="Which release; the newest if none is given.")
def version_mapping(release_version: str | None) -> None:
    """Show which levels of the features a release version stands for."""
    from kbroker.cli.feature_levels import FeatureError, mapping_lines

    try:
        lines = mapping_lines(release_version)
    except FeatureError as error:
        _fail(str(error), status=1)
    click.echo("\n".join(lines))


@storage.command("feature-dependencies")
@click.option("--feature", "-f", "features", multiple=True, required=True, metavar="FEATURE=LEVEL", help="Which level.")
def feature_dependencies(features: Sequence[str]) -> None:
    """Show which other features levels need."""
    from kbroker.cli.feature_levels import FeatureError, dependency_lines

    try:
        lines = dependency_lines(features)
    except FeatureError as error:
        _fail(str(error), status=1)
    click.echo("\n".join(lines))


class StorageError(Exception):
    """Directories that cannot be formatted, in a line."""


class Report(NamedTuple):
    """What ``info`` shows."""

    lines: list[str]
    problems: list[str]


def new_uuid() -> Uuid:
    """Random, none of Kafka's reserved ones, and without a dash in front, which command lines take for an option."""
    while True:
        uuid = os.urandom(16)
        if is_directory(uuid) and not uuid_to_string(uuid).startswith("-"):
            return uuid


def format_directories(
    disk: Disk,
    config: BrokerConfig,
    cluster_id: str,
    bootstrap: Sequence[FeatureLevelRecord],
    voter: Voter | None = None,
    *,
    ignore_formatted: bool,
    now_ms: int,
) -> list[str]:
    """Format what is not formatted and can be read; the lines to show. Raises ``StorageError``, ``OSError``.

    ``bootstrap`` begins with the level of ``metadata.version``. ``voter`` is what a dynamic quorum begins with.
    """
    from kbroker.kraft.metadata_versions import name_of
    from kbroker.kraft.raft.voters import KRAFT_VERSIONS, Voters
    from kbroker.kraft.snapshots import write_bootstrap
    from kbroker.log import meta_properties
    from kbroker.log.errors import InconsistentDirectoryError

    if not cluster_id:
        raise StorageError("The cluster id is empty: give one, such as random-uuid prints")
    found: dict[str, MetaProperties | None] = {}
    lines = []
    for directory in dict.fromkeys([config.metadata_log_dir, *config.log_dirs]):
        try:
            found[directory] = meta_properties.read(disk, directory)
        except (OSError, InconsistentDirectoryError):
            lines.append(f"I/O error trying to read log directory {directory}. Ignoring...")
    formatted = {directory: properties for directory, properties in found.items() if properties is not None}
    try:
        meta_properties.check_ids(formatted.items())
        for directory, properties in formatted.items():
            meta_properties.check_owner(directory, properties, cluster_id, config.node_id)
    except InconsistentDirectoryError as error:
        raise StorageError(str(error)) from error
    if not found:
        raise StorageError("\n".join([*lines, "No available log directories to format."]))
    if formatted and not ignore_formatted:
        what = "Use --ignore-formatted to ignore this directory and format the others."
        raise StorageError(f"Log directory {next(iter(formatted))} is already formatted. {what}")
    if len(formatted) == len(found):
        return [*lines, "All of the log directories are already formatted."]
    version = name_of(bootstrap[0].feature_level)
    voters = [] if voter is None else Voters((voter,), KRAFT_VERSIONS[1]).control_records()
    for directory in found:
        if directory in formatted:
            continue
        is_metadata = directory == config.metadata_log_dir
        kind = ("metadata" if voter is None else "dynamic metadata voter") if is_metadata else "data"
        lines.append(f"Formatting {kind} directory {directory} with metadata.version {version}.")
        disk.make_dirs(directory)
        if is_metadata:
            write_bootstrap(disk, directory, bootstrap, now_ms, voters)
        # Last: a directory with this file is a formatted one.
        directory_id = voter.directory_id if is_metadata and voter is not None else new_uuid()
        own = meta_properties.MetaProperties(cluster_id, config.node_id, directory_id)
        meta_properties.write(disk, directory, own)
    return lines


def standalone_voter(config: BrokerConfig) -> Voter:
    """This node with a new directory, where others would reach it."""
    from kbroker.kraft.raft.voters import Voter, VoterEndpoint

    endpoints = [VoterEndpoint(each.name, each.host or "localhost", each.port) for each in config.controller_endpoints]
    return Voter(config.node_id, new_uuid(), tuple(endpoints))


def initial_controller(text: str, config: BrokerConfig) -> Voter:
    """This node as ``--initial-controllers`` names it. Raises ``StorageError``."""
    from kbroker.kraft.raft.voters import Voter, VoterEndpoint

    match = _INITIAL_CONTROLLER.fullmatch(text)
    try:
        if match is None:
            raise ValueError("it is not id@host:port:directory-id")
        directory_id = uuid_from_string(match["directory"])
        if not is_directory(directory_id):
            raise ValueError(f"{match['directory']} is a reserved id")
        if int(match["id"]) != config.node_id:
            raise ValueError(f"kbroker runs a quorum of one, which is node {config.node_id}")
    except ValueError as error:
        raise StorageError(f"--initial-controllers {text}: {error}") from error
    name = next(iter(config.controller_listener_names), "CONTROLLER")
    endpoint = VoterEndpoint(name, match["host"].strip("[]"), int(match["port"]))
    return Voter(config.node_id, directory_id, (endpoint,))


def inspect_directories(disk: Disk, directories: Sequence[str]) -> Report:
    """What ``kafka-storage info`` says of these directories."""
    from kbroker.log import meta_properties
    from kbroker.log.errors import InconsistentDirectoryError

    there: list[str] = []
    problems: list[str] = []
    first: MetaProperties | None = None
    for directory in sorted(set(directories)):
        if not disk.is_dir(directory):
            problems.append(f"{directory} {'is not a directory' if disk.exists(directory) else 'does not exist'}")
            continue
        there.append(directory)
        try:
            properties = meta_properties.read(disk, directory)
        except InconsistentDirectoryError as error:
            problems.append(f"Error loading {error}")
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = properties
        elif properties.cluster_id != first.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif properties.node_id != first.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    lines = []
    if there:
        lines += ["Found log directory:" if len(there) == 1 else "Found log directories:"]
        lines += [f"  {directory}" for directory in there] + [""]
    if first is not None:
        values = ", ".join(f"{key}={value}" for key, value in meta_properties.values_of(first).items())
        lines += [f"Found metadata: {{{values}}}", ""]
    if problems:
        lines += ["Found problem:" if len(problems) == 1 else "Found problems:"]
        lines += [f"  {problem}" for problem in problems] + [""]
    return Report(lines, problems)


def _fail(line: str, *, status: int) -> NoReturn:
    click.echo(f"kbroker storage: {line}", err=True)
    sys.exit(status)
