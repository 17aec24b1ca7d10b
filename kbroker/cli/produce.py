"""``kbroker produce``: lines of standard input or files become records of a topic of any Kafka."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, BinaryIO, Final

import click

from kbroker.cli.client_settings import SETTINGS, SettingOption
from kbroker.cli.cluster_client import Cluster, CommandError, check, run
from kbroker.cli.lines import arriving
from kbroker.cli.output import client_options, parse_headers, progress
from kbroker.cli.records import FormatError, Given, reader
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.partitioner import partition_of
from kbroker.protocol.records.batch import Record, build_batch
from kbroker.protocol.records.compression import Compression

BATCH_RECORDS: Final = 1000
NAMES_UNTIL: Final = 12
"""From version 13 on Produce speaks of topic ids."""
ACKS: Final = {"all": -1, "1": 1, "0": 0}


@click.command()
@click.argument("topic")
@click.argument("files", nargs=-1, type=click.File("rb"))
@click.option("--key", "-k", help="The key of every record.")
@click.option("--value", "-v", "values", multiple=True, help="A record's value, instead of input. May be repeated.")
@click.option("--partition", "-p", type=click.IntRange(0), help="Where to put the records; by their key otherwise.")
@click.option(
    "--header", "-H", "headers", multiple=True, metavar="NAME=VALUE", help="A header, also NAME:VALUE. May be repeated."
)
@click.option(
    "--compression",
    "-z",
    cls=SettingOption,
    setting="compression.type",
    type=SETTINGS["compression.type"].type,
    help="How to compress batches.",
)
@click.option(
    "--input",
    "-f",
    "text",
    default="%v",
    metavar="FORMAT",
    help="What a line holds: %v, %k<separator>%v or json. Default %v.",
)
@click.option("--tombstone", "-Z", is_flag=True, help="Empty values become null.")
@click.option(
    "--acks",
    cls=SettingOption,
    setting="acks",
    translate=lambda acks: "all" if acks == "-1" else acks,
    type=click.Choice(list(ACKS)),
    help="Who must have written; 0 hears of no error. Default all.",
)
@click.option("--quiet", "-q", is_flag=True, help="Do not say how many records were written.")
@client_options
def produce(
    topic: str,
    files: tuple[BinaryIO, ...],
    *,
    key: str | None,
    values: tuple[str, ...],
    partition: int | None,
    headers: tuple[str, ...],
    compression: str,
    text: str,
    tombstone: bool,
    acks: str,
    quiet: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Write a record for each line of FILES, or of standard input."""
    try:
        parse = reader(text)
    except FormatError as error:
        raise click.UsageError(str(error)) from error
    own_headers = [(name, value.encode()) for name, value in parse_headers(headers)]

    def record_of(line: bytes) -> Given:
        found = Given(None, line, []) if values else parse(line)
        return found._replace(
            key=key.encode() if key is not None else found.key,
            value=None if tombstone and not found.value else found.value,
            partition=partition if partition is not None else found.partition,
            headers=[*found.headers, *own_headers],
        )

    async def work(cluster: Cluster) -> int:
        sender = _Sender(cluster, topic, Compression[compression.upper()], ACKS[acks], timeout_ms)
        await sender.start()
        is_typed = not files and sys.stdin.isatty()
        number = 0
        with progress("records", wanted=not (values or is_typed)) as advance:
            async for lines in _at_once(values) if values else arriving(files or (sys.stdin.buffer,)):
                if not lines:
                    await sender.flush()
                for line in lines:
                    number += 1
                    try:
                        record = record_of(line)
                    except FormatError as error:
                        await sender.finish()
                        written = f" (the {number - 1} before it are written)" if number > 1 else ""
                        raise CommandError(
                            f"line {number}: {error}{written}", "-f with the format of the input"
                        ) from error
                    await sender.add(record)
                advance(len(lines))
            await sender.finish()
        return sender.count

    count = run(bootstrap, work, timeout_ms)
    if not quiet:
        click.echo(f"{count} record{'' if count == 1 else 's'} written to {topic}", err=True)


async def _at_once(values: Sequence[str]) -> AsyncIterator[list[bytes]]:
    yield [each.encode() for each in values]


class _Sender:
    """Records of one topic, in batches of one partition each. ``add`` each, ``flush`` when no more come for now.

    ``finish`` at the end.
    """

    def __init__(self, cluster: Cluster, topic: str, compression: Compression, acks: int, timeout_ms: int) -> None:
        self.count = 0
        self._cluster = cluster
        self._topic = topic
        self._compression = compression
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._batch_bytes = cluster.settings.number("batch.size")
        self._leaders: dict[int, int] = {}
        self._waiting: dict[int, list[Record]] = {}
        self._sizes: dict[int, int] = {}
        self._sticky = 0

    async def start(self) -> None:
        found = await self._cluster.topic(self._topic)
        self._leaders = {each.partition_index: each.leader_id for each in found.partitions}
        self._sticky = time.time_ns() % len(self._leaders)

    async def add(self, given: Given) -> None:
        partition = given.partition
        if partition is None:
            partition = self._sticky if given.key is None else partition_of(given.key, len(self._leaders))
        if partition not in self._leaders:
            last = len(self._leaders) - 1
            raise CommandError(f"topic {self._topic} has no partition {partition}", f"--partition 0 to {last}")
        batch = self._waiting.setdefault(partition, [])
        timestamp = time.time_ns() // 1_000_000 if given.timestamp is None else given.timestamp
        batch.append(Record(len(batch), timestamp, given.key, given.value, given.headers))
        size = self._sizes.get(partition, 0) + len(given.key or b"") + len(given.value or b"")
        self._sizes[partition] = size
        if len(batch) >= BATCH_RECORDS or size >= self._batch_bytes:
            await self._send(partition)
            self._sticky = (self._sticky + 1) % len(self._leaders)

    async def flush(self) -> None:
        """Send what waits for more."""
        for partition in list(self._waiting):
            await self._send(partition)

    async def finish(self) -> None:
        """Return when everything has arrived."""
        await self.flush()
        if self._acks == 0:
            # Requests are taken in their order: when this one is answered, what went before has arrived.
            for leader in set(self._leaders.values()):
                await self._cluster.ask(MetadataRequest(topics=[]), broker=leader)

    async def _send(self, partition: int) -> None:
        records = self._waiting.pop(partition)
        self._sizes.pop(partition, None)
        data = ProduceRequest.PartitionProduceData(
            index=partition, records=build_batch(records, compression=self._compression)
        )
        request = ProduceRequest(
            acks=self._acks,
            timeout_ms=self._timeout_ms,
            topic_data=[ProduceRequest.TopicProduceData(name=self._topic, partition_data=[data])],
        )
        if self._acks == 0:
            (await self._cluster.broker(self._leaders[partition])).send_only(request, at_most=NAMES_UNTIL)
            self.count += len(records)
            return
        answer: Any = await self._cluster.ask(request, broker=self._leaders[partition], at_most=NAMES_UNTIL)
        written = answer.responses[0].partition_responses[0]
        check(f"{self._topic}-{partition}", written.error_code, written.error_message)
        self.count += len(records)
