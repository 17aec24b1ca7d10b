"""Who the quorum's voters are, and what says so (KIP-853).

With ``kraft.version`` 0 the configuration says it (``controller.quorum.voters``). With 1 control records say it, in the
metadata log and at the head of its snapshots: the latest ones count, committed or not. Follows Kafka's ``VoterSet`` and
``KRaftControlRecordStateMachine``. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kbroker.protocol.messages.records.control import KRaftVersionRecord, VotersRecord
from kbroker.protocol.records.control import ControlRecordType
from kbroker.types import ZERO_UUID, Uuid, uuid_to_string

KRAFT_VERSIONS: Final = (0, 1)
"""The levels of ``kraft.version`` that this software supports, the lowest and the highest."""

ControlRecord = tuple[ControlRecordType, Any]
"""A type, and the declared message that belongs to it."""


class VoterEndpoint(NamedTuple):
    """Where a voter listens for the other controllers."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """A node and its metadata directory: the same node with another directory is another voter."""

    id: int
    directory_id: Uuid = ZERO_UUID
    endpoints: tuple[VoterEndpoint, ...] = ()

    @property
    def key(self) -> str:
        """As Kafka's messages name it."""
        directory = "<undefined>" if self.directory_id == ZERO_UUID else uuid_to_string(self.directory_id)
        return f"ReplicaKey(id={self.id}, directoryId={directory})"


@dataclass(frozen=True, slots=True)
class Voters:
    """The voters, in order. ``in_log``: control records of the log itself say so, not only its first snapshot."""

    all: tuple[Voter, ...]
    kraft_version: int = 0
    in_log: bool = False

    @property
    def ids(self) -> list[int]:
        return [voter.id for voter in self.all]

    def find(self, node_id: int) -> Voter | None:
        """The voter that is this node, with whatever directory."""
        return next((voter for voter in self.all if voter.id == node_id), None)

    def replay(self, records: Iterable[Any], *, in_log: bool) -> Voters:
        """With the control records of a batch or a snapshot applied."""
        voters = self
        for record in records:
            if isinstance(record, KRaftVersionRecord):
                voters = replace(voters, kraft_version=record.kraft_version)
            elif isinstance(record, VotersRecord):
                voters = replace(voters, all=tuple(map(_read, record.voters)), in_log=in_log)
        return voters

    def written(self, own: Voter, kraft_version: int) -> Voters:
        """As a leader writes them into the log: with what it says of itself now."""
        voters = tuple(own if voter.id == own.id else voter for voter in self.all)
        return Voters(voters, kraft_version, in_log=True)

    def control_records(self) -> list[ControlRecord]:
        """What a dynamic quorum's log and snapshots say of it; nothing of a static one."""
        if not self.kraft_version:
            return []
        version = KRaftVersionRecord(version=0, kraft_version=self.kraft_version)
        voters = VotersRecord(version=0, voters=[_write(voter) for voter in self.all])
        return [(ControlRecordType.KRAFT_VERSION, version), (ControlRecordType.KRAFT_VOTERS, voters)]


def _read(record: VotersRecord.Voter) -> Voter:
    endpoints = tuple(VoterEndpoint(each.name, each.host, each.port) for each in record.endpoints)
    return Voter(record.voter_id, record.voter_directory_id, endpoints)


def _write(voter: Voter) -> VotersRecord.Voter:
    endpoint = VotersRecord.Endpoint
    lowest, highest = KRAFT_VERSIONS
    return VotersRecord.Voter(
        voter_id=voter.id,
        voter_directory_id=voter.directory_id,
        endpoints=[endpoint(name=each.name, host=each.host, port=each.port) for each in voter.endpoints],
        kraft_version_feature=VotersRecord.KRaftVersionFeature(
            min_supported_version=lowest, max_supported_version=highest
        ),
    )
