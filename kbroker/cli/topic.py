"""``kbroker topic``: list, describe, create, grow, alter, trim and delete topics of any Kafka."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from kbroker.cli import CommandGroup
from kbroker.cli.cluster_client import Cluster, Topic, check, confirm, failed, raise_errors, run
from kbroker.cli.output import client_options, format_option, parse_pairs, show
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
@format_option
@client_options
def list_command(
    names: tuple[str, ...], *, regex: bool, internal: bool, shape: str, bootstrap: str, timeout_ms: int
) -> None:
    """List topics, or those of the NAMES."""
    if regex:
        try:
            patterns = [re.compile(each) for each in names]
        except re.error as error:
            raise click.UsageError(f"no regular expression: {error}") from error

    def wanted(found: Topic) -> bool:
        name = found.name or ""
        if found.is_internal and not internal:
            return False
        if not names:
            return True
        return any(each.search(name) for each in patterns) if regex else name in names

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        topics = (await cluster.metadata(None)).topics
        return [
            {
                "name": each.name,
                "partitions": len(each.partitions),
                "replicas": len(each.partitions[0].replica_nodes) if each.partitions else 0,
                "internal": each.is_internal,
            }
            for each in sorted(topics, key=lambda each: each.name or "")
            if wanted(each)
        ]

    show(shape, run(bootstrap, work, timeout_ms), empty="no topics")


@topic.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--offsets", "-o", is_flag=True, help="First and last offset of each partition.")
@format_option
@client_options
def describe(names: tuple[str, ...], *, offsets: bool, shape: str, bootstrap: str, timeout_ms: int) -> None:
    """Show the partitions of topics: leader, replicas, who is in sync."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows = []
        for name in names:
            found = await cluster.topic(name)
            numbers = [each.partition_index for each in found.partitions]
            starts = await read_offsets(cluster, found, numbers, EARLIEST) if offsets else {}
            ends = await read_offsets(cluster, found, numbers, LATEST) if offsets else {}
            for each in found.partitions:
                row = {
                    "topic": name,
                    "id": uuid_to_string(found.topic_id),
                    "partition": each.partition_index,
                    "leader": each.leader_id,
                    "epoch": each.leader_epoch,
                    "replicas": each.replica_nodes,
                    "isr": each.isr_nodes,
                }
                if offsets:
                    row["start"], row["end"] = starts[each.partition_index], ends[each.partition_index]
                rows.append(row)
        return rows

    show(shape, run(bootstrap, work, timeout_ms))


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
    values = [
        CreateTopicsRequest.CreatableTopicConfig(name=name, value=value) for name, value in parse_pairs(configs).items()
    ]
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
            errors.append(failed(f"topic {each.name}", each.error_code, each.error_message))
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
