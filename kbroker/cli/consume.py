"""``kbroker consume``: the records of topics of any Kafka, printed as they come; alone, or as a member of a group."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import click

from kbroker.cli.client_settings import SettingOption
from kbroker.cli.cluster_client import Cluster, CommandError, Topic, check, run
from kbroker.cli.membership import Assigned, Member
from kbroker.cli.output import client_options, is_file, progress
from kbroker.cli.records import JSON, FormatError, Shown, printer
from kbroker.cli.topic import EARLIEST, LATEST, read_offsets
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.records.batch import batches, read_records

NAMES_UNTIL: Final = 12
"""From version 13 on Fetch speaks of topic ids."""
DECOMPRESSED_MAX: Final = 1 << 30
_DEFAULT: Final = "%v\\n"


class Range(NamedTuple):
    """Where to begin and before which offset to stop, in words of ``--offset``; None for no end."""

    begin: str
    end: str | None = None


@dataclass(slots=True)
class _Cursor:
    """One partition being read. ``first``: where it begins; ``end``: where it is done, None to go on."""

    topic: str
    partition: int
    leader: int
    first: int
    offset: int
    end: int | None
    aborted: list[tuple[int, int]]
    committed: int | None = None


@click.command()
@click.argument("topics", nargs=-1, required=True)
@click.option(
    "--offset",
    "-o",
    cls=SettingOption,
    setting="auto.offset.reset",
    translate={"earliest": "start", "latest": "end"}.__getitem__,
    metavar="WHERE",
    help="start, end, N, +N (from the start), -N (before the end), @TIME (ms or 2026-01-31T12:00), A:B. Default start.",
)
@click.option("--partition", "-p", "partitions", type=click.IntRange(0), multiple=True, help="May be repeated.")
@click.option(
    "--group",
    "-g",
    cls=SettingOption,
    setting="group.id",
    help="Share the topics with the group's members; begin where it is, commit what was read.",
)
@click.option("--num", "-n", type=click.IntRange(1), help="Stop after so many records.")
@click.option(
    "--format", "-f", "text", default=_DEFAULT, help="json, or letters as %k %v %o; default %v and a newline."
)
@click.option("--meta-only", is_flag=True, help="With json: sizes instead of keys and values.")
@click.option(
    "--read-committed",
    cls=SettingOption,
    setting="isolation.level",
    translate=lambda level: level == "read_committed",
    is_flag=True,
    help="No records of open or aborted transactions.",
)
@click.option("--print-control-records", is_flag=True, help="Markers of transactions, too.")
@click.option("--follow", is_flag=True, help="Go on waiting for records at the end.")
@client_options
def consume(
    topics: tuple[str, ...],
    *,
    offset: str,
    partitions: tuple[int, ...],
    group: str | None,
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
    if group is not None and (partitions or where.end is not None):
        raise click.UsageError(
            "a group gives the partitions and goes to their end: no --partition, no A:B with --group"
        )
    if meta_only and text != JSON:
        raise click.UsageError("--meta-only goes with --format json")
    out = sys.stdout.buffer

    async def work(cluster: Cluster, advance: Callable[[int], None]) -> int:
        def write(record: Shown) -> None:
            out.write(show(record))
            advance(1)

        reading = _Reading(cluster, write, num, committed=read_committed, control=print_control_records)

        async def place(assigned: Assigned) -> list[_Cursor]:
            cursors = []
            for name, numbers in assigned.items():
                found = await cluster.topic(name)
                some = numbers or [each.partition_index for each in found.partitions]
                cursors += await _cursors(cluster, found, some, where, follow=follow, committed=read_committed)
            return cursors

        if group is not None:
            for name in topics:
                await cluster.topic(name)  # An error in a name is to be told before anybody joins.
            await _read_in_group(Member(cluster, group, topics), reading, place, follow=follow)
        else:
            reading.cursors = await place({name: list(partitions) for name in topics})
            await reading.run()
        return reading.count

    try:
        # Who reads from a pipe may draw on the same terminal.
        with progress("records", wanted=is_file(out)) as advance:
            run(bootstrap, partial(work, advance=advance), timeout_ms)
        out.flush()
    except KeyboardInterrupt:
        out.flush()


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
            topic.name or "",
            each,
            leaders[each],
            starts[each],
            min(max(begins[each], starts[each]), ends[each]),
            stops[each],
            [],
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


async def _read_in_group(
    member: Member, reading: _Reading, place: Callable[[Assigned], Awaitable[list[_Cursor]]], *, follow: bool
) -> None:
    """Read what the group gives, and commit what is written out, until all is read or enough."""
    commit_s = reading.settings.number("auto.commit.interval.ms") / 1000
    await member.start()
    try:
        while True:
            assigned = await member.join()
            beating = asyncio.create_task(member.beat())
            try:
                reading.cursors = await place(assigned)
                await _go_on(member, reading.cursors)
                if await _read_share(member, reading, commit_s, follow=follow):
                    return
            finally:
                beating.cancel()
                await asyncio.gather(beating, return_exceptions=True)
    finally:
        await member.leave()


async def _go_on(member: Member, cursors: list[_Cursor]) -> None:
    """Begin where the group is; where it never was, and where its records are gone, the cursors are right already."""
    committed = await member.committed()
    for cursor in cursors:
        cursor.committed = committed.get((cursor.topic, cursor.partition))
        if cursor.committed is not None:
            cursor.offset = max(cursor.committed, cursor.first)


async def _read_share(member: Member, reading: _Reading, commit_s: float, *, follow: bool) -> bool:
    """Read until the group rebalances (False) or this member is done (True); commit every ``commit_s``."""
    committed_s = time.monotonic()

    async def commit() -> None:
        sys.stdout.buffer.flush()
        moved = [each for each in reading.cursors if each.offset != each.committed]
        await member.commit({(each.topic, each.partition): each.offset for each in moved})
        for each in moved:
            each.committed = each.offset

    async def between() -> bool:
        nonlocal committed_s
        if time.monotonic() - committed_s > commit_s:
            await commit()
            committed_s = time.monotonic()
        return not member.must_rejoin.is_set()

    try:
        await reading.run(between)
        if follow and not reading.is_enough:
            await member.must_rejoin.wait()
    except asyncio.CancelledError:  # Ctrl-C
        await commit()
        raise
    is_done = reading.is_enough or not member.must_rejoin.is_set()
    await commit()
    return is_done


class _Reading:
    """Fetches of all cursors until they are done, or enough was read."""

    def __init__(
        self,
        cluster: Cluster,
        write: Callable[[Shown], None],
        limit: int | None,
        *,
        committed: bool,
        control: bool,
    ) -> None:
        self.count = 0
        self.cursors: list[_Cursor] = []
        self.settings = cluster.settings
        self._cluster = cluster
        self._write = write
        self._limit = limit
        self._committed = committed
        self._control = control

    async def run(self, between: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Read until all is read or enough, or ``between``, asked after each round, says no."""
        flushed = time.monotonic()
        while not self.is_enough:
            open_cursors = [each for each in self.cursors if each.end is None or each.offset < each.end]
            if not open_cursors:
                break
            by_leader: dict[int, list[_Cursor]] = {}
            for cursor in open_cursors:
                by_leader.setdefault(cursor.leader, []).append(cursor)
            await asyncio.gather(*(self._fetch(leader, some) for leader, some in by_leader.items()))
            if time.monotonic() - flushed > 0.2 or self.is_enough:
                sys.stdout.buffer.flush()
                flushed = time.monotonic()
            if between is not None and not await between():
                break

    @property
    def is_enough(self) -> bool:
        return self._limit is not None and self.count >= self._limit

    async def _fetch(self, leader: int, cursors: list[_Cursor]) -> None:
        number = self.settings.number
        most = number("max.partition.fetch.bytes")
        topics: dict[str, Any] = {}
        for each in cursors:
            topic = topics.setdefault(each.topic, FetchRequest.FetchTopic(topic=each.topic, partitions=[]))
            topic.partitions.append(
                FetchRequest.FetchPartition(
                    partition=each.partition, fetch_offset=each.offset, partition_max_bytes=most
                )
            )
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=number("fetch.max.wait.ms"),
            min_bytes=number("fetch.min.bytes"),
            max_bytes=number("fetch.max.bytes"),
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
                if self.is_enough or (cursor.end is not None and record.offset >= cursor.end):
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
