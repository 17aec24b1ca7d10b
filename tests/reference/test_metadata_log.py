"""The metadata log and its snapshots: Apache's tools read ours, and we read Apache's."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from kbroker.config import BrokerConfig
from kbroker.host.real import real_host
from kbroker.kraft import snapshots
from kbroker.kraft.controller.configs import Alteration, Operation, incremental_alter_configs
from kbroker.kraft.controller.features import bootstrap_records
from kbroker.kraft.image import RESOURCE_TOPIC, Endpoint, MetadataImage
from kbroker.kraft.lifecycle import BrokerLifecycle
from kbroker.kraft.quorum import Quorum
from kbroker.replies import settled
from tests.unit.kraft.world import topic
from tools.reference_kafka import ReferenceKafka, tool

pytestmark = pytest.mark.all

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def run_node(directory: Path, work: Callable[[Quorum], Coroutine[Any, Any, None]], **settings: str) -> MetadataImage:
    """Start a quorum of one on a real directory, work with it, stop it cleanly; the last image."""

    async def life() -> MetadataImage:
        host = real_host(asyncio.get_running_loop())
        values = {"log.dirs": str(directory), "node.id": "1", "kbroker.fsync": "false"}
        failures: list[BaseException] = []
        quorum = Quorum(
            config=BrokerConfig({**values, **{name.replace("_", "."): value for name, value in settings.items()}}),
            cluster_id=CLUSTER_ID,
            host=host,
            failed=failures.append,
        )
        if not host.disk.exists(str(directory)):
            snapshots.write_bootstrap(host.disk, str(directory), bootstrap_records(), host.clock.wall_ms())
        await quorum.start()
        lifecycle = BrokerLifecycle(
            quorum,
            incarnation_id=host.random.randbytes(16),
            endpoints=[Endpoint("PLAINTEXT", "localhost", 9092, 0)],
            directories=[b"0123456789abcdef"],
        )
        await lifecycle.register()
        await lifecycle.unfence()
        await work(quorum)
        await lifecycle.shut_down()
        await quorum.stop()
        assert not failures
        return quorum.image

    return asyncio.run(life())


async def busy(quorum: Quorum) -> None:
    for number in range(20):
        await settled(quorum.create_topics([topic(f"t-{number}", 3, configs={"retention.ms": "7"})]))
    await settled(quorum.delete_topics([quorum.image.topics.by_name["t-3"].id]))
    change = {(RESOURCE_TOPIC, "t-1"): [Alteration("retention.ms", Operation.SET, "8")]}
    await settled(quorum.decide(lambda image, config: incremental_alter_configs(image, change, config)))
    await settled(quorum.allocate_producer_ids(1, quorum.image.cluster.brokers[1].epoch))


def dump(path: Path) -> str:
    return tool("dump-log", "--cluster-metadata-decoder", "--files", str(path))


def test_apaches_tool_reads_our_log_and_our_snapshots(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    run_node(directory, busy, metadata_log_max_record_bytes_between_snapshots="4000")
    metadata = directory / snapshots.METADATA_DIRECTORY
    log = dump(metadata / f"{'0' * 20}.log")
    for kind in (
        "LeaderChange",
        "FEATURE_LEVEL",
        "REGISTER_BROKER",
        "TOPIC_RECORD",
        "PARTITION_CHANGE",
        "REMOVE_TOPIC",
    ):
        assert kind in log
    assert "PRODUCER_IDS" in log
    assert "isvalid: false" not in log
    checkpoints = sorted(metadata.glob("*.checkpoint"))
    assert len(checkpoints) == 2
    for checkpoint in checkpoints:
        text = dump(checkpoint)
        assert "SnapshotHeader" in text
        assert "SnapshotFooter" in text
        assert '"name":"metadata.version","featureLevel":33' in text


def test_we_read_what_apache_kafka_wrote(reference: ReferenceKafka, tmp_path: Path) -> None:
    reference.tool("topics", "--create", "--topic", "of-apache", "--partitions", "3", "--config", "retention.ms=9")
    source = reference.data_dir() / snapshots.METADATA_DIRECTORY
    target = tmp_path / "data" / snapshots.METADATA_DIRECTORY
    shutil.copytree(source, target)

    async def look(quorum: Quorum) -> None:
        described = quorum.image.topics.by_name["of-apache"]
        assert len(described.partitions) == 3
        assert quorum.image.configs.of_topic("of-apache") == {"retention.ms": "9"}
        assert quorum.epoch >= 2

    image = run_node(tmp_path / "data", look)
    assert image.features["metadata.version"] == 33
