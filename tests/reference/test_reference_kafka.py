"""The reference itself: it starts, keeps its data through a kill, and gives out its schemas."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka, schemas

pytestmark = pytest.mark.all


def test_it_comes_back_after_a_kill_with_its_data_and_its_ports(tmp_path: Path) -> None:
    require("java")
    kafka = ReferenceKafka(tmp_path)
    kafka.start()
    try:
        kafka.tool("topics", "--create", "--topic", "kept")
        kafka.stop(kill=True)
        again = ReferenceKafka(tmp_path)
        assert (again.bootstrap, again.cluster_id) == (kafka.bootstrap, kafka.cluster_id)
        again.start()
        assert again.tool("topics", "--list").split() == ["kept"]
        again.stop()
    finally:
        kafka.stop(kill=True)


def test_every_schema_of_its_jars_is_unpacked(tmp_path: Path) -> None:
    require("java")
    files = schemas(tmp_path)
    folders = {path.parent.name for path in files}
    assert folders >= {"kafka-clients", "kafka-metadata", "kafka-raft", "kafka-group-coordinator", "kafka-storage"}
    for path in files:
        without_comments = re.sub(r"^\s*//.*$", "", path.read_text(), flags=re.MULTILINE)
        assert "type" in json.loads(without_comments), path
