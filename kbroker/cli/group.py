"""``kbroker group``: consumer groups of any Kafka: who is in them, how far they are, and moving them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final, TextIO

import click

from kbroker.cli import CommandGroup
from kbroker.cli.cluster_client import GROUP, Cluster, CommandError, Topic, check, failed, raise_errors, run
from kbroker.cli.consume import check_place, resolve_place
from kbroker.cli.histories import read_history
from kbroker.cli.membership import Offsets, commit_offsets, committed_offsets, unpack
from kbroker.cli.output import client_options, format_option, show
from kbroker.cli.topic import EARLIEST, LATEST, read_offsets
from kbroker.handlers.histories import GROUP_HISTORY
from kbroker.kraft.image import RESOURCE_GROUP
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kbroker.protocol.messages.delete_groups import DeleteGroupsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.offset_delete import OffsetDeleteRequest

DEAD: Final = "Dead"
STATES: Final = (
    *("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    *("Assigning", "Reconciling", "NotReady"),
)
"""Of classic groups, and those that only groups of the newer protocols have."""


@click.group(cls=CommandGroup)
def group() -> None:
    """List, describe, move and delete consumer groups."""


@group.command("list")
@click.option(
    "--state",
    "-s",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help="Only groups in this state, as Stable. May be repeated.",
)
@format_option
@client_options
def list_command(*, states: tuple[str, ...], shape: str, bootstrap: str, timeout_ms: int) -> None:
    """List groups with their states."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows = []
        for broker in (await cluster.metadata()).brokers:
            answer = await cluster.ask(ListGroupsRequest(states_filter=list(states)), broker=broker.node_id)
            check(f"broker {broker.node_id}", answer.error_code)
            rows += [
                {
                    "group": each.group_id,
                    "state": each.group_state,
                    "type": each.group_type,
                    "protocol": each.protocol_type,
                    "coordinator": broker.node_id,
                }
                for each in answer.groups
            ]
        return sorted(rows, key=lambda row: str(row["group"]))

    show(shape, run(bootstrap, work, timeout_ms), empty="no groups")


@group.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--lag-per-topic", "-t", is_flag=True, help="A row for each topic instead of each partition.")
@click.option("--members", "-m", is_flag=True, help="The members instead of the partitions.")
@click.option("--history", is_flag=True, help="Why the latest rebalances began, instead; only kbroker tells.")
@format_option
@client_options
def describe(
    names: tuple[str, ...],
    *,
    lag_per_topic: bool,
    members: bool,
    history: bool,
    shape: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Show how far groups are in each partition, and which member reads it."""
    if lag_per_topic + members + history > 1:
        raise click.UsageError("give one of --lag-per-topic, --members and --history")

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for name in names:
            state, found = await _members(cluster, name)
            if history:
                rows += await _history(cluster, name)
            elif members:
                rows += [{"group": name, "state": state, **_member_row(each)} for each in found]
            else:
                lag = await _lag(cluster, name, state, found)
                rows += _by_topic(lag) if lag_per_topic else lag
        return rows

    empty = "nobody is in it" if members else "it has committed nothing"
    show(shape, run(bootstrap, work, timeout_ms), empty="it did not rebalance" if history else empty)


@group.command()
@click.argument("name")
@click.option("--to", metavar="WHERE", help="start, end, an offset, +N (from the start), -N (before the end), @TIME.")
@click.option("--to-group", metavar="GROUP", help="Where another group is.")
@click.option(
    "--to-file",
    type=click.File(),
    metavar="FILE",
    help="Lines TOPIC,PARTITION,OFFSET, as kafka-consumer-groups exports.",
)
@click.option(
    "--topics", "--topic", "-t", multiple=True, help="Only these; also ones it has not read yet. May be repeated."
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@format_option
@client_options
def seek(
    name: str,
    *,
    to: str | None,
    to_group: str | None,
    to_file: TextIO | None,
    topics: tuple[str, ...],
    dry_run: bool,
    shape: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Move a group whose members have stopped."""
    if [to, to_group, to_file].count(None) != 2:
        raise click.UsageError("give one of --to, --to-group and --to-file")
    listed = {} if to_file is None else _listed(to_file)
    if to is not None:
        try:
            check_place(to)
        except ValueError as error:
            raise click.UsageError(str(error)) from error

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        coordinator = await cluster.coordinator(name, GROUP)
        before = await committed_offsets(cluster, coordinator, name)
        if to_group is not None:
            listed.update(await committed_offsets(cluster, await cluster.coordinator(to_group, GROUP), to_group))
            if not listed:
                raise CommandError(f"group {to_group} has committed nothing to follow", "kbroker group list")
        if to is not None:
            after = await _places(cluster, before, topics, to)
        else:
            after = {key: offset for key, offset in listed.items() if not topics or key[0] in topics}
        if not after:
            raise CommandError(f"group {name} has committed nothing to move", "--topics NAME")
        if not dry_run:
            await commit_offsets(cluster, coordinator, name, after)
        return [
            {"topic": topic, "partition": partition, "from": before.get((topic, partition)), "to": offset}
            for (topic, partition), offset in sorted(after.items())
        ]

    show(shape, run(bootstrap, work, timeout_ms))


def _listed(lines: TextIO) -> dict[tuple[str, int], int]:
    places = {}
    for number, line in enumerate(lines, 1):
        words = line.replace('"', "").replace(",", " ").split()
        if not words:
            continue
        if len(words) != 3 or not all(word.isdecimal() for word in words[1:]):
            raise click.UsageError(f"{lines.name}, line {number}: TOPIC,PARTITION,OFFSET is expected")
        places[words[0], int(words[1])] = int(words[2])
    return places


@group.command()
@click.argument("names", nargs=-1, required=True)
@client_options
def delete(names: tuple[str, ...], *, bootstrap: str, timeout_ms: int) -> None:
    """Delete groups without members, with all their offsets."""

    async def work(cluster: Cluster) -> list[CommandError]:
        errors = []
        for name in names:
            coordinator = await cluster.coordinator(name, GROUP)
            answer = await cluster.ask(DeleteGroupsRequest(groups_names=[name]), broker=coordinator)
            for each in answer.results:
                if each.error_code == ErrorCode.NONE:
                    click.echo(f"deleted {name}")
                else:
                    errors.append(failed(f"group {name}", each.error_code, each.error_message))
        return errors

    raise_errors(run(bootstrap, work, timeout_ms))


@group.command("offset-delete")
@click.argument("name")
@click.option("--topics", "--topic", "-t", multiple=True, required=True, metavar="TOPIC[:P,P]", help="May be repeated.")
@client_options
def offset_delete(name: str, *, topics: tuple[str, ...], bootstrap: str, timeout_ms: int) -> None:
    """Make a group forget how far it is in topics that it does not read any more."""
    wanted: dict[str, list[int]] = {}
    for text in topics:
        topic, separator, numbers = text.partition(":")
        if separator and not all(each.isdecimal() for each in numbers.split(",")):
            raise click.UsageError(f"{text} is not TOPIC[:P,P]")
        wanted[topic] = [int(each) for each in numbers.split(",")] if separator else []

    async def work(cluster: Cluster) -> list[CommandError]:
        coordinator = await cluster.coordinator(name, GROUP)
        for topic, numbers in wanted.items():
            if not numbers:
                numbers += [each.partition_index for each in (await cluster.topic(topic)).partitions]
        partition = OffsetDeleteRequest.OffsetDeleteRequestPartition
        request = OffsetDeleteRequest(
            group_id=name,
            topics=[
                OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    name=topic, partitions=[partition(partition_index=each) for each in numbers]
                )
                for topic, numbers in wanted.items()
            ],
        )
        answer = await cluster.ask(request, broker=coordinator)
        check(f"group {name}", answer.error_code)
        errors = []
        for found in answer.topics:
            for each in found.partitions:
                if each.error_code == ErrorCode.NONE:
                    click.echo(f"forgot {found.name}-{each.partition_index}")
                else:
                    errors.append(failed(f"{found.name}-{each.partition_index}", each.error_code))
        return errors

    raise_errors(run(bootstrap, work, timeout_ms))


async def _places(cluster: Cluster, committed: Offsets, topics: Sequence[str], place: str) -> Offsets:
    """Where ``place`` is in the partitions that are committed, or in all of ``topics``."""
    by_topic: dict[str, list[int]] = {}
    for read, partition in committed:
        if not topics or read in topics:
            by_topic.setdefault(read, []).append(partition)
    found: Offsets = {}
    for name in topics:
        by_topic[name] = [each.partition_index for each in (await cluster.topic(name)).partitions]
    for name, wanted in by_topic.items():
        topic, partitions = await _there(cluster, name, wanted)
        starts = await read_offsets(cluster, topic, partitions, EARLIEST)
        ends = await read_offsets(cluster, topic, partitions, LATEST)
        offsets = await resolve_place(cluster, topic, partitions, place, starts, ends)
        for partition, offset in offsets.items():
            found[name, partition] = min(max(offset, starts[partition]), ends[partition])
    return found


async def _there(cluster: Cluster, name: str, partitions: Sequence[int]) -> tuple[Topic, list[int]]:
    """A topic and those of the partitions that somebody leads: a group may have been where nothing is."""
    (topic,) = (await cluster.metadata([name])).topics
    led = {each.partition_index for each in topic.partitions if each.leader_id >= 0}
    return topic, [each for each in partitions if each in led]


async def _members(cluster: Cluster, name: str) -> tuple[str, list[dict[str, Any]]]:
    """The state of a group, and its members with what they read, of both kinds of consumer groups."""
    coordinator = await cluster.coordinator(name, GROUP)
    if ConsumerGroupDescribeRequest.api_key in (await cluster.broker(coordinator)).versions:
        answer = await cluster.ask(ConsumerGroupDescribeRequest(group_ids=[name]), broker=coordinator)
        (modern,) = answer.groups
        if modern.error_code == ErrorCode.NONE:
            return modern.group_state, [
                _member(
                    each.member_id,
                    each.client_id,
                    each.client_host,
                    {topic.topic_name: topic.partitions for topic in each.assignment.topic_partitions},
                )
                for each in modern.members
            ]
    answer = await cluster.ask(DescribeGroupsRequest(groups=[name]), broker=coordinator)
    (classic,) = answer.groups
    if classic.group_state == DEAD:
        raise failed(f"group {name}", ErrorCode.GROUP_ID_NOT_FOUND)
    check(f"group {name}", classic.error_code, classic.error_message)
    return classic.group_state, [
        _member(each.member_id, each.client_id, each.client_host, unpack(each.member_assignment))
        for each in classic.members
    ]


async def _history(cluster: Cluster, name: str) -> list[dict[str, Any]]:
    told = await read_history(cluster, await cluster.coordinator(name, GROUP), RESOURCE_GROUP, name, GROUP_HISTORY)
    return [{"group": name, **each} for each in told]


def _member(member_id: str, client_id: str, host: str, assigned: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    return {"member": member_id, "client": client_id, "host": host, "assigned": assigned}


def _member_row(member: Mapping[str, Any]) -> dict[str, Any]:
    assigned = [f"{topic}-{each}" for topic, partitions in member["assigned"].items() for each in sorted(partitions)]
    return {**member, "assigned": assigned}


async def _lag(cluster: Cluster, name: str, state: str, members: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    committed = await committed_offsets(cluster, await cluster.coordinator(name, GROUP), name)
    owners = {
        (topic, partition): member
        for member in members
        for topic, partitions in member["assigned"].items()
        for partition in partitions
    }
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted({*committed, *owners}):
        by_topic.setdefault(topic, []).append(partition)
    rows = []
    for topic, partitions in by_topic.items():
        ends = await read_offsets(cluster, *await _there(cluster, topic, partitions), LATEST)
        for partition in partitions:
            current, owner = committed.get((topic, partition)), owners.get((topic, partition), {})
            end = ends.get(partition)
            rows.append(
                {
                    "group": name,
                    "state": state,
                    "topic": topic,
                    "partition": partition,
                    "current offset": current,
                    "end offset": end,
                    "lag": None if current is None or end is None else end - current,
                    "member": owner.get("member"),
                    "host": owner.get("host"),
                    "client": owner.get("client"),
                }
            )
    return rows


def _by_topic(lag: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of partitions, which come topic by topic, added up; the lag of those that have one."""
    rows = []
    for topic, partitions in groupby(lag, lambda row: row["topic"]):
        some = list(partitions)
        known = [row["lag"] for row in some if row["lag"] is not None]
        rows.append(
            {
                "group": some[0]["group"],
                "state": some[0]["state"],
                "topic": topic,
                "partitions": len(some),
                "members": len({row["member"] for row in some} - {None}),
                "lag": sum(known) if known else None,
            }
        )
    return rows
