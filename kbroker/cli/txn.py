"""``kbroker txn``: which transactions there are in any Kafka, what they hold up, ending those that hang (KIP-664)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import click

from kbroker.cli import CommandGroup
from kbroker.cli.cluster_client import TRANSACTION, Cluster, CommandError, Topic, check, confirm, run
from kbroker.cli.histories import local_time, read_history
from kbroker.cli.output import client_options, format_option, show
from kbroker.handlers.histories import TRANSACTION_HISTORY_PREFIX
from kbroker.kraft.image import RESOURCE_BROKER
from kbroker.protocol.messages.describe_producers import DescribeProducersRequest
from kbroker.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kbroker.protocol.messages.list_transactions import ListTransactionsRequest
from kbroker.protocol.messages.write_txn_markers import WriteTxnMarkersRequest

LONGEST_S: Final = 20 * 60
"""What Kafka's own tool takes for hanging: ``transaction.max.timeout.ms``'s default, and five minutes more."""
FIND: Final = "kbroker txn find-hanging --longer-than 0"


class OpenTransaction(NamedTuple):
    """A transaction as one partition sees it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_ms: int


@click.group(cls=CommandGroup)
def txn() -> None:
    """List, describe and abort transactions, find those that hang."""


@txn.command("list")
@click.option("--state", "-s", "states", multiple=True, help="Only in this state, as Ongoing. May be repeated.")
@click.option("--producer-id", "producer_ids", type=int, multiple=True, help="Only of this producer. May be repeated.")
@click.option("--longer-than", type=click.FloatRange(min=0), metavar="SECONDS", help="Only those begun so long ago.")
@click.option("--pattern", metavar="REGEX", help="Only ids that match as a whole.")
@format_option
@client_options
def list_command(
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: float | None,
    pattern: str | None,
    shape: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """List transactional ids with their states."""
    request = ListTransactionsRequest(state_filters=list(states), producer_id_filters=list(producer_ids))
    if longer_than is not None:
        request.duration_filter = int(longer_than * 1000)
    if pattern is not None:
        request.transactional_id_pattern = pattern

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        return [
            {
                "transactional id": each.transactional_id,
                "state": each.transaction_state,
                "producer id": each.producer_id,
                "coordinator": broker,
            }
            for broker, each in await _listed(cluster, request)
        ]

    show(shape, run(bootstrap, work, timeout_ms), empty="no transactional ids")


@txn.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--history", is_flag=True, help="How its producers were fenced or timed out, instead; only kbroker tells."
)
@format_option
@client_options
def describe(names: tuple[str, ...], *, history: bool, shape: str, bootstrap: str, timeout_ms: int) -> None:
    """Show the state of transactional ids, since when they are open and in which partitions."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows = []
        for name in names:
            coordinator = await cluster.coordinator(name, TRANSACTION)
            row = await _described(cluster, coordinator, name)
            if not history:
                rows.append(row)
                continue
            key = f"{TRANSACTION_HISTORY_PREFIX}{name}"
            for each in await read_history(cluster, coordinator, RESOURCE_BROKER, str(coordinator), key):
                words = {word.replace("_", " "): value for word, value in each.items()}
                rows.append({"transactional id": name, **words})
        return rows

    show(shape, run(bootstrap, work, timeout_ms), empty="its coordinator saw no producer fenced or timed out")


@txn.command()
@click.argument("topic")
@click.option("--partition", "-p", type=click.IntRange(0), required=True, help="The partition that it holds up.")
@click.option("--start-offset", type=click.IntRange(0), required=True, help="Its first offset there.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@client_options
def abort(topic: str, *, partition: int, start_offset: int, yes: bool, bootstrap: str, timeout_ms: int) -> None:
    """Abort a hanging transaction in one partition, as find-hanging shows it."""

    async def find(cluster: Cluster) -> OpenTransaction:
        for each in await _open_transactions(cluster, await cluster.topic(topic), partition):
            if each.start_offset == start_offset:
                return each
        raise CommandError(f"no open transaction of {topic}-{partition} begins at {start_offset}", FIND)

    async def end(cluster: Cluster) -> None:
        await _abort(cluster, await find(cluster))

    found = run(bootstrap, find, timeout_ms)
    if not yes:
        text = f"Abort what producer id {found.producer_id} wrote to {topic}-{partition} from {start_offset} on?"
        confirm(text)
    run(bootstrap, end, timeout_ms)
    click.echo(f"aborted {topic}-{partition} from {start_offset}")


@txn.command("find-hanging")
@click.option("--topic", "-t", "topics", multiple=True, help="Only in this topic; in all otherwise. May be repeated.")
@click.option("--partition", "-p", type=click.IntRange(0), help="Only in this partition of the topics.")
@click.option(
    "--longer-than",
    type=click.FloatRange(min=0),
    default=LONGEST_S,
    metavar="SECONDS",
    help=f"Only without a record for so long. Default {LONGEST_S}.",
)
@format_option
@client_options
def find_hanging(
    *,
    topics: tuple[str, ...],
    partition: int | None,
    longer_than: float,
    shape: str,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Find transactions open in a partition that no coordinator will end."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        named = (
            [await cluster.topic(name) for name in topics] if topics else (await cluster.metadata(topics=None)).topics
        )
        before_ms = time.time() * 1000 - longer_than * 1000
        suspects = [
            each
            for topic in named
            for each in await _open_transactions(cluster, topic, partition)
            if each.last_ms <= before_ms
        ]
        owners = await _owners(cluster, suspects)
        return [_hanging_row(each) for each in suspects if not _is_known(each, owners.get(each.producer_id))]

    show(shape, run(bootstrap, work, timeout_ms), empty="nothing hangs")


async def _listed(cluster: Cluster, request: ListTransactionsRequest) -> list[tuple[int, Any]]:
    """What every coordinator lists, by id, with the broker that said so."""
    found = []
    for broker in (await cluster.metadata()).brokers:
        answer = await cluster.ask(request, broker=broker.node_id)
        check(f"broker {broker.node_id}", answer.error_code)
        if answer.unknown_state_filters:
            raise CommandError(
                f"{', '.join(answer.unknown_state_filters)} is no state",
                "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort",
            )
        found += [(broker.node_id, each) for each in answer.transaction_states]
    return sorted(found, key=lambda pair: str(pair[1].transactional_id))


async def _described(cluster: Cluster, coordinator: int, name: str) -> dict[str, Any]:
    answer = await cluster.ask(DescribeTransactionsRequest(transactional_ids=[name]), broker=coordinator)
    (state,) = answer.transaction_states
    check(f"transactional id {name}", state.error_code)
    started = state.transaction_start_time_ms
    return {
        "transactional id": name,
        "state": state.transaction_state,
        "producer id": state.producer_id,
        "producer epoch": state.producer_epoch,
        "timeout ms": state.transaction_timeout_ms,
        "started": local_time(started) if started >= 0 else None,
        "open s": round(time.time() - started / 1000, 1) if started >= 0 and state.topics else None,
        "partitions": [f"{topic.topic}-{each}" for topic in state.topics for each in sorted(topic.partitions)],
        "coordinator": coordinator,
    }


async def _open_transactions(cluster: Cluster, topic: Topic, partition: int | None) -> list[OpenTransaction]:
    numbers = [each.partition_index for each in topic.partitions] if partition is None else [partition]

    def request(some: list[int]) -> DescribeProducersRequest:
        wanted = DescribeProducersRequest.TopicRequest(name=topic.name or "", partition_indexes=some)
        return DescribeProducersRequest(topics=[wanted])

    found = []
    for answer in await cluster.ask_leaders(topic, numbers, request):
        for told in answer.topics:
            for place in told.partitions:
                check(f"{told.name}-{place.partition_index}", place.error_code, place.error_message)
                found += [
                    OpenTransaction(
                        told.name,
                        place.partition_index,
                        each.producer_id,
                        each.producer_epoch,
                        each.coordinator_epoch,
                        each.current_txn_start_offset,
                        each.last_timestamp,
                    )
                    for each in place.active_producers
                    if each.current_txn_start_offset >= 0
                ]
    return found


async def _owners(cluster: Cluster, suspects: list[OpenTransaction]) -> dict[int, Mapping[str, Any]]:
    """The described transactional ids behind the producers; without an entry for one that no coordinator knows."""
    if not suspects:
        return {}
    wanted = ListTransactionsRequest(producer_id_filters=sorted({each.producer_id for each in suspects}))
    return {
        each.producer_id: await _described(cluster, broker, each.transactional_id)
        for broker, each in await _listed(cluster, wanted)
    }


def _is_known(suspect: OpenTransaction, owner: Mapping[str, Any] | None) -> bool:
    """Whether a coordinator has the partition in its transaction, and so will end it."""
    return owner is not None and f"{suspect.topic}-{suspect.partition}" in owner["partitions"]


def _hanging_row(each: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "start offset": each.start_offset,
        "producer id": each.producer_id,
        "producer epoch": each.producer_epoch,
        "coordinator epoch": each.coordinator_epoch,
        "last record": local_time(each.last_ms),
    }


async def _abort(cluster: Cluster, found: OpenTransaction) -> None:
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        # A transaction whose coordinator never wrote here has none yet.
        coordinator_epoch=max(found.coordinator_epoch, 0),
        transaction_result=False,
        topics=[WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=found.topic, partition_indexes=[found.partition])],
    )
    topic = await cluster.topic(found.topic)
    answers = await cluster.ask_leaders(topic, [found.partition], lambda _: WriteTxnMarkersRequest(markers=[marker]))
    for answer in answers:
        for written in answer.markers:
            for told in written.topics:
                for place in told.partitions:
                    check(f"{told.name}-{place.partition_index}", place.error_code)
