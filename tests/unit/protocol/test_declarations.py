"""Declared classes as Python sees them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from kbroker.protocol.codec import encode
from kbroker.protocol.declarations import NO_VERSIONS, Versions
from kbroker.protocol.messages.fetch import FetchResponse
from kbroker.protocol.messages.metadata import MetadataRequest
from kbroker.protocol.messages.produce import ProduceRequest
from tests.unit.protocol.values import MESSAGES


def test_fields_that_are_not_given_take_kafkas_defaults() -> None:
    request = MetadataRequest()
    assert request.topics == []
    assert request.allow_auto_topic_creation is True
    assert FetchResponse.PartitionData().log_start_offset == -1


def test_arrays_and_structs_are_each_messages_own() -> None:
    first, second = FetchResponse.PartitionData(), FetchResponse.PartitionData()
    first.current_leader.leader_id = 5
    assert second.current_leader.leader_id == -1
    assert first.current_leader.leader_id == 5
    MetadataRequest().topics.append(MetadataRequest.MetadataRequestTopic())  # type: ignore[union-attr]
    assert MetadataRequest().topics == []


def test_a_misspelt_field_is_an_error() -> None:
    with pytest.raises(TypeError):
        ProduceRequest(aks=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        ProduceRequest().aks = 1  # type: ignore[attr-defined]


def test_messages_compare_by_value_and_show_their_fields() -> None:
    topic = MetadataRequest.MetadataRequestTopic(name="t")
    assert topic == MetadataRequest.MetadataRequestTopic(name="t")
    assert topic != MetadataRequest.MetadataRequestTopic(name="u")
    assert topic != "t"
    assert repr(topic) == f"MetadataRequestTopic(topic_id={bytes(16)!r}, name='t')"


def test_a_copy_of_a_message_is_a_message() -> None:
    partition = FetchResponse.PartitionData(partition_index=1)
    for each in (copy.copy(partition), copy.deepcopy(partition), pickle.loads(pickle.dumps(partition))):  # noqa: S301
        assert each == partition
        assert encode(answer_with(each), 12) == encode(answer_with(partition), 12)


def answer_with(partition: FetchResponse.PartitionData) -> FetchResponse:
    return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])])


def test_versions_are_read_in_kafkas_notation() -> None:
    assert Versions.parse("3") == (3, 3)
    assert Versions.parse("0-12") == (0, 12)
    assert Versions.parse("3+").includes(30000)
    assert Versions.parse("none") == NO_VERSIONS
    assert list(NO_VERSIONS.numbers()) == []


def test_every_struct_knows_its_message() -> None:
    for cls in MESSAGES:
        for nested in cls.structs():
            assert nested.outer is cls
            assert nested.__qualname__ == f"{cls.__name__}.{nested.__name__}"


def test_importing_declarations_writes_no_code() -> None:
    """Start-up must not pay for what it does not use."""
    program = (
        "import sys, kbroker.protocol.messages.metadata, kbroker.protocol.apis, kbroker.protocol.codec;"
        "sys.exit(any(name in sys.modules for name in ('kbroker.protocol.codec_source', 'dataclasses')))"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
