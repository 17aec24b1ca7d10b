"""What the log's tests share: a simulated disk, a topic's config, batches, and reading a log back."""

from __future__ import annotations

from random import Random

from kbroker.config import BrokerConfig
from kbroker.config.topic import TopicConfig
from kbroker.log.append_info import AppendInfo
from kbroker.log.file_records import FileRecords
from kbroker.log.log import Log
from kbroker.protocol.records.batch import Record, batches, build_batch, read_records
from kbroker.protocol.records.validation import AppendOrigin
from kbroker.types import TopicPartition
from tests.sim.disk import Mount, SimDisk
from tests.sim.process import Process
from tests.sim.trace import Trace

PARTITION = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))
DIRECTORY = "/data/orders-0"


def topic_config(**overrides: object) -> TopicConfig:
    """A topic's config by the names of its attributes."""
    values = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    return TopicConfig.resolve(BrokerConfig({}), values)


def batch(
    *values: bytes | None,
    timestamp: int = 1000,
    key: bytes | None = None,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = -1,
    transactional: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """One batch of records, one timestamp after the other."""
    records = [Record(number, timestamp + number, key, value) for number, value in enumerate(values)]
    return bytearray(
        build_batch(
            records,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
            leader_epoch=leader_epoch,
        )
    )


class Bench:
    """One log on a simulated disk, to be appended to, killed and opened again."""

    def __init__(self, seed: int = 0, **config: object) -> None:
        self.random = Random(seed)
        self.disk = SimDisk(self.random, Trace(lambda: 0.0))
        self.config = topic_config(**config)
        self.recovery_point = 0
        self.log_start_offset = 0
        self._power_up()
        self.mount.make_dirs("/data")
        self.mount.sync_dir("/data")
        self.log = self.open(clean=True)

    def _power_up(self) -> None:
        self.process = Process("broker")
        self.mount: Mount = self.disk.mount(self.process)

    def open(self, *, clean: bool) -> Log:
        self.log = Log.open(
            self.mount,
            DIRECTORY,
            PARTITION,
            TOPIC_ID,
            self.config,
            recovery_point=self.recovery_point,
            log_start_offset=self.log_start_offset,
            clean=clean,
            now_ms=2000,
        )
        return self.log

    def append(self, *values: bytes | None, epoch: int = 0, now_ms: int = 2000, **stamp: int | bool) -> AppendInfo:
        records = batch(*(values or (b"value",)), **stamp)  # type: ignore[arg-type] # the keywords of batch
        return self.log.append_as_leader(records, epoch, now_ms)

    def append_internal(
        self, records: bytes, epoch: int = 0, now_ms: int = 2000, transaction_version: int = 0
    ) -> AppendInfo:
        return self.log.append_as_leader(
            records, epoch, now_ms, origin=AppendOrigin.COORDINATOR, transaction_version=transaction_version
        )

    def sync(self) -> None:
        self.log.mark_flushed(self.log.sync(), 2000)
        self.recovery_point = self.log.recovery_point

    def kill(self) -> None:
        """``kill -9``: the page cache stays."""
        self.process.kill()
        self._power_up()

    def lose_power(self) -> None:
        self.process.kill()
        self.disk.lose_power()
        self._power_up()

    def reopen(self) -> Log:
        """Stop cleanly and start again."""
        self.log.close()
        self.log.release()
        self.process.kill()
        self._power_up()
        return self.open(clean=True)

    def path(self, name: str) -> str:
        return f"{DIRECTORY}/{name}"

    def names(self) -> list[str]:
        return self.mount.list_dir(DIRECTORY)

    def flip(self, name: str, position: int) -> None:
        """Damage one byte of a file."""
        file = self.mount.open(self.path(name))
        file.pwrite(bytes([file.pread(1, position)[0] ^ 0xFF]), position)
        file.close()


def records_of(found: FileRecords | bytes) -> list[tuple[int, bytes | None]]:
    """Offsets and values of what a read gave."""
    data = found if isinstance(found, bytes) else found.to_bytes()
    return [
        (record.offset, record.value)
        for _, one in batches(data)
        for record in read_records(one, max_decompressed=1 << 20)
    ]


def read_all(log: Log) -> list[tuple[int, bytes | None]]:
    """Every record of a log from its start, by as many reads as it takes."""
    offset = log.log_start_offset
    result: list[tuple[int, bytes | None]] = []
    while offset < log.log_end_offset:
        piece = records_of(log.read(offset, 1 << 20, at_least_one=True))
        if not piece:
            break
        result += [(number, value) for number, value in piece if number >= offset]
        offset = piece[-1][0] + 1
    return result
