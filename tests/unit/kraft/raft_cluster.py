"""A seeded cluster of Raft cores in memory: a network that drops, delays, repeats and splits, nodes that crash.

After every step the invariants are checked; what breaks one names the seed.
"""

from __future__ import annotations

import copy
from random import Random

from kbroker.kraft.raft.core import Raft, RaftConfig
from kbroker.kraft.raft.log_state import LogState
from kbroker.kraft.raft.messages import ElectionState, Extent, FetchResponse, Message, Parcel

Entry = tuple[int, str]


class Node:
    """One machine: what survives a crash (election state, flushed entries) and the core that runs on it."""

    def __init__(self, node_id: int, voters: tuple[int, ...], random: Random, now: int) -> None:
        self.node_id = node_id
        self.voters = voters
        self.random = random
        self.election = ElectionState()
        self.entries: list[Entry] = []
        self.flushed = 0
        self.alive = False
        self.highest_epoch = 0
        self.start(now)

    def start(self, now: int) -> None:
        state = LogState()
        for offset, (epoch, _) in enumerate(self.entries):
            state.append(epoch, offset + 1)
        self.raft = Raft(self.node_id, self.voters, self.election, state, self.random, now, RaftConfig())
        self.alive = True

    def crash(self) -> None:
        del self.entries[self.flushed :]
        self.alive = False


class Cluster:
    """Nodes 1 to ``size``; those above ``voters`` are observers."""

    def __init__(self, seed: int, size: int, voters: int | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 0
        ids = tuple(range(1, (voters or size) + 1))
        self.nodes = {each: Node(each, ids, self.random, 0) for each in range(1, size + 1)}
        self.in_flight: list[tuple[int, int, int, Message]] = []
        self.cut: set[tuple[int, int]] = set()
        self.drop_chance = 0.0
        self.leaders: dict[int, int] = {}
        self.committed: list[Entry] = []
        self.flush_chance = 1.0
        self.counter = 0

    def leader(self) -> Node | None:
        leaders = [each for each in self.nodes.values() if each.alive and each.raft.is_leader]
        return max(leaders, key=lambda each: each.raft.epoch, default=None)

    def run(self, duration_ms: int) -> None:
        end = self.now + duration_ms
        while self.now < end:
            self.now += 10
            self.round()

    def round(self) -> None:
        due = [each for each in self.in_flight if each[0] <= self.now]
        self.in_flight = [each for each in self.in_flight if each[0] > self.now]
        for _, source, target, message in due:
            node = self.nodes[target]
            if node.alive and (source, target) not in self.cut:
                self.carry_out(node, node.raft.step(message, self.now))
        for node in self.nodes.values():
            wake_ms = node.raft.wake_ms if node.alive else None
            if wake_ms is not None and wake_ms <= self.now:
                self.carry_out(node, node.raft.tick(self.now))
            if node.alive and node.flushed < len(node.entries) and self.random.random() < self.flush_chance:
                node.flushed = len(node.entries)
                self.carry_out(node, node.raft.flushed(node.flushed, self.now))

    def propose(self) -> None:
        node = self.leader()
        if node is not None:
            self.counter += 1
            self.write(node, f"value-{self.counter}")

    def write(self, node: Node, value: str) -> None:
        node.entries.append((node.raft.epoch, value))
        node.raft.appended(len(node.entries))

    def carry_out(self, node: Node, parcel: Parcel) -> None:
        if parcel.persist is not None:
            node.election = parcel.persist
        if parcel.truncate_to is not None:
            del node.entries[parcel.truncate_to :]
            node.flushed = min(node.flushed, parcel.truncate_to)
        for records in parcel.append:
            assert isinstance(records, list)
            node.entries.extend(records)
            node.flushed = len(node.entries)
        if parcel.leader_change is not None:
            self.write(node, f"leader of {parcel.leader_change.epoch}")
        for target, message in parcel.send:
            self.send(node, target, message)
        self.check(node)

    def send(self, node: Node, target: int, message: Message) -> None:
        if isinstance(message, FetchResponse) and message.read_from >= 0:
            message = copy.copy(message)
            entries = node.entries[message.read_from : node.flushed][:5]
            message.records = entries
            message.extents = tuple(Extent(epoch, message.read_from + i + 1) for i, (epoch, _) in enumerate(entries))
        copies = 2 if self.random.random() < self.drop_chance / 2 else 1
        for _ in range(copies):
            if self.random.random() >= self.drop_chance:
                delay = self.random.randrange(1, 40) if self.drop_chance else 5
                self.in_flight.append((self.now + delay, node.node_id, target, message))

    def check(self, node: Node) -> None:
        where = f"seed {self.seed}, {self.now} ms, node {node.node_id}"
        raft = node.raft
        assert raft.epoch >= node.highest_epoch, f"{where}: the epoch fell"
        node.highest_epoch = raft.epoch
        assert node.election.epoch == raft.epoch or raft.epoch == raft.log.last_epoch, f"{where}: epoch not remembered"
        assert raft.log.end_offset == len(node.entries), f"{where}: the core lost sight of the log"
        if raft.is_leader:
            if raft.epoch not in self.leaders and raft.epoch > max(self.leaders, default=0):
                missing = node.entries[: len(self.committed)] != self.committed
                assert not missing, f"{where}: the new leader lacks committed entries"
            other = self.leaders.setdefault(raft.epoch, node.node_id)
            assert other == node.node_id, f"{where}: epoch {raft.epoch} has two leaders"
        committed = node.entries[: max(raft.high_watermark, 0)]
        assert len(committed) == max(raft.high_watermark, 0), f"{where}: the high watermark is beyond the log"
        shared = min(len(committed), len(self.committed))
        assert committed[:shared] == self.committed[:shared], f"{where}: a committed entry changed"
        self.committed.extend(committed[shared:])

    def check_logs_match(self) -> None:
        """Two logs that share an entry's offset and epoch share everything before it."""
        nodes = list(self.nodes.values())
        for first in nodes:
            for second in nodes:
                for offset in reversed(range(min(len(first.entries), len(second.entries)))):
                    if first.entries[offset][0] == second.entries[offset][0]:
                        assert first.entries[: offset + 1] == second.entries[: offset + 1], f"seed {self.seed}"
                        break
