"""A quorum of one on a simulated host: starts, what is published and when, failures, snapshots."""

import inspect
from collections.abc import Iterator

import pytest

from kbroker.kraft import snapshots
from kbroker.kraft.batches import data_batch
from kbroker.kraft.controller.brokers import unregister_broker
from kbroker.kraft.controller.configs import Alteration, Operation, incremental_alter_configs
from kbroker.kraft.image import EMPTY, METADATA_VERSION, RECOVERING, RESOURCE_BROKER, RESOURCE_TOPIC, ConfigResource
from kbroker.kraft.image_records import image_records
from kbroker.kraft.raft.metadata_log import PartitionMetadataLog
from kbroker.kraft.replay import LogReader
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.records import metadata as m
from kbroker.protocol.messages.update_features import UpdateFeaturesRequest
from kbroker.replies import settled
from kbroker.types import StartupError
from tests.sim.process import Process
from tests.unit.kraft.world import DIRECTORY, DIRECTORY_ID, World, topic

LOG_DIRECTORY = f"{DIRECTORY}/{snapshots.METADATA_DIRECTORY}"


@pytest.fixture(params=[False, True], ids=["page cache", "fsync"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    world = World(fsync=request.param)
    yield world
    world.close()


@pytest.fixture
def quick() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def test_the_first_start_finalizes_what_formatting_chose(world: World) -> None:
    world.start()
    assert dict(world.quorum.image.features) == {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert world.quorum.image.configs.of(RESOURCE_BROKER, "") == {"min.insync.replicas": "1"}
    assert world.quorum.leader_id == 1
    assert world.quorum.epoch == 1
    assert world.quorum.is_active


def test_a_broker_serves_once_it_is_unfenced(world: World) -> None:
    world.start()
    broker = world.quorum.image.cluster.brokers[1]
    assert broker.is_active
    assert broker.endpoints["PLAINTEXT"].port == 9092
    assert broker.directories == (DIRECTORY_ID,)
    assert broker.features["metadata.version"] == (7, 33)


def test_a_created_topic_is_published_before_the_reply(world: World) -> None:
    world.start()
    seen: list[str] = []
    world.quorum.subscribe(lambda delta, _: seen.extend(each.name for each in delta.created_topics.values()))
    results = world.create(topic("one", 3))
    assert results[0].error_code == 0
    assert seen == ["one"]
    partitions = world.quorum.image.topics.by_name["one"].partitions
    assert [each.leader for each in partitions.values()] == [1, 1, 1]
    assert all(each.directories == (DIRECTORY_ID,) for each in partitions.values())


def test_without_fsync_a_reply_is_not_waited_for(quick: World) -> None:
    quick.start()
    reply = quick.quorum.create_topics([topic("one")])
    assert not inspect.isawaitable(reply)


def test_with_fsync_a_decision_sees_what_is_written_and_others_do_not() -> None:
    world = World(fsync=True)
    world.start()

    async def twice() -> None:
        first = world.quorum.create_topics([topic("one")])
        assert "one" not in world.quorum.image.topics.by_name
        second = world.quorum.create_topics([topic("one")])
        assert (await settled(second))[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert "one" in world.quorum.image.topics.by_name
        await settled(first)

    world.run(twice())
    world.close()


def test_a_clean_restart_keeps_everything_and_opens_a_leader_epoch(world: World) -> None:
    world.start()
    world.create(topic("one", 2, configs={"retention.ms": "1000"}))
    before = world.quorum.image.topics.by_name["one"]
    world.stop()
    world.restart()
    after = world.quorum.image.topics.by_name["one"]
    assert after.id == before.id
    assert world.quorum.epoch == 2
    assert world.quorum.image.configs.of_topic("one") == {"retention.ms": "1000"}
    for partition in after.partitions.values():
        assert partition.leader == 1
        assert partition.isr == (1,)
        assert partition.leader_epoch == 2
        assert partition.elr == partition.last_known_elr == ()
        assert partition.leader_recovery_state != RECOVERING


def test_a_clean_stop_hands_over_what_the_broker_led(quick: World) -> None:
    quick.start()
    quick.create(topic("one"))
    quick.stop()
    partition = quick.quorum.image.topics.by_name["one"].partitions[0]
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))
    assert quick.quorum.image.cluster.brokers[1].fenced


def test_after_a_kill_the_last_leader_leads_again_and_recovers(world: World) -> None:
    world.start()
    world.create(topic("one"))
    world.kill()
    world.restart()
    partition = world.quorum.image.topics.by_name["one"].partitions[0]
    assert (partition.leader, partition.isr, partition.last_known_elr) == (1, (1,), ())
    assert partition.leader_epoch == 2
    assert partition.leader_recovery_state == RECOVERING


def test_with_fsync_nothing_answered_is_lost_when_the_power_fails() -> None:
    for seed in range(15):
        world = World(fsync=True, seed=seed)
        world.start()
        for number in range(3):
            world.create(topic(f"topic-{seed}-{number}"))
        world.kill(power=True)
        world.restart()
        assert list(world.quorum.image.topics.by_name) == [f"topic-{seed}-{n}" for n in range(3)]
        assert not world.failures
        world.close()


def test_a_late_subscriber_is_given_everything(quick: World) -> None:
    quick.start()
    quick.create(topic("one", 2))
    deltas = []
    quick.quorum.subscribe(lambda delta, image: deltas.append((delta, image)))
    ((delta, image),) = deltas
    assert delta.before is EMPTY
    assert [each.name for each in delta.created_topics.values()] == ["one"]
    assert [len(each) for each in delta.changed_partitions.values()] == [2]
    assert list(delta.changed_brokers) == [1]
    assert image is quick.quorum.image


def test_the_first_publication_is_everything_the_log_holds(quick: World) -> None:
    quick.start()
    quick.create(topic("one"))
    quick.stop()
    quick.restart()
    delta, _ = quick.published[0]
    assert [each.name for each in delta.created_topics.values()] == ["one"]


def test_a_validated_topic_is_not_created(quick: World) -> None:
    quick.start()
    results = quick.get(lambda: quick.quorum.create_topics([topic("one")], validate_only=True))
    assert results[0].error_code == 0
    assert not quick.quorum.image.topics.by_name


def test_deleted_topics_are_gone_with_their_configs(world: World) -> None:
    world.start()
    world.create(topic("one", configs={"retention.ms": "1"}))
    topic_id = world.quorum.image.topics.by_name["one"].id
    unknown = b"x" * 16
    results = world.get(lambda: world.quorum.delete_topics([topic_id, unknown]))
    assert results[topic_id] is None
    refused = results[unknown]
    assert refused is not None
    assert refused.code is ErrorCode.UNKNOWN_TOPIC_ID
    assert not world.quorum.image.topics.by_id
    assert world.quorum.image.configs.of_topic("one") == {}
    delta, _ = world.published[-1]
    assert [each.name for each in delta.deleted_topics.values()] == ["one"]


def test_producer_ids_are_given_in_blocks_to_registered_brokers(world: World) -> None:
    world.start()
    epoch = world.lifecycle.broker_epoch
    assert world.get(lambda: world.quorum.allocate_producer_ids(1, epoch)) == (0, 1000)
    assert world.get(lambda: world.quorum.allocate_producer_ids(1, epoch)) == (1000, 1000)
    with pytest.raises(ApiError, match="STALE_BROKER_EPOCH"):
        world.quorum.allocate_producer_ids(1, epoch + 1)
    world.kill()
    world.restart()
    again = world.lifecycle.broker_epoch
    assert world.get(lambda: world.quorum.allocate_producer_ids(1, again)) == (2000, 1000)


def alter(world: World, resource: ConfigResource, alteration: Alteration) -> None:
    outcomes = world.get(
        lambda: world.quorum.decide(
            lambda image, config: incremental_alter_configs(image, {resource: [alteration]}, config)
        )
    )
    assert outcomes == {resource: None}


def test_dynamic_broker_configs_act_on_what_the_controller_decides(quick: World) -> None:
    quick.start()
    alter(quick, (RESOURCE_BROKER, ""), Alteration("log.retention.ms", Operation.SET, "5000"))
    assert quick.quorum.effective_config.integer("log.retention.ms") == 5000
    results = quick.create(topic("one"))
    rows = {each.name: each.value for each in results[0].configs or ()}
    assert rows["retention.ms"] == "5000"


def test_a_topic_config_change_reaches_the_subscribers(quick: World) -> None:
    quick.start()
    quick.create(topic("one"))
    alter(quick, (RESOURCE_TOPIC, "one"), Alteration("retention.ms", Operation.SET, "7"))
    delta, _ = quick.published[-1]
    assert delta.changed_configs == {(RESOURCE_TOPIC, "one"): {"retention.ms": "7"}}


@pytest.mark.parametrize("fsync", [False, True])
def test_snapshots_and_segments_go_that_retention_does_not_keep(fsync: bool) -> None:
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": "3000",
        "internal.metadata.log.segment.bytes": "2500",
        "metadata.max.retention.bytes": "0",
    }
    world = World(fsync=fsync, settings=settings)
    world.start()
    for number in range(40):
        world.create(topic(f"topic-{number}"))
        world.run(_pause(world))
    (snapshot,) = snapshots.list_snapshots(world.host.disk, LOG_DIRECTORY)
    assert snapshot.end_offset > 20
    first_segment, second_segment, *_ = [
        int(name.removesuffix(".log")) for name in world.host.disk.list_dir(LOG_DIRECTORY) if name.endswith(".log")
    ]
    assert 0 < first_segment <= snapshot.end_offset < second_segment
    expected = world.quorum.image
    world.kill(power=fsync)
    world.restart()
    assert list(world.quorum.image.topics.by_name) == list(expected.topics.by_name)
    assert not world.failures
    world.close()


def test_snapshots_are_kept_until_they_are_too_old() -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "300", "metadata.max.retention.ms": "100000"}
    world = World(settings=settings)
    world.start()
    taken = []
    for number in range(30):
        world.create(topic(f"topic-{number}"))
        world.run(_pause(world, 10_000))
        taken = snapshots.list_snapshots(world.host.disk, LOG_DIRECTORY)
    assert len(taken) > 2
    ages = [
        world.clock.wall_ms() - kept.last_timestamp for kept in snapshots.kept_snapshots(world.host.disk, LOG_DIRECTORY)
    ]
    assert all(100 < age <= 150_000 for age in ages)
    world.close()


def test_a_snapshot_is_taken_when_its_time_has_come() -> None:
    world = World(settings={"metadata.log.max.snapshot.interval.ms": "60000"})
    world.start()
    assert snapshots.list_snapshots(world.host.disk, LOG_DIRECTORY) == []
    world.run(_pause(world, 70_000))
    assert len(snapshots.list_snapshots(world.host.disk, LOG_DIRECTORY)) == 1
    world.run(_pause(world, 200_000))
    assert len(snapshots.list_snapshots(world.host.disk, LOG_DIRECTORY)) == 1
    world.close()


def test_a_snapshot_that_finds_no_room_waits_for_the_next_one_and_the_node_goes_on() -> None:
    world = World(settings={"metadata.log.max.snapshot.interval.ms": "60000"})
    world.start()
    world.disk.capacity = world.disk.used()
    world.run(_pause(world, 70_000))
    assert world.failures == []
    assert snapshots.list_snapshots(world.host.disk, LOG_DIRECTORY) == []
    world.disk.capacity = None
    world.create(topic("after"))
    world.run(_pause(world, 70_000))
    assert len(snapshots.list_snapshots(world.host.disk, LOG_DIRECTORY)) == 1
    world.close()


@pytest.mark.parametrize("fsync", [False, True])
def test_a_broker_is_registered_when_the_disk_has_room_again_or_gives_up(fsync: bool) -> None:
    world = World(fsync=fsync, settings={"initial.broker.registration.timeout.ms": "5000"})
    world.run(world.quorum.start())
    world.disk.capacity = world.disk.used()
    with pytest.raises(StartupError, match=r"the broker cannot be registered: .*free space"):
        world.enter()
    assert 5000 <= world.host.clock.monotonic_ms() < 7000
    world.loop.call_later(2, setattr, world.disk, "capacity", None)
    world.enter()
    assert world.lifecycle.broker_epoch >= 0
    assert world.failures == []
    world.close()


def test_a_log_that_ends_before_the_snapshot_begins_anew_at_it(quick: World) -> None:
    quick.start()
    quick.create(topic("one"))
    quick.stop()
    image = quick.quorum.image
    quick.boot()
    ahead = snapshots.SnapshotId(image.offset + 101, image.epoch)
    snapshots.write_snapshot(quick.host.disk, LOG_DIRECTORY, ahead, image_records(image), last_timestamp=1, now_ms=1)
    quick.start()
    assert "one" in quick.quorum.image.topics.by_name
    assert quick.quorum.image.offset > ahead.end_offset


def test_a_failure_inside_the_controller_stops_the_node(quick: World, monkeypatch: pytest.MonkeyPatch) -> None:
    quick.start()
    monkeypatch.setattr(quick.host.random.__class__, "randbytes", None)
    with pytest.raises(TypeError):
        quick.quorum.create_topics([topic("one")])
    assert len(quick.failures) == 1
    assert not quick.quorum.is_active
    with pytest.raises(ApiError, match="NOT_CONTROLLER"):
        quick.quorum.create_topics([topic("two")])


def test_a_transaction_over_several_batches_counts_when_it_ends(quick: World) -> None:
    quick.start()
    quick.kill()
    quick.boot()
    log = PartitionMetadataLog.open(LOG_DIRECTORY, quick.config, quick.host)
    reader = LogReader(log, log.end_offset)

    def write(*records: object) -> None:
        log.append(data_batch(records, log.end_offset, 1, 5), 1)

    def names() -> list[str]:
        return [each.name for _, _, records in reader.read_to(log.end_offset) for each in records]

    write(m.BeginTransactionRecord(name="t"), m.TopicRecord(name="a", topic_id=b"a" * 16))
    write(m.TopicRecord(name="b", topic_id=b"b" * 16))
    assert names() == []
    assert reader.in_transaction
    write(m.EndTransactionRecord(), m.TopicRecord(name="c", topic_id=b"c" * 16))
    assert names() == ["a", "b", "c"]
    write(m.BeginTransactionRecord(name="t"), m.TopicRecord(name="d", topic_id=b"d" * 16))
    write(m.AbortTransactionRecord(reason="x"), m.TopicRecord(name="e", topic_id=b"e" * 16))
    assert names() == ["e"]
    assert not reader.in_transaction


def test_the_same_seed_gives_the_same_log() -> None:
    logs = []
    for _ in range(2):
        world = World(seed=5)
        world.start()
        world.create(topic("one", 4), topic("two", 2))
        world.stop()
        disk = world.disk.mount(Process("reader"))
        logs.append(disk.read(f"{LOG_DIRECTORY}/{'0' * 20}.log"))
        world.close()
    assert logs[0] == logs[1]


async def _pause(world: World, delay_ms: int = 1000) -> None:
    done = world.loop.create_future()
    world.clock.call_later(delay_ms, done.set_result, None)
    await done


def test_topic_ids_never_look_like_an_option(quick: World) -> None:
    quick.start()
    quick.create(*(topic(f"topic-{number}") for number in range(300)))
    ids = list(quick.quorum.image.topics.by_id)
    assert len(dict.fromkeys(ids)) == 300
    assert all(each[0] >> 2 != 62 and each[6] >> 4 == 4 and each[8] >> 6 == 2 for each in ids)


@pytest.mark.parametrize("snapshot_bytes", ["20971520", "2500"])
def test_without_fsync_a_power_failure_costs_only_the_newest_topics(snapshot_bytes: str) -> None:
    for seed in range(10):
        world = World(seed=seed, settings={"metadata.log.max.record.bytes.between.snapshots": snapshot_bytes})
        world.start()
        created: list[str] = []
        for life in range(3):
            for number in range(6):
                world.create(topic(f"topic-{life}-{number}"))
            created = list(world.quorum.image.topics.by_name)
            world.kill(power=True)
            world.restart()
            left = list(world.quorum.image.topics.by_name)
            assert left == created[: len(left)], f"seed {seed}"
        assert not world.failures
        world.close()


def test_a_metadata_log_that_cannot_be_read_is_said_in_one_line_and_can_be_stopped(quick: World) -> None:
    quick.start()
    quick.create(topic("one"))
    quick.stop()
    quick.boot()
    disk = quick.host.disk
    latest = snapshots.SnapshotId(5, 1)
    disk.write_atomically(f"{LOG_DIRECTORY}/{latest.file_name}", b"not a snapshot")
    with pytest.raises(StartupError, match="the metadata log cannot be read"):
        quick.run(quick.quorum.start())
    quick.run(quick.quorum.stop())


def test_a_disk_that_fails_under_fsync_stops_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(fsync=True)
    world.start()

    def broken(_: PartitionMetadataLog) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(PartitionMetadataLog, "sync", broken)

    async def create() -> None:
        reply = world.quorum.create_topics([topic("one")])
        assert inspect.isawaitable(reply)
        await _pause(world)

    world.run(create())
    assert [str(each) for each in world.failures] == ["[Errno 5] Input/output error"]
    assert not world.quorum.is_active
    world.close()


def test_a_broker_that_was_unregistered_still_stops_cleanly_and_comes_back(world: World) -> None:
    """It used to fail at its last heartbeat, and left its logs without the mark of a clean stop."""
    world.start()
    world.get(lambda: world.quorum.decide(lambda image, config: unregister_broker(image, 1, config)))
    assert world.quorum.image.cluster.brokers == {}
    world.stop()
    world.restart()
    assert not world.quorum.image.cluster.brokers[1].fenced


def raise_level(world: World, level: int) -> None:
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=level)
    request = UpdateFeaturesRequest(feature_updates=[update])
    world.get(lambda: world.quorum.update_features(request))


def known_directories(world: World) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Those of the broker, and those of the first partition's replicas."""
    image = world.quorum.image
    return image.cluster.brokers[1].directories, image.topics.by_name["t"].partitions[0].directories


def test_a_broker_says_what_an_older_level_could_not_write_down_once_the_level_rises() -> None:
    old = World(metadata_version=16)
    try:
        old.start()
        old.create(topic("t"))
        topic_id, epoch = old.quorum.image.topics.by_name["t"].id, old.lifecycle.broker_epoch
        old.run(old.lifecycle.assign_directories({(topic_id, 0): DIRECTORY_ID}))
        assert known_directories(old) == ((), ())

        for before, now in ((16, 17), (17, 30)):
            raise_level(old, now)
            old.run(old.lifecycle.follow_version(before, now))
        broker = old.quorum.image.cluster.brokers[1]
        assert (broker.epoch, broker.fenced, broker.cordoned_directories) == (epoch, False, ())
        assert known_directories(old) == ((DIRECTORY_ID,), ())

        old.run(old.lifecycle.assign_directories({(topic_id, 0): DIRECTORY_ID}))
        old.stop()
        old.restart()
        assert known_directories(old) == ((DIRECTORY_ID,), (DIRECTORY_ID,))
    finally:
        old.close()
