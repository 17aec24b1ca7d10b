"""Real disks that are full, cannot be written, or are gone, under a broker in a process of its own.

Nothing here needs a right but one form of one thing. Room ends in two ways: on a small disk (ENOSPC), which takes the
right to mount, and at a limit of the size of files (EFBIG), which goes the same way through the broker and takes none.
A directory is not writable by its mode; root's broker is started without the capability to pass over that. Every
operation at which a disk can fill up is refused on a simulated one, in ``tests/unit/log/test_disk_faults.py``.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

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
from tests.crash.conftest import Start
from tests.crash.test_stop import refused_start
from tests.patience import PATIENCE_S
from tests.wire import WireClient

MIB = 1024 * 1024
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


UNPRIVILEGED = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")


def run(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


class Room(Protocol):
    """What a broker may write, which can become little, nothing and enough again."""

    folder: Path
    segment_bytes: int
    """Of a topic that is to find the end of the room."""

    def shrink(self, broker: BrokerProcess) -> None:
        """Leave room for a few thousand records."""

    def fill(self, broker: BrokerProcess) -> None:
        """Leave none."""

    def restore(self, broker: BrokerProcess) -> None: ...


class SmallDisk:
    """A disk of 8 MiB, and a file in the broker's way."""

    segment_bytes = MIB

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def shrink(self, _: BrokerProcess) -> None:
        self._ballast.write_bytes(bytes(4 * MIB))

    def fill(self, _: BrokerProcess) -> None:
        with pytest.raises(OSError, match="No space"):
            self._ballast.write_bytes(bytes(9 * MIB))

    def restore(self, _: BrokerProcess) -> None:
        self._ballast.unlink()


class SmallFiles:
    """A broker that may not make a file larger than so and so: whoever may start it may say that."""

    segment_bytes = 16 * MIB

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def shrink(self, broker: BrokerProcess) -> None:
        self._limit(broker, 2 * MIB)

    def fill(self, broker: BrokerProcess) -> None:
        self._limit(broker, 100_000)

    def restore(self, broker: BrokerProcess) -> None:
        if broker.process.poll() is None:  # the next one has no limit
            self._limit(broker, resource.RLIM_INFINITY)

    @staticmethod
    def _limit(broker: BrokerProcess, size: int) -> None:
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.fixture(params=["small disk", "small files"])
def room(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Room]:
    if request.param == "small files":
        if not hasattr(resource, "prlimit"):
            pytest.skip("limits of another process can be changed on Linux only")
        yield SmallFiles(tmp_path)
        return
    path = tmp_path / "small"
    path.mkdir()
    if not run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(path)):
        pytest.skip("a small disk needs the right to mount a tmpfs; the small files are tested")
    yield SmallDisk(path)
    run("umount", str(path))


@pytest.fixture
def through(tmp_path: Path) -> Sequence[str]:
    """What a broker is started through so that it may not write where it says that nobody may."""
    if os.geteuid() != 0:
        return ()
    path = tmp_path / "unwritable"
    path.mkdir(0o555)
    if not run(*UNPRIVILEGED, "test", "!", "-w", str(path)):
        pytest.skip("run by root, who may write everywhere, this needs setpriv and the right to drop capabilities")
    return UNPRIVILEGED


@contextmanager
def unwritable(path: Path) -> Iterator[None]:
    """Nothing can be made in a directory."""
    path.chmod(0o555)
    try:
        yield
    finally:
        path.chmod(0o755)


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
def test_a_full_disk_refuses_records_and_goes_on_when_there_is_room(start: Start, room: Room, killed: bool) -> None:
    broker = start(BrokerProcess(room.folder / "data", "--override", "group.initial.rebalance.delay.ms=0"))
    room.shrink(broker)
    client = Client(broker)
    assert client.create("t", segment_bytes=str(room.segment_bytes)) is ErrorCode.NONE
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
        room.restore(broker)
        broker.start()
        client = Client(broker)
    else:
        room.restore(broker)
    assert len(client.values("t")) == count
    assert client.produce("t", b"room") is ErrorCode.NONE
    assert client.values("t")[count:] == [b"room"]
    assert client.create("again") is ErrorCode.NONE
    assert client.produce("again", b"room") is ErrorCode.NONE
    assert broker.stop() == 0


def test_a_full_disk_refuses_commits_of_groups_and_goes_on_when_there_is_room(room: Room) -> None:
    with BrokerProcess(room.folder / "data", "--override", "offsets.topic.num.partitions=1") as broker:
        client = Client(broker)
        assert client.create("t") is ErrorCode.NONE
        assert client.produce("t", b"value") is ErrorCode.NONE
        client.wire.call(FindCoordinatorRequest(key="g"), 1)
        assert client.commit(1) is ErrorCode.NONE
        room.fill(broker)
        _, code = until_refused(client.commit)
        assert code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, STORAGE_ERROR)
        room.restore(broker)
        assert client.commit(2) is ErrorCode.NONE


def test_a_directory_that_cannot_be_written_refuses_records_and_forgives_it_later(
    tmp_path: Path, through: Sequence[str]
) -> None:
    with BrokerProcess(tmp_path / "data", through=through) as broker:
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


def test_a_directory_that_goes_away_takes_its_partitions_along_and_brings_them_back(
    start: Start, tmp_path: Path
) -> None:
    second = tmp_path / "second"
    broker = start(BrokerProcess(tmp_path / "data", more_dirs=[second]))
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
    # The second of the two there may meet a controller that was told by the first.
    assert {ErrorCode.NONE, STORAGE_ERROR} <= codes <= {ErrorCode.NONE, STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    for restarted in (False, True):
        for partition in range(4):
            code = STORAGE_ERROR if partition in lost else ErrorCode.NONE
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


def test_a_broker_that_has_lost_all_its_directories_ends_itself_and_says_so(start: Start, tmp_path: Path) -> None:
    broker = start(BrokerProcess(tmp_path / "data"))
    client = Client(broker)
    assert client.create("t") is ErrorCode.NONE
    (tmp_path / "data").rename(tmp_path / "away")
    (tmp_path / "data").write_bytes(b"")
    assert client.produce("t", b"value") is STORAGE_ERROR
    assert broker.process.wait(timeout=PATIENCE_S) == 1
    assert broker.process.stdout is not None
    broker.process.stdout.close()
    said = broker.log_path.read_text()
    assert f"Shutdown broker because all log dirs in {tmp_path}/data have failed" in said


def test_a_broker_whose_only_directory_cannot_be_written_does_not_start(tmp_path: Path, through: Sequence[str]) -> None:
    (tmp_path / "data").mkdir()
    with unwritable(tmp_path / "data"):
        command = ["--data-dir", str(tmp_path / "data"), "--port", "0"]
        done = refused_start(*command, through=through)
    assert done.returncode == 1
    assert f"no data directory can be used: {tmp_path}/data: [Errno 13]" in done.stderr
