"""``kbroker log dump`` and ``kbroker log verify``."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kbroker.cli import cli
from kbroker.host.real import RealDisk
from kbroker.log.log import Log
from kbroker.types import TopicPartition
from tests.unit.log.cleaning import keyed_batch
from tests.unit.log.logs import topic_config

LOG = "0" * 20 + ".log"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with one stopped partition of several segments, and a checkpoint."""
    directory = tmp_path / "orders-0"
    config = topic_config(internal_segment_bytes=300, index_interval_bytes=0)
    log = Log.open(RealDisk(), str(directory), TopicPartition("orders", 0), bytes(16), config, clean=True)
    for number in range(10):
        log.append_as_leader(
            keyed_batch((b"key", b"%d" % number), (b"\xff", None), producer_id=4, sequence=2 * number), 3, 1000
        )
    log.close()
    log.release()
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 20\n")
    return tmp_path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["log", *map(str, arguments)])


def test_a_dump_shows_batches_and_on_demand_records(data: Path) -> None:
    plain = run("dump", data / "orders-0" / LOG)
    assert plain.exit_code == 0
    assert "batch base_offset=0 last_offset=1 count=2 position=0" in plain.output
    assert "record" not in plain.output
    full = run("dump", "--records", data / "orders-0" / LOG)
    assert "  record offset=0 timestamp=1000 key=key value=0" in full.output
    assert "  record offset=1 timestamp=1001 key=base64:/w== value=null" in full.output


def test_a_dump_of_a_directory_is_one_json_object_a_line(data: Path) -> None:
    result = run("dump", data, "--records", "--format", "json")
    assert result.exit_code == 0
    entries = [json.loads(line) for line in result.output.splitlines()]
    kinds = {entry["kind"] for entry in entries}
    assert kinds == {"file", "batch", "record", "index", "timeindex", "producer", "epoch", "offset"}
    assert sum(entry["kind"] == "record" for entry in entries) == 20
    assert {entry["last_sequence"] for entry in entries if entry["kind"] == "producer"} >= {19}
    assert {"kind": "offset", "partition": "orders-0", "offset": 20} in entries


def test_what_is_well_is_said_to_be_fine(data: Path) -> None:
    result = run("verify", data)
    assert (result.exit_code, result.output.splitlines()[-1][-11:]) == (0, "no problems")
    assert "offsets 0 to 20, 10 batches, fine" in result.output
    assert run("verify", "-q", data / "orders-0").output.startswith("1 logs, 10 batches, 20 records")


@pytest.mark.parametrize(
    ("name", "position", "said"),
    [
        (LOG, 70, "byte 0: the batch at offset 0 has a wrong CRC"),
        (LOG, 7, "comes after offset 256"),
        (LOG, 16, "is corrupt at byte 0: a batch of format"),
        ("0" * 20 + ".index", 7, "an entry does not follow the one before"),
        ("0" * 20 + ".index", 3, "is corrupt at byte"),
        ("0" * 20 + ".timeindex", 6, "there is 1001"),
    ],
)
def test_damage_is_found_and_named(data: Path, name: str, position: int, said: str) -> None:
    path = data / "orders-0" / name
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF if position != 6 else 0x03
    path.write_bytes(content)
    result = run("verify", data)
    assert result.exit_code == 1
    assert said in result.output


def test_a_damaged_snapshot_and_a_torn_tail_are_found(data: Path) -> None:
    directory = data / "orders-0"
    snapshot = min(directory.glob("*.snapshot"))
    snapshot.write_bytes(snapshot.read_bytes()[:-1])
    last = max(directory.glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    result = run("verify", data)
    assert snapshot.name in result.output
    assert f"{last.name} is corrupt" in result.output
    assert run("dump", last).exit_code == 1


def test_each_index_is_verified_by_itself(data: Path) -> None:
    directory = data / "orders-0"
    (directory / f"{0:020d}.index").unlink()
    assert run("verify", data).exit_code == 0
    times = directory / f"{0:020d}.timeindex"
    times.write_bytes(struct.pack(">qi", 0, 1) + times.read_bytes()[12:])
    (directory / f"{0:020d}.txnindex").write_bytes(b"torn")
    result = run("verify", data)
    assert result.exit_code == 1
    assert f"{0:020d}.timeindex: the entry of offset 1 says 0, there is 1001" in result.output
    assert f"{0:020d}.txnindex is corrupt at byte 0: 4 bytes are no multiple of 34" in result.output
    times.unlink()
    assert ".timeindex" not in run("verify", data).output


def test_directories_that_hold_no_logs_are_not_called_fine(tmp_path: Path) -> None:
    (tmp_path / "polkit-1").mkdir()
    result = run("verify", tmp_path)
    assert (result.exit_code, result.output.splitlines()[0]) == (1, f"{tmp_path}: there are no logs")


@pytest.mark.parametrize("name", ["dump", "verify"])
def test_a_path_where_nothing_is_is_a_wrong_argument(tmp_path: Path, name: str) -> None:
    result = run(name, tmp_path / "nothing")
    assert result.exit_code == 2
    assert f"'{tmp_path}/nothing' does not exist" in result.output
