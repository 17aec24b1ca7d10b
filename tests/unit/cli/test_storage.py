"""``kbroker storage`` does what Kafka's tool does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kbroker.cli import cli
from kbroker.host.real import RealDisk
from kbroker.kraft.controller.features import bootstrap_records
from kbroker.kraft.snapshots import read_bootstrap
from kbroker.log import meta_properties
from kbroker.types import uuid_from_string

CLUSTER = "5L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=4\nlog.dirs={tmp_path}/a,{tmp_path}/b\n")
    return path


def storage(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner(env={}).invoke(cli, ["storage", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_random_uuid_is_one_and_does_not_look_like_an_option() -> None:
    seen = {storage("random-uuid")[1].strip() for _ in range(20)}
    assert len(seen) == 20
    assert all(len(uuid_from_string(uuid)) == 16 and uuid[0] != "-" for uuid in seen)


def test_format_writes_whose_a_directory_is_and_the_features(file: Path, tmp_path: Path) -> None:
    status, output, _ = storage("format", "-t", CLUSTER, "-c", str(file), "--standalone")
    assert status == 0
    assert output.splitlines() == [
        f"Formatting metadata directory {tmp_path}/a with metadata.version 4.4-IV2.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.4-IV2.",
    ]
    disk = RealDisk(16)
    first, second = (meta_properties.read(disk, f"{tmp_path}/{name}") for name in "ab")
    assert first is not None
    assert second is not None
    assert (first.cluster_id, first.node_id) == (second.cluster_id, second.node_id) == (CLUSTER, 4)
    assert first.directory_id != second.directory_id
    assert read_bootstrap(disk, f"{tmp_path}/a") == bootstrap_records()
    assert read_bootstrap(disk, f"{tmp_path}/b") is None


def test_a_formatted_directory_is_refused_or_skipped(file: Path, tmp_path: Path) -> None:
    assert storage("format", "-t", CLUSTER, "-c", str(file))[0] == 0
    status, _, error = storage("format", "-t", CLUSTER, "-c", str(file))
    assert status == 1
    assert f"Log directory {tmp_path}/a is already formatted. Use --ignore-formatted" in error
    status, output, _ = storage("format", "-t", CLUSTER, "-c", str(file), "--ignore-formatted")
    assert (status, output) == (0, "All of the log directories are already formatted.\n")


def test_another_clusters_directory_is_refused(file: Path) -> None:
    assert storage("format", "-t", CLUSTER, "-c", str(file))[0] == 0
    status, _, error = storage("format", "-t", "4d2ChnjUT_uWSO4ynqKo8Q", "-c", str(file), "-g")
    assert status == 1
    assert "belongs to cluster 5L6g3nShT-eMCtK--X86sw" in error


def test_a_cluster_id_that_is_no_uuid_is_refused(file: Path) -> None:
    status, _, error = storage("format", "-t", "bad", "-c", str(file))
    assert status == 1
    assert "does not appear to be a valid UUID" in error


def test_info_tells_problems_by_its_status(file: Path, tmp_path: Path) -> None:
    status, output, _ = storage("info", "-c", str(file))
    assert status == 1
    assert output == f"Found problems:\n  {tmp_path}/a does not exist\n  {tmp_path}/b does not exist\n\n"
    storage("format", "-t", CLUSTER, "-c", str(file))
    status, output, _ = storage("info", "-c", str(file))
    assert status == 0
    assert output.startswith(
        f"Found log directories:\n  {tmp_path}/a\n  {tmp_path}/b\n\nFound metadata: {{cluster.id={CLUSTER}, "
    )
