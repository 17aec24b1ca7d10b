"""The metadata image: the immutable fold of the metadata log, and what changed between two of them.

``MetadataImage.apply`` is the only way from one image to the next. Images share what did not change: a batch copies the
dictionaries it touches and nothing else, so that a change of one partition costs no more with five thousand others
beside it than copying one dictionary. How an image becomes records again (snapshots) is in ``image_records``.

Invariants: nothing reachable from an image is ever modified; an image at ``offset`` is the same whether it was reached
batch by batch or through a snapshot. Follows Kafka's ``org.apache.kafka.image`` (KIP-631).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kbroker.kraft.metadata_versions import LATEST
from kbroker.types import MIGRATING_DIRECTORY, Uuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NO_LEADER: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1
METADATA_VERSION: Final = "metadata.version"

RESOURCE_TOPIC: Final = 2
RESOURCE_BROKER: Final = 4
RESOURCE_BROKER_LOGGER: Final = 8
RESOURCE_CLIENT_METRICS: Final = 16
RESOURCE_GROUP: Final = 32
"""Kafka's ``ConfigResource.Type`` ids."""

ConfigResource = tuple[int, str]
"""Type and name; the broker with the empty name stands for all brokers."""


class MetadataError(Exception):
    """A metadata record that does not fit the image before it: the log is not what a controller would write."""


class PartitionImage(NamedTuple):
    """One partition's registration (``PartitionRegistration``). ``directories`` runs beside ``replicas``."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...] = ()
    leader_recovery_state: int = RECOVERED
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    def directory_of(self, broker_id: int) -> Uuid:
        """Where a broker has its replica: a directory's id or one of the words (``kbroker.types``)."""
        if broker_id not in self.replicas or not self.directories:
            return MIGRATING_DIRECTORY
        return self.directories[self.replicas.index(broker_id)]


class TopicImage(NamedTuple):
    name: str
    id: Uuid
    partitions: Mapping[int, PartitionImage]


class Endpoint(NamedTuple):
    """Where a node listens; ``security_protocol`` is Kafka's id (0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL)."""

    name: str
    host: str
    port: int
    security_protocol: int


class BrokerImage(NamedTuple):
    """A broker's registration. ``registered_at``: its record's offset, which it must have seen before it serves."""

    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[Uuid, ...]
    cordoned_directories: tuple[Uuid, ...] | None
    registered_at: int

    @property
    def is_active(self) -> bool:
        """Whether it may lead and join an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def is_cordoned(self) -> bool:
        """Whether none of its directories takes new replicas (KIP-1066)."""
        cordoned = self.cordoned_directories or ()
        return bool(self.directories) and all(each in cordoned for each in self.directories)


class ControllerImage(NamedTuple):
    id: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]


class ClusterImage(NamedTuple):
    """Both in the order of the ids."""

    brokers: Mapping[int, BrokerImage]
    controllers: Mapping[int, ControllerImage]

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def unfenced(self) -> list[BrokerImage]:
        return [broker for broker in self.brokers.values() if not broker.fenced]


class TopicsImage(NamedTuple):
    """``colliding``: names that hold '.' or '_', by the form in which all of those are '_'."""

    by_name: Mapping[str, TopicImage]
    by_id: Mapping[Uuid, TopicImage]
    colliding: Mapping[str, tuple[str, ...]]

    def partition(self, topic_id: Uuid, partition: int) -> PartitionImage | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)


class ConfigsImage(NamedTuple):
    by_resource: Mapping[ConfigResource, Mapping[str, str]]

    def of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What is set on the resource itself, without defaults; empty when nothing is."""
        return self.by_resource.get((resource_type, name), {})

    def of_topic(self, name: str) -> Mapping[str, str]:
        return self.by_resource.get((RESOURCE_TOPIC, name), {})


@dataclass(frozen=True, slots=True)
class MetadataImage:
    """The whole of it. ``offset`` and ``epoch`` are those of the last record applied, -1 before the first.

    ``retained`` holds the newest record of what no part of the broker reads yet (ACLs, SCRAM credentials, delegation
    tokens, client quotas), so that a snapshot does not lose them.
    """

    offset: int
    epoch: int
    features: Mapping[str, int]
    cluster: ClusterImage
    topics: TopicsImage
    configs: ConfigsImage
    next_producer_id: int
    retained: Mapping[tuple[object, ...], object]

    @property
    def is_empty(self) -> bool:
        """Whether no controller has written to it yet."""
        return METADATA_VERSION not in self.features

    @property
    def metadata_version(self) -> int:
        """The level that the cluster is held at."""
        return self.features.get(METADATA_VERSION, LATEST)

    def apply(self, records: Sequence[Any], base_offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
        """Fold the records of one batch, the first at ``base_offset``. Raises ``MetadataError``."""
        return self.apply_batches([(base_offset, epoch, records)])

    def apply_batches(self, batches: Iterable[tuple[int, int, Sequence[Any]]]) -> tuple[MetadataImage, MetadataDelta]:
        """Fold batches (base offset, epoch, records) into one new image and one delta. Raises ``MetadataError``."""
        from kbroker.kraft.image_fold import Fold

        fold = Fold(self)
        last, last_epoch = self.offset, self.epoch
        for base_offset, epoch, records in batches:
            for offset, record in enumerate(records, base_offset):
                fold.replay(record, offset)
            last, last_epoch = base_offset + len(records) - 1, epoch
        return fold.finish(last, last_epoch)

    def apply_snapshot(self, records: Sequence[Any], offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
        """Fold a snapshot whose last contained record was at ``offset``; only an empty image may."""
        from kbroker.kraft.image_fold import Fold

        if self.offset >= 0:
            raise MetadataError("a snapshot is applied to an empty image only")
        fold = Fold(self)
        for record in records:
            fold.replay(record, offset)
        return fold.finish(offset, epoch)

    def at(self, offset: int, epoch: int) -> MetadataImage:
        """The same content after records that say nothing here (control records)."""
        return replace(self, offset=offset, epoch=epoch)


EMPTY: Final = MetadataImage(
    offset=-1,
    epoch=0,
    features={},
    cluster=ClusterImage({}, {}),
    topics=TopicsImage({}, {}, {}),
    configs=ConfigsImage({}),
    next_producer_id=0,
    retained={},
)


@dataclass(slots=True)
class MetadataDelta:
    """What one ``apply`` changed, as its publishers need it.

    ``changed_partitions`` holds the new registrations of created and of existing topics; a topic that was both created
    and deleted appears nowhere. ``deleted_topics`` shows topics as they were before. A broker of None is gone.
    """

    before: MetadataImage
    created_topics: dict[Uuid, TopicImage] = field(default_factory=dict)
    changed_partitions: dict[Uuid, dict[int, PartitionImage]] = field(default_factory=dict)
    deleted_topics: dict[Uuid, TopicImage] = field(default_factory=dict)
    changed_configs: dict[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    changed_features: dict[str, int] = field(default_factory=dict)
    changed_brokers: dict[int, BrokerImage | None] = field(default_factory=dict)
    next_producer_id: int | None = None

    @classmethod
    def of_everything(cls, image: MetadataImage) -> MetadataDelta:
        """The way from nothing to ``image``: what a publisher that joins late is given."""
        return cls(
            before=EMPTY,
            created_topics=dict(image.topics.by_id),
            changed_partitions={each.id: dict(each.partitions) for each in image.topics.by_id.values()},
            changed_configs=dict(image.configs.by_resource),
            changed_features=dict(image.features),
            changed_brokers=dict(image.cluster.brokers),
            next_producer_id=image.next_producer_id,
        )


def unify_collision_chars(name: str) -> str:
    """Topics whose names agree in this form would share a metric's name in Kafka (``Topic.unifyCollisionChars``)."""
    return name.replace(".", "_")


def has_collision_chars(name: str) -> bool:
    return "." in name or "_" in name
