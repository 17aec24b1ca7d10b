"""Images for tests of pure functions: brokers and topics made by folding records, as everything else is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kbroker.kraft.image import EMPTY, MetadataImage, PartitionImage
from kbroker.protocol.messages.records import metadata as m

TOPIC_ID = b"topic-id-16bytes"


def directory_of(broker_id: int) -> bytes:
    return b"directory-%06d" % broker_id


def image_of(*records: Any, base: MetadataImage = EMPTY) -> MetadataImage:
    """``base`` with the records applied as one batch."""
    image, _ = base.apply(records, base.offset + 1, 1)
    return image


def broker_record(broker_id: int, *, fenced: bool = False, shutting_down: bool = False, rack: str | None = None) -> Any:
    return m.RegisterBrokerRecord(
        broker_id=broker_id,
        broker_epoch=100 + broker_id,
        incarnation_id=b"incarnation-%04d" % broker_id,
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=shutting_down,
        log_dirs=[directory_of(broker_id)],
        end_points=[
            m.RegisterBrokerRecord.BrokerEndpoint(name="PLAINTEXT", host=f"host{broker_id}", port=9092 + broker_id)
        ],
    )


def features(*, elr: bool = True) -> list[Any]:
    records = [m.FeatureLevelRecord(name="metadata.version", feature_level=33)]
    if elr:
        records.append(m.FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1))
    return records


def partition_record(
    number: int = 0,
    replicas: Sequence[int] = (1, 2, 3),
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    elr: Sequence[int] = (),
    last_known_elr: Sequence[int] = (),
    topic_id: bytes = TOPIC_ID,
) -> Any:
    isr = replicas if isr is None else isr
    return m.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(isr),
        leader=(isr[0] if isr else -1) if leader is None else leader,
        leader_epoch=5,
        partition_epoch=7,
        directories=[directory_of(each) for each in replicas],
        eligible_leader_replicas=list(elr) or None,
        last_known_elr=list(last_known_elr) or None,
    )


def three_brokers(*records: Any, elr: bool = True) -> MetadataImage:
    """Three live brokers and the topic "t", whose partitions the records may add."""
    return image_of(
        *features(elr=elr),
        *(broker_record(each) for each in (1, 2, 3)),
        m.TopicRecord(name="t", topic_id=TOPIC_ID),
        *records,
    )


def the_partition(image: MetadataImage, number: int = 0) -> PartitionImage:
    partition = image.topics.partition(TOPIC_ID, number)
    assert partition is not None
    return partition
