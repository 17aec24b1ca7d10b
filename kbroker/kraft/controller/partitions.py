"""How a partition's leader, ISR and ELR change (Kafka's ``PartitionChangeBuilder``, KIP-966).

With eligible leader replicas (``eligible.leader.replicas.version`` 1) an ISR may become empty: a replica that leaves an
ISR below ``min.insync.replicas`` stays eligible in the ELR unless it shut down uncleanly, and the last leader is
remembered in ``last_known_elr`` to be elected when nobody else can be.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

from kbroker.config import BrokerConfig
from kbroker.kraft.image import (
    NO_LEADER,
    RECOVERING,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kbroker.kraft.image_fold import NO_LEADER_CHANGE
from kbroker.protocol.messages.records.metadata import ClearElrRecord, ConfigRecord, PartitionChangeRecord
from kbroker.types import UNASSIGNED_DIRECTORY, Uuid, is_directory

ELR_FEATURE: Final = "eligible.leader.replicas.version"
MIN_ISR: Final = "min.insync.replicas"
NOBODY: Final = -1


class Election(Enum):
    """Which leaders an election may choose."""

    ONLINE = "any eligible replica, the current leader first"
    PREFERRED = "the first replica before all others"
    UNCLEAN = "any live replica when no eligible one is there"


class Reassignment(NamedTuple):
    """Which replicas a partition shall have: ``replicas`` holds those that come and, last, those that go."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    directories: Mapping[int, Uuid] = {}
    """Where those that come put their logs, as far as it is known."""

    @property
    def is_in_progress(self) -> bool:
        return bool(self.adding or self.removing)


def change_partition(
    topic_id: Uuid,
    number: int,
    partition: PartitionImage,
    *,
    is_acceptable_leader: Callable[[int], bool],
    min_isr: int,
    elr_enabled: bool,
    target_isr: Iterable[int] | None = None,
    target: Reassignment | None = None,
    unclean_shutdown: int = NOBODY,
    election: Election = Election.ONLINE,
    directories: Mapping[int, Uuid] | None = None,
) -> PartitionChangeRecord | None:
    """The record that takes the partition to the target ISR with a fitting leader; None when nothing changes.

    ``target`` is what its replicas shall be; a reassignment whose new replicas are in sync completes at once.
    ``directories`` says where brokers have put their replicas.
    """
    isr = list(partition.isr if target_isr is None else target_isr)
    wanted = target or Reassignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)
    wanted, isr = _completed(wanted, isr)
    elr = _next_elr(partition, isr, min_isr, unclean_shutdown) if elr_enabled else []
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=number)
    leader, unclean = _elect(partition, wanted.replicas, isr, elr, is_acceptable_leader, elr_enabled, election)
    if leader != partition.leader:
        record.leader = leader
        if leader in elr:
            isr = [leader]
            elr = [each for each in elr if each != leader]
        if unclean:
            # Forcing the ISR to the new leader alone may lose records: it recovers first.
            record.isr = [leader]
            elr = []
            if partition.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
    elif any(each not in wanted.replicas for each in partition.replicas):
        # Who leaves must hear of it: the leader stays and its epoch rises.
        record.leader = partition.leader
    if elr != list(partition.elr):
        record.eligible_leader_replicas = elr
    if record.isr is None and (isr or elr_enabled) and isr != list(partition.isr):
        record.isr = isr
    if elr_enabled:
        _remember_last_leader(record, partition)
    _set_replicas(record, partition, wanted)
    if directories:
        _set_directories(record, partition, directories)
    return None if _says_nothing(record) else record


def _completed(wanted: Reassignment, isr: list[int]) -> tuple[Reassignment, list[int]]:
    """The same without adding and removing when all who stay are in sync (``maybeCompleteReassignment``)."""
    if not wanted.is_in_progress:
        return wanted, isr
    staying = tuple(each for each in wanted.replicas if each not in wanted.removing)
    staying_isr = [each for each in isr if each not in wanted.removing]
    if not staying_isr or any(each not in staying_isr for each in staying):
        return wanted, isr
    return Reassignment(staying), staying_isr


def _set_replicas(record: PartitionChangeRecord, partition: PartitionImage, wanted: Reassignment) -> None:
    if wanted.replicas != partition.replicas:
        record.replicas = list(wanted.replicas)
        if partition.directories or wanted.directories:
            known = {each: partition.directory_of(each) for each in partition.replicas} | dict(wanted.directories)
            record.directories = [known.get(each, UNASSIGNED_DIRECTORY) for each in wanted.replicas]
    if wanted.removing != partition.removing_replicas:
        record.removing_replicas = list(wanted.removing)
    if wanted.adding != partition.adding_replicas:
        record.adding_replicas = list(wanted.adding)


def _set_directories(record: PartitionChangeRecord, partition: PartitionImage, directories: Mapping[int, Uuid]) -> None:
    known = [directories.get(each) or partition.directory_of(each) for each in partition.replicas]
    if known != list(partition.directories):
        record.directories = known


def _next_elr(partition: PartitionImage, isr: list[int], min_isr: int, unclean_shutdown: int) -> list[int]:
    if len(isr) >= min_isr:
        return []
    candidates = dict.fromkeys((*partition.elr, *partition.isr))
    return sorted(each for each in candidates if each not in isr and each != unclean_shutdown)


def _elect(
    partition: PartitionImage,
    replicas: Sequence[int],
    isr: list[int],
    elr: list[int],
    is_acceptable: Callable[[int], bool],
    elr_enabled: bool,
    election: Election,
) -> tuple[int, bool]:
    """The leader, and whether choosing it is unclean."""

    def is_valid(replica: int) -> bool:
        return (replica in isr or (not isr and replica in elr)) and is_acceptable(replica)

    candidates = [*replicas]
    if election is Election.PREFERRED:
        candidates.insert(1, partition.leader)
    else:
        candidates.insert(0, partition.leader)
    for replica in candidates:
        if is_valid(replica):
            return replica, False
    if elr_enabled and not elr and not isr and len(partition.last_known_elr) == 1:
        last_leader = partition.last_known_elr[0]
        if is_acceptable(last_leader):
            return last_leader, True
    if election is Election.UNCLEAN:
        for replica in replicas:
            if is_acceptable(replica):
                return replica, True
    return NO_LEADER, False


def _remember_last_leader(record: PartitionChangeRecord, partition: PartitionImage) -> None:
    if record.isr is not None and not record.isr:
        if partition.leader != NO_LEADER and partition.last_known_elr != (partition.leader,):
            record.last_known_elr = [partition.leader]
        return
    led_before = partition.leader != NO_LEADER and record.leader != NO_LEADER
    if (record.leader >= 0 or led_before) and partition.last_known_elr:
        record.last_known_elr = []


def _says_nothing(record: PartitionChangeRecord) -> bool:
    return (
        record.isr is None
        and record.leader == NO_LEADER_CHANGE
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.directories is None
        and record.adding_replicas is None
        and record.removing_replicas is None
        and record.leader_recovery_state == -1
    )


# --- what the configuration says of a topic


def is_elr_enabled(image: MetadataImage) -> bool:
    return image.features.get(ELR_FEATURE, 0) >= 1


def clear_elr_records(image: MetadataImage, configs: Iterable[ConfigRecord]) -> list[ClearElrRecord]:
    """Another minimum ISR, and who was eligible under the old one is not any more (KIP-966): what must follow.

    The records name the topic, or none where the minimum is the cluster's.
    """
    if not is_elr_enabled(image):
        return []
    return [
        ClearElrRecord(topic_name=each.resource_name if each.resource_type == RESOURCE_TOPIC else "")
        for each in configs
        if each.name == MIN_ISR
    ]


def _effective(image: MetadataImage, topic: str, key: str) -> str | None:
    own = image.configs.of_topic(topic).get(key)
    return image.configs.of(RESOURCE_BROKER, "").get(key) if own is None else own


def effective_min_isr(image: MetadataImage, topic: TopicImage, config: BrokerConfig) -> int:
    """``min.insync.replicas``, but never more than the topic has replicas."""
    configured = _effective(image, topic.name, MIN_ISR)
    wanted = config.integer(MIN_ISR) if configured is None else int(configured)
    first = next(iter(topic.partitions.values()), None)
    return wanted if first is None else min(wanted, len(first.replicas))


def election_for(image: MetadataImage, topic: str, config: BrokerConfig) -> Election:
    configured = _effective(image, topic, "unclean.leader.election.enable")
    unclean = config.boolean("unclean.leader.election.enable") if configured is None else configured == "true"
    return Election.UNCLEAN if unclean else Election.ONLINE


# --- brokers that come and go


def accepts_leader(image: MetadataImage, broker_id: int, partition: PartitionImage) -> bool:
    """Whether a broker lives and its replica's directory is online."""
    broker = image.cluster.brokers.get(broker_id)
    if broker is None or not broker.is_active:
        return False
    return _is_directory_online(image, broker_id, partition)


def _is_directory_online(image: MetadataImage, broker_id: int, partition: PartitionImage) -> bool:
    broker = image.cluster.brokers.get(broker_id)
    directory = partition.directory_of(broker_id)
    return broker is None or not is_directory(directory) or not broker.directories or directory in broker.directories


def leader_and_isr_updates(
    image: MetadataImage,
    config: BrokerConfig,
    *,
    removed: int = NOBODY,
    added: int = NOBODY,
    unclean_shutdown: int = NOBODY,
    among: Collection[tuple[Uuid, int]] | None = None,
) -> Iterator[PartitionChangeRecord]:
    """What becomes of partitions when a broker is fenced (``removed``), unfenced (``added``) or comes back unclean.

    ``among`` limits it to some partitions, by topic id and number: those of a directory that the broker lost.
    ``added`` may lead although the image still shows it fenced; the others may not although it shows them live.
    """
    elr_enabled = is_elr_enabled(image)
    for topic in image.topics.by_id.values():
        concerned = [
            (number, partition)
            for number, partition in topic.partitions.items()
            if (among is None or (topic.id, number) in among)
            and _is_concerned(partition, removed, added, unclean_shutdown)
        ]
        if not concerned:
            continue
        min_isr = effective_min_isr(image, topic, config)
        election = election_for(image, topic.name, config)
        for number, partition in concerned:

            def is_acceptable(replica: int, partition: PartitionImage = partition) -> bool:
                if replica in (removed, unclean_shutdown):
                    return False
                if replica == added:
                    return _is_directory_online(image, replica, partition)
                return accepts_leader(image, replica, partition)

            record = change_partition(
                topic.id,
                number,
                partition,
                is_acceptable_leader=is_acceptable,
                min_isr=min_isr,
                elr_enabled=elr_enabled,
                target_isr=_isr_without(partition, (removed, unclean_shutdown), keep_last=not elr_enabled),
                unclean_shutdown=unclean_shutdown,
                election=election,
            )
            if record is not None:
                yield record


def _is_concerned(partition: PartitionImage, removed: int, added: int, unclean_shutdown: int) -> bool:
    if added != NOBODY and partition.leader == NO_LEADER:
        return True
    if removed != NOBODY and removed in partition.isr:
        return True
    return unclean_shutdown != NOBODY and (unclean_shutdown in partition.isr or unclean_shutdown in partition.elr)


def _isr_without(partition: PartitionImage, brokers: tuple[int, int], *, keep_last: bool) -> list[int]:
    left = [each for each in partition.isr if each not in brokers]
    return list(partition.isr) if keep_last and not left else left
