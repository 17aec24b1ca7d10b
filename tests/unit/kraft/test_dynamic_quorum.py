"""A quorum whose voters stand in the metadata log and in its snapshots (KIP-853), over several lives."""

from __future__ import annotations

import asyncio

import pytest

from kbroker.kraft.batches import decode_batches
from kbroker.kraft.controller.features import KRAFT_VERSION
from kbroker.kraft.raft.voters import Voter, VoterEndpoint, Voters
from kbroker.kraft.snapshots import METADATA_DIRECTORY, list_snapshots, read_snapshot
from kbroker.protocol.messages.records.control import KRaftVersionRecord, VotersRecord
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from kbroker.types import StartupError
from tests.unit.kraft.world import DIRECTORY, DIRECTORY_ID, World, topic

LOG_DIRECTORY = f"{DIRECTORY}/{METADATA_DIRECTORY}"
ENDPOINT = VoterEndpoint("CONTROLLER", "one", 9093)
OWN = Voter(1, DIRECTORY_ID, (ENDPOINT,))
DYNAMIC = Voters((OWN,), kraft_version=1)
CONTROLLER = {"controller.listener.names": "CONTROLLER", "listeners": "PLAINTEXT://:9092,CONTROLLER://one:9093"}
SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "1"}


def written(world: World) -> list[tuple[int, Voters]]:
    """By offset of the batch, what the log says of the voters."""
    data = world.host.disk.read(f"{LOG_DIRECTORY}/00000000000000000000.log")
    none = Voters(())
    return [
        (batch.base_offset, none.replay(batch.controls, in_log=True))
        for batch in decode_batches(data)
        if batch.controls
    ]


def upgrade(world: World) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=1)
    world.get(lambda: world.quorum.update_features(UpdateFeaturesRequest(feature_updates=[update])))


@pytest.mark.parametrize("fsync", [False, True])
def test_the_first_leader_writes_the_voters_of_the_formatted_directory_into_the_log_and_no_later_one(
    fsync: bool,
) -> None:
    world = World(fsync=fsync, settings=CONTROLLER, voters=DYNAMIC)
    world.start()
    assert written(world) == [(0, Voters((OWN,), 1, in_log=True))]
    world.stop()
    world.restart()
    assert written(world) == [(0, Voters((OWN,), 1, in_log=True))]
    assert world.quorum.voters == Voters((OWN,), 1, in_log=True)
    assert [(each.node_id, each.directory_id) for each in world.quorum.describe()] == [(1, DIRECTORY_ID)]
    world.close()


def test_a_leader_that_listens_elsewhere_says_so_and_one_that_does_not_say_leaves_it() -> None:
    world = World(settings=CONTROLLER, voters=DYNAMIC)
    world.start()
    world.stop()
    moved = VoterEndpoint("CONTROLLER", "one", 9094)
    for listeners, endpoint in (
        ("PLAINTEXT://:9092,CONTROLLER://:9094", moved),
        ("PLAINTEXT://:9092,CONTROLLER://two:9094", VoterEndpoint("CONTROLLER", "two", 9094)),
        ("PLAINTEXT://:9092", VoterEndpoint("CONTROLLER", "two", 9094)),
    ):
        world.config = type(world.config)({**world.config.texts(), "listeners": listeners})
        world.restart()
        assert world.quorum.voters.all == (OWN._replace(endpoints=(endpoint,)),)
        world.stop()
    world.boot()
    assert [voters.all[0].endpoints[0].port for _, voters in written(world)] == [9093, 9094, 9094]
    world.close()


@pytest.mark.parametrize("fsync", [False, True])
@pytest.mark.parametrize("killed", [False, True])
def test_a_static_quorum_becomes_dynamic_and_stays_so(fsync: bool, killed: bool) -> None:
    world = World(fsync=fsync, settings=CONTROLLER)
    world.start()
    before = world.quorum.image
    state = world.host.disk.read(f"{LOG_DIRECTORY}/quorum-state")
    assert written(world) == []
    upgrade(world)
    upgrade(world)
    assert world.quorum.voters == Voters((OWN,), 1, in_log=True)
    assert len(written(world)) == 1
    assert world.quorum.image.features == before.features
    assert world.host.disk.read(f"{LOG_DIRECTORY}/quorum-state") == state
    if killed:
        world.kill()
    else:
        world.stop()
    world.restart()
    assert world.quorum.voters == Voters((OWN,), 1, in_log=True)
    assert b'"data_version":1' in world.host.disk.read(f"{LOG_DIRECTORY}/quorum-state")
    assert len(written(world)) == 1
    world.create(topic("t"))
    world.close()


def test_a_snapshot_says_who_the_voters_are_and_is_enough() -> None:
    world = World(settings={**CONTROLLER, **SNAPSHOTS, "metadata.max.retention.bytes": "1"}, voters=DYNAMIC)
    world.start()
    world.create(topic("t"))
    world.run(asyncio.sleep(10))
    (latest,) = list_snapshots(world.host.disk, LOG_DIRECTORY)[-1:]
    version, voters = read_snapshot(world.host.disk, LOG_DIRECTORY, latest).controls
    assert isinstance(version, KRaftVersionRecord)
    assert isinstance(voters, VotersRecord)
    world.kill()
    world.restart()
    assert world.quorum.voters == Voters((OWN,), 1, in_log=True)
    world.close()


def test_snapshots_of_a_static_quorum_say_nothing_of_voters() -> None:
    world = World(settings=SNAPSHOTS)
    world.start()
    world.create(topic("t"))
    world.run(asyncio.sleep(10))
    (latest,) = list_snapshots(world.host.disk, LOG_DIRECTORY)[-1:]
    assert read_snapshot(world.host.disk, LOG_DIRECTORY, latest).controls == []
    world.close()


@pytest.mark.parametrize(
    ("settings", "is_dynamic"),
    [
        ({}, False),
        ({"controller.quorum.bootstrap.servers": "one:9093"}, True),
        ({"controller.quorum.bootstrap.servers": "one:9093", "controller.quorum.voters": "1@one:9093"}, False),
    ],
)
def test_an_empty_directory_begins_the_quorum_that_the_configuration_is_made_for(
    settings: dict[str, str], is_dynamic: bool
) -> None:
    world = World(settings={**CONTROLLER, **settings}, is_formatted=False)
    for _ in range(2):
        world.start()
        assert world.quorum.voters.kraft_version == int(is_dynamic)
        world.stop()
        world.boot()
    assert len(written(world)) == int(is_dynamic)
    world.close()


@pytest.mark.parametrize(
    "others",
    [
        (),
        (Voter(2, DIRECTORY_ID),),
        (Voter(1, b"another one      "[:16]),),
        (OWN, Voter(2, b"another one      "[:16])),
    ],
)
def test_a_quorum_that_others_decide_in_is_not_waited_for(others: tuple[Voter, ...]) -> None:
    world = World(settings=CONTROLLER, voters=Voters(others, kraft_version=1))
    with pytest.raises(StartupError, match=r"the voters of this quorum are \[.*\], and kbroker runs a quorum of one"):
        world.start()
    world.close()
