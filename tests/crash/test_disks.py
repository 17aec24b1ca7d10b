"""Real disks that are full, cannot be written, or are gone, under a broker in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.fetch import FetchRequest
from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.offset_commit import OffsetCommitRequest
from kbroker.protocol.messages.produce import ProduceRequest
from kbroker.protocol.records.batch import Record, batches, build_batch, read_records
from tests.broker_process import BrokerProcess
from tests.crash.test_stop import refused_start
from tests.wire import WireClient

MIB = 1024 * 1024
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def run(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 8 MiB."""
    path = tmp_path / "small"
    path.mkdir()
    if not run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path)):
        pytest.skip("a small disk needs the right to mount a tmpfs")
    yield path
    run("umount", str(path))


@contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Nothing can be made in a directory, not even by root."""
    if not run("chattr", "+i", str(path)):
        pytest.skip("a directory that root cannot write needs chattr +i")
    try:
        yield
    finally:
        run("chattr", "-i", str(path))


class Client:
    """What the tests ask, in as few words as they can."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.wire = WireClient(broker.bootstrap)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> ErrorCode:
        wanted = CreateTopicsRequest.CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=name.replace("_", "."), value=value)
                for name, value in configs.items()
            ],
        )
        answer = self.wire.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 7)
        return ErrorCode(answer.topics[0].error_code)

    def produce(self, topic: str, value: bytes, partition: int = 0) -> ErrorCode:
        data = ProduceRequest.PartitionProduceData(
            index=partition, records=build_batch([Record(0, 1_700_000_000_000, None, value)])
        )
        request = ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )
        return ErrorCode(self.wire.call(request, 9).responses[0].partition_responses[0].error_code)

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        found: list[bytes | None] = []
        while True:
            wanted = FetchRequest.FetchPartition(
                partition=partition, fetch_offset=len(found), partition_max_bytes=16 * MIB
            )
            topics = [FetchRequest.FetchTopic(topic=topic, partitions=[wanted])]
            answer = self.wire.call(FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=16 * MIB, topics=topics), 11)
            records = bytes(answer.responses[0].partitions[0].records or b"")
            new = [
                each.value
                for header, batch in batches(records)
                for each in read_records(batch, max_decompressed=MIB)
                if each.offset >= len(found) and header.record_count
            ]
            if not new:
                return found
            found += new

    def commit(self, offset: int) -> ErrorCode:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="m" * 4000
        )
        topics = [OffsetCommitRequest.OffsetCommitRequestTopic(name="t", partitions=[partition])]
        answer = self.wire.call(OffsetCommitRequest(group_id="g", topics=topics), 8)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def partitions(self, topic: str) -> list[Any]:
        answer = self.wire.call(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)]), 12)
        return sorted(answer.topics[0].partitions, key=lambda each: each.partition_index)

    def directories(self) -> list[Any]:
        found: list[Any] = self.wire.call(DescribeLogDirsRequest(topics=None), 5).results
        return found


def until_refused(act: Callable[[int], ErrorCode]) -> tuple[int, ErrorCode]:
    """How often it went well, and how it was refused at last."""
    for number in range(10_000):
        code = act(number)
        if code is not ErrorCode.NONE:
            return number, code
    raise AssertionError("the disk has no end")


@pytest.mark.parametrize("killed", [False, True])
def test_a_full_disk_refuses_records_and_goes_on_when_there_is_room(small_disk: Path, killed: bool) -> None:
    broker = BrokerProcess(small_disk / "data", "--override", "group.initial.rebalance.delay.ms=0").start()
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * MIB))
    client = Client(broker)
    assert client.create("t", segment_bytes=str(MIB)) is ErrorCode.NONE
    count, code = until_refused(lambda number: client.produce("t", b"%d" % number + bytes(50_000)))
    assert code is STORAGE_ERROR
    assert count > 20
    assert [value[:3].rstrip(b"\0") for value in client.values("t") if value] == [b"%d" % n for n in range(count)]
    while client.produce("t", bytes(10)) is ErrorCode.NONE:
        count += 1
    assert client.produce("t", bytes(10_000)) is STORAGE_ERROR
    assert client.create("more", 50) in (ErrorCode.NONE, STORAGE_ERROR)
    if killed:
        broker.kill()
        ballast.unlink()
        broker.start()
        client = Client(broker)
    else:
        ballast.unlink()
    assert len(client.values("t")) == count
    assert client.produce("t", b"room") is ErrorCode.NONE
    assert client.values("t")[count:] == [b"room"]
    assert client.create("again") is ErrorCode.NONE
    assert client.produce("again", b"room") is ErrorCode.NONE
    assert broker.stop() == 0


def test_a_full_disk_refuses_commits_of_groups_and_goes_on_when_there_is_room(small_disk: Path) -> None:
    with BrokerProcess(small_disk / "data", "--override", "offsets.topic.num.partitions=1") as broker:
        client = Client(broker)
        assert client.create("t") is ErrorCode.NONE
        assert client.produce("t", b"value") is ErrorCode.NONE
        client.wire.call(FindCoordinatorRequest(key="g"), 1)
        assert client.commit(1) is ErrorCode.NONE
        ballast = small_disk / "ballast"
        with pytest.raises(OSError, match="No space"):
            ballast.write_bytes(bytes(9 * MIB))
        _, code = until_refused(client.commit)
        assert code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, STORAGE_ERROR)
        ballast.unlink()
        assert client.commit(2) is ErrorCode.NONE


def test_a_directory_that_cannot_be_written_refuses_records_and_forgives_it_later(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        client = Client(broker)
        assert client.create("t", 2, segment_bytes=str(MIB)) is ErrorCode.NONE
        assert client.produce("t", b"first") is ErrorCode.NONE
        with unwritable(tmp_path / "data" / "t-0"), unwritable(tmp_path / "data"):
            assert client.produce("t", b"no directory", partition=1) is STORAGE_ERROR
            count, code = until_refused(lambda _: client.produce("t", bytes(200_000)))
            assert (count, code) == (5, STORAGE_ERROR)  # up to the next segment
            assert len(client.values("t")) == 6
        assert client.produce("t", b"last") is ErrorCode.NONE
        assert client.produce("t", b"a directory", partition=1) is ErrorCode.NONE
        assert client.values("t")[6:] == [b"last"]


def test_a_directory_that_goes_away_takes_its_partitions_along_and_brings_them_back(tmp_path: Path) -> None:
    second = tmp_path / "second"
    broker = BrokerProcess(tmp_path / "data", more_dirs=[second]).start()
    client = Client(broker)
    assert client.create("t", 4) is ErrorCode.NONE
    for partition in range(4):
        assert client.produce("t", b"value", partition) is ErrorCode.NONE
    lost = [number for number in range(4) if (second / f"t-{number}").is_dir()]
    assert len(lost) == 2
    second.rename(tmp_path / "away")
    second.write_bytes(b"")
    # Found out when something is made there: Kafka, too, notices no sooner.
    assert client.create("found-out", 4) is ErrorCode.NONE
    codes = {client.produce("found-out", b"value", partition) for partition in range(4)}
    assert codes == {ErrorCode.NONE, STORAGE_ERROR}
    for restarted in (False, True):
        refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER if restarted else STORAGE_ERROR
        for partition in range(4):
            code = refusal if partition in lost else ErrorCode.NONE
            assert client.produce("t", b"value", partition) is code
        found = [
            (each.error_code, each.leader_id, each.isr_nodes, each.offline_replicas) for each in client.partitions("t")
        ]
        offline = (int(ErrorCode.LEADER_NOT_AVAILABLE), -1, list[int](), [1])
        assert found == [offline if number in lost else (0, 1, [1], []) for number in range(4)]
        assert [each.error_code for each in client.directories()] == [0, STORAGE_ERROR]
        if not restarted:
            assert broker.stop() == 0
            broker.start()
            client = Client(broker)
    assert broker.stop() == 0
    second.unlink()
    (tmp_path / "away").rename(second)
    with broker:
        client = Client(broker)
        assert [len(client.values("t", number)) for number in range(4)] == [
            1 if number in lost else 3 for number in range(4)
        ]
        assert client.produce("t", b"value", lost[0]) is ErrorCode.NONE


def test_a_broker_that_has_lost_all_its_directories_ends_itself_and_says_so(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    client = Client(broker)
    assert client.create("t") is ErrorCode.NONE
    (tmp_path / "data").rename(tmp_path / "away")
    (tmp_path / "data").write_bytes(b"")
    assert client.produce("t", b"value") is STORAGE_ERROR
    assert broker.process.wait(timeout=10) == 1
    assert broker.process.stdout is not None
    broker.process.stdout.close()
    said = broker.log_path.read_text()
    assert f"Shutdown broker because all log dirs in {tmp_path}/data have failed" in said


def test_a_broker_whose_only_directory_cannot_be_written_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with unwritable(tmp_path / "data"):
        command = ["--data-dir", str(tmp_path / "data"), "--port", "0"]
        done = refused_start(*command)
    assert done.returncode == 1
    assert f"no data directory can be used: {tmp_path}/data: [Errno 1]" in done.stderr
