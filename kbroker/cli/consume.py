"""``kbroker consume``: the records of topics of any Kafka, without a group, printed as they come."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import click

from kbroker.cli.cluster_client import Cluster, CommandError, Topic, check, run
from kbroker.cli.output import client_options
from kbroker.cli.records import FormatError, Shown, printer
from kbroker.cli.topic import EARLIEST, LATEST, read_offsets
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.records.batch import batches, read_records

NAMES_UNTIL: Final = 12
"""From version 13 on Fetch speaks of topic ids."""
FETCH_BYTES: Final = 4 * 1024 * 1024
WAIT_MS: Final = 500
DECOMPRESSED_MAX: Final = 1 << 30
_DEFAULT: Final = "%v\\n"


class Range(NamedTuple):
    """Where to begin and before which offset to stop, in words of ``--offset``; None for no end."""

    begin: str
    end: str | None = None


@dataclass(slots=True)
class _Cursor:
    """One partition being read. ``end``: the offset at which it is done, None to go on."""

    topic: str
    partition: int
    leader: int
    offset: int
    end: int | None
    aborted: list[tuple[int, int]]


@click.command()
@click.argument("topics", nargs=-1, required=True)
@click.option(
    "--offset",
    "-o",
    default="start",
    metavar="WHERE",
    help="start, end, N, +N (from the start), -N (before the end), @TIME (ms or 2026-01-31T12:00), A:B. Default start.",
)
@click.option("--partition", "-p", "partitions", type=click.IntRange(0), multiple=True, help="May be repeated.")
@click.option("--num", "-n", type=click.IntRange(1), help="Stop after so many records.")
@click.option(
    "--format", "-f", "text", default=_DEFAULT, help="json, or letters as %k %v %o; default %v and a newline."
)
@click.option("--meta-only", is_flag=True, help="With json: sizes instead of keys and values.")
@click.option("--read-committed", is_flag=True, help="No records of open or aborted transactions.")
@click.option("--print-control-records", is_flag=True, help="Markers of transactions, too.")
@click.option("--follow", is_flag=True, help="Go on waiting for records at the end.")
@client_options
def consume(
    topics: tuple[str, ...],
    *,
    offset: str,
    partitions: tuple[int, ...],
    num: int | None,
    text: str,
    meta_only: bool,
    read_committed: bool,
    print_control_records: bool,
    follow: bool,
    bootstrap: str,
    timeout_ms: int,
) -> None:
    """Print the records of TOPICS up to their present end; with --follow, go on."""
    try:
        show = printer(text, meta_only=meta_only)
        where = parse_range(offset)
    except (FormatError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    out = sys.stdout.buffer

    def write(record: Shown) -> None:
        out.write(show(record))

    async def work(cluster: Cluster) -> int:
        cursors = []
        for name in topics:
            found = await cluster.topic(name)
            numbers = list(partitions) or [each.partition_index for each in found.partitions]
            cursors += await _cursors(cluster, found, numbers, where, follow=follow, committed=read_committed)
        reading = _Reading(cluster, cursors, write, num, committed=read_committed, control=print_control_records)
        return await reading.run()

    try:
        run(bootstrap, work, timeout_ms)
        out.flush()
    except KeyboardInterrupt:
        out.flush()
    except BrokenPipeError:
        # Who reads has had enough, as head does.
        sys.stderr.close()
        raise SystemExit(0) from None


def parse_range(text: str) -> Range:
    """``--offset``. Raises ``ValueError``."""
    begin, separator, end = text.partition(":") if not text.startswith("@") else _split_times(text)
    check_place(begin)
    if not separator:
        return Range(begin)
    check_place(end)
    return Range(begin, end)


def _split_times(text: str) -> tuple[str, str, str]:
    # A time has colons of its own: the second one begins with @ again.
    begin, separator, end = text.partition(":@")
    return begin, separator, f"@{end}" if separator else ""


def check_place(text: str) -> None:
    """One place in a partition, as ``--offset`` names it. Raises ``ValueError``."""
    if text.startswith("@"):
        _time_ms(text[1:])
    elif text not in ("start", "end") and not text.lstrip("+-").isdecimal():
        raise ValueError(f"{text} is no place: start, end, N, +N, -N or @TIME")


def _time_ms(text: str) -> int:
    if text.isdecimal():
        return int(text)
    from datetime import datetime

    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError:
        raise ValueError(f"@{text} is no time: milliseconds since 1970, or as 2026-01-31T12:00") from None


async def _cursors(
    cluster: Cluster, topic: Topic, partitions: list[int], where: Range, *, follow: bool, committed: bool
) -> list[_Cursor]:
    starts = await read_offsets(cluster, topic, partitions, EARLIEST)
    ends = await read_offsets(cluster, topic, partitions, LATEST, committed=committed)
    begins = await resolve_place(cluster, topic, partitions, where.begin, starts, ends)
    stops: dict[int, int | None] = {**ends} if not follow else dict.fromkeys(partitions)
    if where.end is not None:
        wanted = await resolve_place(cluster, topic, partitions, where.end, starts, ends)
        stops.update({each: stop if follow else min(stop, ends[each]) for each, stop in wanted.items()})
    leaders = {each.partition_index: each.leader_id for each in topic.partitions}
    return [
        _Cursor(
            topic.name or "", each, leaders[each], min(max(begins[each], starts[each]), ends[each]), stops[each], []
        )
        for each in partitions
    ]


async def resolve_place(
    cluster: Cluster, topic: Topic, partitions: list[int], place: str, starts: dict[int, int], ends: dict[int, int]
) -> dict[int, int]:
    """The offset of a place in each partition, whose first and end offsets are given."""
    if place.startswith("@"):
        found = await read_offsets(cluster, topic, partitions, _time_ms(place[1:]))
        return {each: offset if offset >= 0 else ends[each] for each, offset in found.items()}
    if place == "start":
        return starts
    if place == "end":
        return ends
    number = int(place)
    if place[0] == "+":
        return {each: starts[each] + number for each in partitions}
    if place[0] == "-":
        return {each: max(starts[each], ends[each] + number) for each in partitions}
    return dict.fromkeys(partitions, number)


class _Reading:
    """Fetches of all cursors until they are done, or enough was read."""

    def __init__(
        self,
        cluster: Cluster,
        cursors: list[_Cursor],
        write: Callable[[Shown], None],
        limit: int | None,
        *,
        committed: bool,
        control: bool,
    ) -> None:
        self.count = 0
        self._cluster = cluster
        self._cursors = cursors
        self._write = write
        self._limit = limit
        self._committed = committed
        self._control = control

    async def run(self) -> int:
        """The number of records written."""
        flushed = time.monotonic()
        while not self._is_enough():
            open_cursors = [each for each in self._cursors if each.end is None or each.offset < each.end]
            if not open_cursors:
                break
            by_leader: dict[int, list[_Cursor]] = {}
            for cursor in open_cursors:
                by_leader.setdefault(cursor.leader, []).append(cursor)
            await asyncio.gather(*(self._fetch(leader, some) for leader, some in by_leader.items()))
            if time.monotonic() - flushed > 0.2 or self._is_enough():
                sys.stdout.buffer.flush()
                flushed = time.monotonic()
        return self.count

    def _is_enough(self) -> bool:
        return self._limit is not None and self.count >= self._limit

    async def _fetch(self, leader: int, cursors: list[_Cursor]) -> None:
        topics: dict[str, Any] = {}
        for each in cursors:
            topic = topics.setdefault(each.topic, FetchRequest.FetchTopic(topic=each.topic, partitions=[]))
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=each.partition, fetch_offset=each.offset, partition_max_bytes=FETCH_BYTES
                )
            )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES * 4,
            isolation_level=int(self._committed),
            session_epoch=-1,
            topics=list(topics.values()),
        )
        answer = await self._cluster.ask(request, broker=leader, at_most=NAMES_UNTIL)
        check("fetch", answer.error_code)
        known = {(each.topic, each.partition): each for each in cursors}
        for topic in answer.responses:
            for each in topic.partitions:
                cursor = known[topic.topic, each.partition_index]
                if each.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    await self._find_leader(cursor)
                    continue
                check(f"{cursor.topic}-{cursor.partition} at {cursor.offset}", each.error_code)
                cursor.aborted = [(a.producer_id, a.first_offset) for a in each.aborted_transactions or ()]
                self._take(cursor, each.records)

    async def _find_leader(self, cursor: _Cursor) -> None:
        topic = await self._cluster.topic(cursor.topic)
        leader = next((p.leader_id for p in topic.partitions if p.partition_index == cursor.partition), -1)
        if leader < 0:
            raise CommandError(f"{cursor.topic}-{cursor.partition} has no leader", "kbroker cluster health")
        cursor.leader = leader

    def _take(self, cursor: _Cursor, data: Any) -> None:
        aborted: set[int] = set()
        waiting = sorted(cursor.aborted, key=lambda pair: pair[1])
        for header, batch in batches(data or b""):
            while waiting and waiting[0][1] <= header.last_offset:
                aborted.add(waiting.pop(0)[0])
            is_aborted = self._committed and header.is_transactional and header.producer_id in aborted
            if header.is_control:
                aborted.discard(header.producer_id)
            if (header.is_control and not self._control) or (is_aborted and not header.is_control):
                cursor.offset = header.next_offset
                continue
            for record in read_records(batch, max_decompressed=DECOMPRESSED_MAX):
                if record.offset < cursor.offset:
                    continue
                if self._is_enough() or (cursor.end is not None and record.offset >= cursor.end):
                    return
                self._write(
                    Shown(
                        cursor.topic,
                        cursor.partition,
                        record.offset,
                        record.timestamp,
                        record.key,
                        record.value,
                        record.headers,
                    )
                )
                self.count += 1
                cursor.offset = record.offset + 1
            cursor.offset = max(cursor.offset, header.next_offset)
