"""``kbroker topic``: list, describe, create, grow, alter, trim and delete topics of any Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from kbroker.cli import CommandGroup
from kbroker.cli.cluster_client import Cluster, CommandError, Topic, check, confirm, failed, raise_errors, run
from kbroker.cli.output import client_options, format_option, parse_pairs, show, show_sections
from kbroker.config.broker import Source
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_partitions import CreatePartitionsRequest
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.delete_records import DeleteRecordsRequest
from kbroker.protocol.messages.delete_topics import DeleteTopicsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from kbroker.types import uuid_to_string

LATEST, EARLIEST = -1, -2


@click.group(cls=CommandGroup)
def topic() -> None:
    """List, describe, create, alter and delete topics."""


@topic.command("list")
@click.argument("names", nargs=-1)
@click.option("--regex", "-r", is_flag=True, help="The names are regular expressions.")
@click.option("--internal", "-i", is_flag=True, help="Internal topics, too.")
@click.option("--detailed", "-d", is_flag=True, help="Their partitions, as describe shows them.")
@format_option
@client_options
def list_command(
    names: tuple[str, ...], *, regex: bool, internal: bool, detailed: bool, shape: str, bootstrap: str, timeout_ms: int
) -> None:
    """List topics, or those of the NAMES."""
    is_named = _chooser(names) if regex else lambda name: not names or name in names

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        wanted = [each for each in await _all_topics(cluster) if internal or not each.is_internal]
        wanted = [each for each in wanted if is_named(each.name or "")]
        if detailed:
            return [row for each in wanted for row in _partition_rows(each)]
        return [{"name": each.name, **_counts(each)} for each in wanted]

    show(shape, run(bootstrap, work, timeout_ms), empty="no topics")


@topic.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--summary", "-s", is_flag=True, help="How many partitions and replicas.")
@click.option("--partitions", "-p", is_flag=True, help="Leader, replicas and who is in sync; what is shown otherwise.")
@click.option("--offsets", "-o", is_flag=True, help="The partitions with their first and last offsets.")
@click.option("--configs", "-c", is_flag=True, help="Configs, defaults too.")
@click.option("--all", "-a", "everything", is_flag=True, help="All of these.")
@click.option("--regex", "-r", is_flag=True, help="The names are regular expressions.")
@format_option
@client_options
def describe(
    names: tuple[str, ...],
    *,
    summary: bool,
    partitions: bool,
    offsets: bool,
    configs: bool,
    everything: bool,
    regex: bool,
    shape: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Show topics: their partitions, or what the options say."""
    is_named = _chooser(names) if regex else None
    with_partitions = partitions or offsets or everything or not (summary or configs)

    async def work(cluster: Cluster) -> dict[str, list[dict[str, Any]]]:
        if is_named is None:
            topics = [await cluster.topic(name) for name in names]
        else:
            topics = [each for each in await _all_topics(cluster) if is_named(each.name or "")]
            if not topics:
                raise CommandError(f"no topic matches {' or '.join(names)}", "kbroker topic list --internal")
        sections = {}
        if summary or everything:
            sections["summary"] = [_summary(each) for each in topics]
        if with_partitions:
            bounds = [await _bounds(cluster, each) if offsets or everything else None for each in topics]
            pairs = zip(topics, bounds, strict=True)
            sections["partitions"] = [row for each, known in pairs for row in _partition_rows(each, known)]
        if configs or everything:
            sections["configs"] = [row for each in topics for row in await _config_rows(cluster, each)]
        return sections

    show_sections(shape, run(bootstrap, work, timeout_ms))


@topic.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--partitions", "-p", type=click.IntRange(1), help="How many; the broker's num.partitions by default.")
@click.option("--replicas", "-r", type=click.IntRange(1), help="How many; the broker's default.replication.factor.")
@click.option("--config", "-c", "configs", multiple=True, metavar="KEY=VALUE", help="A topic config. May be repeated.")
@click.option("--if-not-exists", is_flag=True, help="Topics that are there already are no error.")
@click.option("--dry-run", is_flag=True, help="Only say what would come of it.")
@client_options
def create(
    names: tuple[str, ...],
    *,
    partitions: int | None,
    replicas: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Create topics."""
    from kbroker.cli.config import refused

    pairs = parse_pairs(configs)
    values = [CreateTopicsRequest.CreatableTopicConfig(name=name, value=value) for name, value in pairs.items()]
    wanted = [
        CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=partitions or -1, replication_factor=replicas or -1, configs=values
        )
        for name in names
    ]
    request = CreateTopicsRequest(topics=wanted, timeout_ms=timeout_ms, validate_only=dry_run)
    answer = run(bootstrap, lambda cluster: cluster.ask(request), timeout_ms)
    errors = []
    for each in answer.topics:
        if each.error_code == ErrorCode.NONE:
            click.echo(f"{'would create' if dry_run else 'created'} {each.name}")
        elif each.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and if_not_exists:
            click.echo(f"{each.name} is there already")
        else:
            errors.append(refused(f"topic {each.name}", "topic", pairs, each.error_code, each.error_message))
    raise_errors(errors)


@topic.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Topics that are not there are no error.")
@client_options
def delete(names: tuple[str, ...], *, if_exists: bool, bootstrap: str, timeout_ms: int) -> None:
    """Delete topics with all their records."""
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=timeout_ms)
    answer = run(bootstrap, lambda cluster: cluster.ask(request, at_most=5), timeout_ms)
    errors = []
    for each in answer.responses:
        if each.error_code == ErrorCode.NONE:
            click.echo(f"deleted {each.name}")
        elif each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and if_exists:
            click.echo(f"{each.name} is not there")
        else:
            errors.append(failed(f"topic {each.name}", each.error_code, each.error_message))
    raise_errors(errors)


@topic.command("add-partitions")
@click.argument("name")
@click.option("--partitions", "-p", type=click.IntRange(1), required=True, help="How many more.")
@client_options
def add_partitions(name: str, *, partitions: int, bootstrap: str, timeout_ms: int) -> None:
    """Add partitions to a topic. Keys may go to other partitions afterwards."""

    async def work(cluster: Cluster) -> int:
        count = len((await cluster.topic(name)).partitions) + partitions
        grown = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        answer = await cluster.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=timeout_ms))
        for each in answer.results:
            check(f"topic {name}", each.error_code, each.error_message)
        return count

    click.echo(f"{name} has {run(bootstrap, work, timeout_ms)} partitions")


@topic.command("alter-config")
@click.argument("name")
@click.option("--set", "-s", "values", multiple=True, metavar="KEY=VALUE", help="Set a key. May be repeated.")
@click.option("--delete", "-d", "deleted", multiple=True, metavar="KEY", help="Back to the default. May be repeated.")
@click.option("--dry-run", is_flag=True, help="Only say whether it could be.")
@client_options
def alter_config(
    name: str, *, values: tuple[str, ...], deleted: tuple[str, ...], dry_run: bool, bootstrap: str, timeout_ms: int
) -> None:
    """Change a topic's configuration (as kbroker config set topic NAME)."""
    from kbroker.cli.config import alter

    pairs: dict[str, str | None] = {**parse_pairs(values), **dict.fromkeys(deleted)}
    if not pairs:
        raise click.UsageError("nothing to change: give --set or --delete")
    run(bootstrap, lambda cluster: alter(cluster, "topic", name, pairs, dry_run=dry_run), timeout_ms)
    click.echo(f"{'could alter' if dry_run else 'altered'} {name}")


@topic.command()
@click.argument("name")
@click.option("--offset", "-o", type=click.IntRange(0), help="Delete the records before this offset.")
@click.option("--to-end", is_flag=True, help="Delete all records.")
@click.option("--partition", "-p", "partitions", type=int, multiple=True, help="Only these. May be repeated.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@client_options
def trim(
    name: str,
    *,
    offset: int | None,
    to_end: bool,
    partitions: tuple[int, ...],
    yes: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Delete a topic's records up to an offset, for good."""
    if (offset is None) == (not to_end):
        raise click.UsageError("give one of --offset and --to-end")
    if not yes:
        confirm(f"Delete records of {name} for good?")
    wanted = -1 if offset is None else offset

    def request(some: Sequence[int]) -> DeleteRecordsRequest:
        rows = [DeleteRecordsRequest.DeleteRecordsPartition(partition_index=each, offset=wanted) for each in some]
        return DeleteRecordsRequest(
            topics=[DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=rows)], timeout_ms=timeout_ms
        )

    async def work(cluster: Cluster) -> list[Any]:
        found = await cluster.topic(name)
        numbers = list(partitions) or [each.partition_index for each in found.partitions]
        answers = await cluster.ask_leaders(found, numbers, request)
        return [row for answer in answers for each in answer.topics for row in each.partitions]

    errors = []
    for each in run(bootstrap, work, timeout_ms):
        if each.error_code == ErrorCode.NONE:
            click.echo(f"{name}-{each.partition_index} begins at {each.low_watermark}")
        else:
            errors.append(failed(f"{name}-{each.partition_index}", each.error_code))
    raise_errors(errors)


def _chooser(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Whether a name holds one of the patterns; any does when there is none. Raises ``click.UsageError``."""
    try:
        compiled = [re.compile(each) for each in patterns]
    except re.error as error:
        raise click.UsageError(f"no regular expression: {error}") from error
    return lambda name: not compiled or any(each.search(name) for each in compiled)


async def _all_topics(cluster: Cluster) -> list[Topic]:
    """All topics and their partitions, in order."""
    topics = (await cluster.metadata(None)).topics
    for each in topics:
        each.partitions.sort(key=lambda partition: partition.partition_index)
    return sorted(topics, key=lambda each: each.name or "")


def _counts(topic: Topic) -> dict[str, Any]:
    return {
        "partitions": len(topic.partitions),
        "replicas": len(topic.partitions[0].replica_nodes) if topic.partitions else 0,
        "internal": topic.is_internal,
    }


def _summary(topic: Topic) -> dict[str, Any]:
    return {"topic": topic.name, "id": uuid_to_string(topic.topic_id), **_counts(topic)}


def _partition_rows(topic: Topic, bounds: Mapping[int, tuple[int, int]] | None = None) -> list[dict[str, Any]]:
    """``bounds``: first and last offsets to show."""
    rows = []
    for each in topic.partitions:
        row = {
            "topic": topic.name,
            "id": uuid_to_string(topic.topic_id),
            "partition": each.partition_index,
            "leader": each.leader_id,
            "epoch": each.leader_epoch,
            "replicas": each.replica_nodes,
            "isr": each.isr_nodes,
        }
        if bounds is not None:
            row["start"], row["end"] = bounds.get(each.partition_index, (None, None))
        rows.append(row)
    return rows


async def _bounds(cluster: Cluster, topic: Topic) -> dict[int, tuple[int, int]]:
    """First and last offsets, of the partitions that somebody leads."""
    led = [each.partition_index for each in topic.partitions if each.leader_id >= 0]
    starts = await read_offsets(cluster, topic, led, EARLIEST)
    ends = await read_offsets(cluster, topic, led, LATEST)
    return {each: (starts[each], ends[each]) for each in led}


async def _config_rows(cluster: Cluster, topic: Topic) -> list[dict[str, Any]]:
    from kbroker.cli.config import read_configs

    return [
        {
            "topic": topic.name,
            "key": each.name,
            "value": None if each.is_sensitive else each.value,
            "source": Source(each.config_source).name.lower(),
        }
        for each in await read_configs(cluster, "topic", topic.name or "")
    ]


async def read_offsets(
    cluster: Cluster, topic: Topic, partitions: Sequence[int], timestamp: int, *, committed: bool = False
) -> dict[int, int]:
    """The offset of each partition at a time (``LATEST``, ``EARLIEST``, ms); -1 where nothing is that late."""

    def request(some: Sequence[int]) -> ListOffsetsRequest:
        rows = [ListOffsetsRequest.ListOffsetsPartition(partition_index=each, timestamp=timestamp) for each in some]
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic.name or "", partitions=rows)],
        )

    found = {}
    for answer in await cluster.ask_leaders(topic, partitions, request):
        for each in answer.topics[0].partitions:
            check(f"{topic.name}-{each.partition_index}", each.error_code)
            found[each.partition_index] = each.offset
    return found
