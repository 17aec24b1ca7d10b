"""The metadata log and its snapshots: Apache's tools read ours, and we read Apache's."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kbroker.cli import cli
from kbroker.config import BrokerConfig
from kbroker.host.real import real_host
from kbroker.kraft import snapshots
from kbroker.kraft.controller.configs import Alteration, Operation, incremental_alter_configs
from kbroker.kraft.controller.features import bootstrap_records
from kbroker.kraft.image import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_TOPIC,
    Endpoint,
    MetadataImage,
)
from kbroker.kraft.lifecycle import BrokerLifecycle
from kbroker.kraft.quorum import Quorum
from kbroker.protocol.messages.records import metadata as m
from kbroker.protocol.record_codec import decode_metadata_record_version
from kbroker.protocol.records.batch import batches, read_records
from kbroker.replies import settled
from tests.broker_process import BrokerProcess
from tests.reference.comparison import differences, labelled
from tests.reference.conversation import Conversation
from tests.reference.questions.configs import replacement
from tests.reference.questions.create_partitions import growth
from tests.reference.questions.delete_topics import deletion
from tests.reference.questions.elect_leaders import election
from tests.reference.questions.incremental_alter_configs import APPEND, DELETE, SET, alteration
from tests.reference.questions.quorum import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, update
from tests.reference.questions.reassignments import reassignment
from tests.reference.questions.scenery import create_topic
from tests.toolchains import require
from tests.unit.kraft.world import topic
from tools.reference_kafka import ReferenceKafka, tool

pytestmark = pytest.mark.all

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
MADE = re.compile(r"made-\d{7}-\d{7}")


def run_node(directory: Path, work: Callable[[Quorum], Coroutine[Any, Any, None]], **settings: str) -> MetadataImage:
    """Start a quorum of one on a real directory, work with it, stop it cleanly; the last image."""

    async def life() -> MetadataImage:
        host = real_host(asyncio.get_running_loop())
        values = {"log.dirs": str(directory), "node.id": "1", "kbroker.fsync": "false"}
        failures: list[BaseException] = []
        quorum = Quorum(
            config=BrokerConfig({**values, **{name.replace("_", "."): value for name, value in settings.items()}}),
            cluster_id=CLUSTER_ID,
            directory_id=b"0123456789abcdef",
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
    metadata = directory / snapshots.METADATA_DIRECTORY

    async def until_there_is_a_snapshot(quorum: Quorum) -> None:
        """Beside that of the bootstrap; a stop does not wait for one."""
        await busy(quorum)
        for _ in iter(lambda: len(list(metadata.glob("*.checkpoint"))) < 2, False):
            await asyncio.sleep(0.01)

    run_node(directory, until_there_is_a_snapshot, metadata_log_max_record_bytes_between_snapshots="4000")
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


STEPS = (
    ("metadata.version", 12),
    ("metadata.version", 16),
    ("metadata.version", 22),
    ("metadata.version", 29),
    ("eligible.leader.replicas.version", 1),
    ("metadata.version", 33),
)


def administer(bootstrap: str) -> dict[str, Any]:
    """Change something of every kind, then raise a level and do so again; what was answered about levels."""
    c = Conversation(bootstrap)
    try:
        change_everything(c, 0)
        for number, (feature, level) in enumerate(STEPS, 1):
            ask_for_levels(c, level)
            c.ask(update((feature, level, UPGRADE), version=1, validate_only=False), 1)
            change_everything(c, number)
        for level, kind in ((0, SAFE_DOWNGRADE), (2, UPGRADE)):
            c.ask(update(("transaction.version", level, kind), version=1, validate_only=False), 1)
    finally:
        c.close()
    return labelled(c.transcript)


def ask_for_levels(c: Conversation, level: int) -> None:
    """Which levels could be had, by themselves and together."""
    for name in ("metadata.version", "eligible.leader.replicas.version", "group.version", "transaction.version"):
        for wanted in (0, 1, 7, level - 1, level, level + 1):
            for kind in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
                c.ask(update((name, wanted, kind), version=1), 1, label=f"{name} {wanted} {kind} before {level}")
    both = (("metadata.version", level, UPGRADE), ("eligible.leader.replicas.version", 1, UPGRADE))
    c.ask(update(*both, version=1), 1, label=f"with eligible leader replicas before {level}")


def change_everything(c: Conversation, number: int) -> None:
    topic, _ = create_topic(c, "made", 2, {"retention.ms": "5", "cleanup.policy": "compact", "flush.ms": "7"})
    bounded, _ = create_topic(c, "made", 1, {"min.insync.replicas": "1", "retention.ms": "5"})
    for request, version in (
        (growth(topic, 3), 3),
        (reassignment(topic, (0, [1])), 1),
        (election([(topic, [0])]), 2),
        (alteration(topic, ("segment.ms", SET, "6"), ("cleanup.policy", APPEND, "delete")), 1),
        (alteration(topic, ("min.insync.replicas", SET, "1"), ("segment.ms", DELETE, None)), 1),
        (replacement(RESOURCE_TOPIC, topic, ("segment.bytes", "2000000"), ("flush.ms", "9")), 2),
        (alteration("m", ("interval.ms", SET, str(1000 + number)), kind=RESOURCE_CLIENT_METRICS), 1),
        (alteration("1", ("min.insync.replicas", SET, "1"), kind=RESOURCE_BROKER), 1),
        (alteration("1", ("log.retention.ms", SET, "50000"), kind=RESOURCE_BROKER), 1),
        (alteration("", ("min.insync.replicas", SET, "1"), kind=RESOURCE_BROKER), 1),
        (replacement(RESOURCE_BROKER, "1"), 2),
        (deletion(6, bounded), 6),
    ):
        c.ask(request, version, note=False)


WRITTEN_BY_THEMSELVES = (
    m.NoOpRecord,
    m.RegisterBrokerRecord,
    m.RegisterControllerRecord,
    m.BrokerRegistrationChangeRecord,
    m.PartitionChangeRecord,
)
"""When brokers and controllers write of themselves, and where replicas are, is their own affair and takes its time."""


def decisions(directory: Path) -> str:
    """Every record that a request led to, with its version; topic ids are shown as which of them it is."""
    ids: dict[bytes, str] = {}

    def shown(name: str, value: Any) -> object:
        if name == "directories":
            return len(value)
        return ids.setdefault(value, f"<id {len(ids)}>") if isinstance(value, bytes) else value

    lines = []
    for header, batch in batches((directory / snapshots.METADATA_DIRECTORY / f"{'0' * 20}.log").read_bytes()):
        for record in () if header.is_control else read_records(batch, max_decompressed=1 << 24):
            message, version = decode_metadata_record_version(record.value or b"")
            if not isinstance(message, WRITTEN_BY_THEMSELVES):
                fields = {name: shown(name, getattr(message, name)) for name in message.fields}
                lines.append(MADE.sub("made", f"{type(message).__name__} {version} {fields}"))
    return "\n".join(lines)


def test_the_same_administration_is_answered_and_leaves_records_alike_at_every_level(tmp_path: Path) -> None:
    require("java")
    own = tmp_path / "own"
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=1\nlog.dirs={own}\n")
    formatting = ["storage", "format", "-t", CLUSTER_ID, "-c", str(file), "--release-version", "3.3"]
    assert CliRunner().invoke(cli, formatting).exit_code == 0
    with (
        BrokerProcess(own) as kbroker,
        ReferenceKafka(tmp_path / "reference", formatting=["--release-version=3.3"]) as reference,
    ):
        expected, answered = administer(reference.bootstrap), administer(kbroker.bootstrap)
        mine, theirs = decisions(own), decisions(reference.data_dir())
    assert "\n".join(map(str, differences("levels", expected, answered))) == ""
    assert "ClearElrRecord" in mine
    assert mine == theirs


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
