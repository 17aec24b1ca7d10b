"""A snapshot of the metadata that is being written when the broker stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.config import BrokerConfig
from kbroker.host.real import real_host
from kbroker.kraft import snapshot_keeper
from kbroker.kraft.image import EMPTY, MetadataImage
from kbroker.kraft.raft.voters import Voter, Voters
from kbroker.kraft.snapshot_keeper import SnapshotKeeper
from kbroker.protocol.messages.records.metadata import FeatureLevelRecord


class Log:
    """What a snapshot asks of the metadata log."""

    written_bytes = 1000
    size = 1000

    def drop_before(self, offset: int) -> Callable[[], None]:
        raise AssertionError(f"nothing may go before {offset}")


@pytest.mark.parametrize("stops", [True, False])
def test_a_stop_does_not_wait_for_a_snapshot_of_a_large_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: bool
) -> None:
    begun, asked = threading.Event(), threading.Event()
    taken: list[int] = []

    def many_records(_image: MetadataImage) -> Iterator[Any]:
        for number in range(100):
            taken.append(number)
            yield FeatureLevelRecord(name="metadata.version", feature_level=1)
            begun.set()
            assert asked.wait(60)

    async def run() -> None:
        failures: list[BaseException] = []
        host = real_host(asyncio.get_running_loop())
        config = BrokerConfig({"metadata.log.max.record.bytes.between.snapshots": "1"})
        state = (EMPTY, 0, Voters((Voter(1),)))
        keeper = SnapshotKeeper(Log(), str(tmp_path), config, host, lambda: state, failures.append)  # type: ignore[arg-type] # all of a log that it needs
        keeper.on_committed()
        await asyncio.to_thread(begun.wait, 60)
        stop = asyncio.ensure_future(keeper.stop())
        if stops:
            await asyncio.sleep(0)
        else:
            stop.cancel()
        asked.set()
        await asyncio.wait([stop])
        host.workers.close()
        assert failures == []

    monkeypatch.setattr(snapshot_keeper, "image_records", many_records)
    asyncio.run(run())
    assert len(taken) == (2 if stops else 100)
    assert len(list(tmp_path.iterdir())) == (0 if stops else 1)
