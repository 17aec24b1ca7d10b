"""Where the replicas of new partitions go: Kafka's ``StripedReplicaPlacer``.

Replicas are striped over racks, and within a rack over its brokers, from a random start. The first replica (the leader)
is never on a fenced broker; fenced brokers are used only when a rack has no other left.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableSequence
from typing import Any, NamedTuple, Protocol


class Chance(Protocol):
    """The part of ``random.Random`` that placement needs."""

    def randrange(self, stop: int, /) -> int: ...

    def shuffle(self, x: MutableSequence[Any], /) -> None: ...


class UsableBroker(NamedTuple):
    id: int
    rack: str | None
    fenced: bool


class InvalidReplicationFactorError(Exception):
    """The replicas cannot be placed; the text is Kafka's."""


class _BrokerList:
    """Brokers in a circle; each round (one per partition) starts one further."""

    __slots__ = ("_brokers", "_index", "_offset", "_round")

    def __init__(self, brokers: list[int], chance: Chance) -> None:
        self._brokers = sorted(brokers)
        self._offset = chance.randrange(len(brokers)) if brokers else 0
        self._index = 0
        self._round = 0

    def shuffle(self, chance: Chance) -> None:
        chance.shuffle(self._brokers)

    def next(self, round_: int) -> int | None:
        if not self._brokers:
            return None
        if self._round != round_:
            self._round, self._index = round_, 0
            self._offset = (self._offset + 1) % len(self._brokers)
        if self._index >= len(self._brokers):
            return None
        broker = self._brokers[(self._index + self._offset) % len(self._brokers)]
        self._index += 1
        return broker


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: list[UsableBroker], chance: Chance) -> None:
        self.fenced = _BrokerList([each.id for each in brokers if each.fenced], chance)
        self.unfenced = _BrokerList([each.id for each in brokers if not each.fenced], chance)

    def next(self, round_: int) -> int | None:
        broker = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker is None else broker


class _RackList:
    def __init__(self, brokers: Iterable[UsableBroker], chance: Chance) -> None:
        by_rack: dict[str | None, list[UsableBroker]] = {}
        for broker in brokers:
            by_rack.setdefault(broker.rack, []).append(broker)
        self.total = sum(len(each) for each in by_rack.values())
        self.unfenced = sum(not broker.fenced for each in by_rack.values() for broker in each)
        names = sorted(by_rack, key=lambda name: (name is not None, name or ""))
        self._racks = [_Rack(by_rack[name], chance) for name in names]
        self._chance = chance
        self._round = 0
        self._offset = chance.randrange(len(names)) if names else 0

    def place(self, replicas: int) -> list[int]:
        if self._round == self.unfenced and self.unfenced > 1:
            # Every start was used: shuffle, or the same assignments would come again.
            self._chance.shuffle(self._racks)
            for rack in self._racks:
                rack.fenced.shuffle(self._chance)
                rack.unfenced.shuffle(self._chance)
            self._round = 0
        if self._offset == len(self._racks):
            self._offset = 0
        first = self._offset
        leader = self._racks[first].unfenced.next(self._round)
        while leader is None:
            first = (first + 1) % len(self._racks)
            leader = self._racks[first].unfenced.next(self._round)
        brokers = [leader]
        index = self._offset
        skip: int | None = first
        while len(brokers) < replicas:
            if index == skip:
                # The leader's rack had its turn.
                skip = None
            else:
                broker = self._racks[index].next(self._round)
                if broker is not None:
                    brokers.append(broker)
            index = (index + 1) % len(self._racks)
        self._round += 1
        self._offset += 1
        return brokers


def place(brokers: Iterable[UsableBroker], partitions: int, replicas: int, chance: Chance) -> list[list[int]]:
    """The replicas of each partition, the leader first. Raises ``InvalidReplicationFactorError``."""
    racks = _RackList(brokers, chance)
    if replicas <= 0:
        raise InvalidReplicationFactorError(
            f"Invalid replication factor {replicas}: the replication factor must be positive."
        )
    if racks.unfenced == 0:
        raise InvalidReplicationFactorError(
            "All brokers are currently fenced, or have all their log directories cordoned."
        )
    if replicas > racks.total:
        raise InvalidReplicationFactorError(
            f"The target replication factor of {replicas} cannot be reached because only {racks.total} "
            "broker(s) are registered or some brokers have all their log directories cordoned."
        )
    return [racks.place(replicas) for _ in range(partitions)]
