"""How each metadata record changes the image: the one place where metadata state is mutated.

``Fold`` is alive for one ``MetadataImage.apply`` only: it copies what it touches, takes records, and freezes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kbroker.kraft.image import (
    METADATA_VERSION,
    RESOURCE_TOPIC,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    ConfigsImage,
    ControllerImage,
    Endpoint,
    MetadataDelta,
    MetadataError,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
    has_collision_chars,
    unify_collision_chars,
)
from kbroker.protocol.messages.records import metadata as m
from kbroker.types import Uuid

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_CHANGE: Final = -1


class Fold:
    """One image in the making. Owner: ``MetadataImage.apply``."""

    __slots__ = (
        "_before",
        "_brokers",
        "_by_id",
        "_by_name",
        "_colliding",
        "_configs",
        "_controllers",
        "_delta",
        "_features",
        "_next_producer_id",
        "_partitions",
        "_retained",
        "_topics_changed",
        "_touched_configs",
    )

    def __init__(self, before: MetadataImage) -> None:
        self._before = before
        self._delta = MetadataDelta(before)
        self._by_name: dict[str, TopicImage] = {}
        self._by_id: dict[Uuid, TopicImage] = {}
        self._colliding: dict[str, tuple[str, ...]] = {}
        self._topics_changed = False
        self._partitions: dict[Uuid, dict[int, PartitionImage]] = {}
        self._touched_configs: dict[ConfigResource, dict[str, str]] = {}
        self._brokers: dict[int, BrokerImage] | None = None
        self._controllers: dict[int, ControllerImage] | None = None
        self._features: dict[str, int] | None = None
        self._retained: dict[tuple[object, ...], object] | None = None
        self._next_producer_id = before.next_producer_id

    def replay(self, record: Any, offset: int) -> None:
        """Take one record. Raises ``MetadataError`` when it does not fit."""
        replay = _REPLAYS.get(type(record))
        if replay is None:
            raise MetadataError(
                f"metadata records of type {type(record).__name__} are not known here (offset {offset})"
            )
        replay(self, record, offset)

    def finish(self, offset: int, epoch: int) -> tuple[MetadataImage, MetadataDelta]:
        before = self._before
        image = MetadataImage(
            offset=offset,
            epoch=epoch,
            features=before.features if self._features is None else self._features,
            cluster=self._finish_cluster(),
            topics=self._finish_topics(),
            configs=self._finish_configs(),
            next_producer_id=self._next_producer_id,
            retained=before.retained if self._retained is None else self._retained,
        )
        return image, self._delta

    # --- topics

    def _touch_topics(self) -> None:
        if not self._topics_changed:
            topics = self._before.topics
            self._by_name, self._by_id = dict(topics.by_name), dict(topics.by_id)
            self._colliding = dict(topics.colliding)
            self._topics_changed = True

    def _touch_partitions(self, topic_id: Uuid, record: object) -> dict[int, PartitionImage]:
        partitions = self._partitions.get(topic_id)
        if partitions is None:
            topic = (self._by_id if self._topics_changed else self._before.topics.by_id).get(topic_id)
            if topic is None:
                raise MetadataError(f"{record} names a topic that is not known")
            partitions = self._partitions[topic_id] = dict(topic.partitions)
        return partitions

    def topic(self, record: m.TopicRecord, _offset: int) -> None:
        self._touch_topics()
        if record.name in self._by_name:
            raise MetadataError(f"{record} creates a topic that exists")
        topic = TopicImage(record.name, record.topic_id, {})
        self._by_name[record.name] = self._by_id[record.topic_id] = topic
        self._partitions[record.topic_id] = {}
        self._delta.created_topics[record.topic_id] = topic
        self._delta.changed_partitions[record.topic_id] = {}
        if has_collision_chars(record.name):
            form = unify_collision_chars(record.name)
            self._colliding[form] = (*self._colliding.get(form, ()), record.name)

    def partition(self, record: m.PartitionRecord, _offset: int) -> None:
        partitions = self._touch_partitions(record.topic_id, record)
        image = PartitionImage(
            replicas=tuple(record.replicas),
            isr=tuple(record.isr),
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=tuple(record.directories),
            leader_recovery_state=record.leader_recovery_state,
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
        )
        self._set_partition(record.topic_id, record.partition_id, image, partitions)

    def partition_change(self, record: m.PartitionChangeRecord, _offset: int) -> None:
        partitions = self._touch_partitions(record.topic_id, record)
        old = partitions.get(record.partition_id)
        if old is None:
            raise MetadataError(f"{record} names a partition that is not known")
        self._set_partition(record.topic_id, record.partition_id, merge(old, record), partitions)

    def _set_partition(
        self, topic_id: Uuid, partition: int, image: PartitionImage, partitions: dict[int, PartitionImage]
    ) -> None:
        partitions[partition] = image
        changed = self._delta.changed_partitions.get(topic_id)
        if changed is None:
            changed = self._delta.changed_partitions[topic_id] = {}
        changed[partition] = image

    def remove_topic(self, record: m.RemoveTopicRecord, _offset: int) -> None:
        self._touch_topics()
        topic = self._by_id.pop(record.topic_id, None)
        if topic is None:
            raise MetadataError(f"{record} removes a topic that is not known")
        del self._by_name[topic.name]
        self._partitions.pop(topic.id, None)
        self._delta.changed_partitions.pop(topic.id, None)
        if self._delta.created_topics.pop(topic.id, None) is None:
            self._delta.deleted_topics[topic.id] = self._before.topics.by_id[topic.id]
        if has_collision_chars(topic.name):
            form = unify_collision_chars(topic.name)
            left = tuple(each for each in self._colliding.get(form, ()) if each != topic.name)
            if left:
                self._colliding[form] = left
            else:
                self._colliding.pop(form, None)
        if self._config((RESOURCE_TOPIC, topic.name)):
            self._touched_configs[RESOURCE_TOPIC, topic.name] = {}

    def clear_elr(self, record: m.ClearElrRecord, _offset: int) -> None:
        by_name = self._by_name if self._topics_changed else self._before.topics.by_name
        topics = [by_name[record.topic_name]] if record.topic_name else list(by_name.values())
        for topic in topics:
            for number, partition in list(self._partitions.get(topic.id, topic.partitions).items()):
                if partition.elr or partition.last_known_elr:
                    epoch = partition.partition_epoch + 1
                    image = partition._replace(elr=(), last_known_elr=(), partition_epoch=epoch)
                    self._set_partition(topic.id, number, image, self._touch_partitions(topic.id, record))

    def _finish_topics(self) -> TopicsImage:
        if self._partitions:
            self._touch_topics()
        for topic_id, partitions in self._partitions.items():
            old = self._by_id[topic_id]
            topic = TopicImage(old.name, topic_id, partitions)
            self._by_id[topic_id] = self._by_name[old.name] = topic
            if topic_id in self._delta.created_topics:
                self._delta.created_topics[topic_id] = topic
        if not self._topics_changed:
            return self._before.topics
        return TopicsImage(self._by_name, self._by_id, self._colliding)

    # --- configs

    def _config(self, resource: ConfigResource) -> dict[str, str]:
        configs = self._touched_configs.get(resource)
        return dict(self._before.configs.by_resource.get(resource, {})) if configs is None else configs

    def config(self, record: m.ConfigRecord, _offset: int) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = self._touched_configs[resource] = self._config(resource)
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def _finish_configs(self) -> ConfigsImage:
        if not self._touched_configs:
            return self._before.configs
        by_resource = dict(self._before.configs.by_resource)
        for resource, configs in self._touched_configs.items():
            if configs:
                by_resource[resource] = configs
            else:
                by_resource.pop(resource, None)
            self._delta.changed_configs[resource] = configs
        return ConfigsImage(by_resource)

    # --- brokers and controllers

    def _touch_brokers(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self._before.cluster.brokers)
        return self._brokers

    def register_broker(self, record: m.RegisterBrokerRecord, offset: int) -> None:
        cordoned = record.cordoned_log_dirs
        self._set_broker(
            BrokerImage(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record.end_points),
                features=_features(record.features),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(record.log_dirs),
                cordoned_directories=None if cordoned is None else tuple(cordoned),
                registered_at=offset,
            )
        )

    def broker_registration_change(self, record: m.BrokerRegistrationChangeRecord, _offset: int) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch, record)
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=True)
        if record.log_dirs:
            broker = broker._replace(directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_directories=tuple(record.cordoned_log_dirs))
        self._set_broker(broker)

    def fence_broker(self, record: m.FenceBrokerRecord, _offset: int) -> None:
        self._set_broker(self._registered(record.id, record.epoch, record)._replace(fenced=True))

    def unfence_broker(self, record: m.UnfenceBrokerRecord, _offset: int) -> None:
        self._set_broker(self._registered(record.id, record.epoch, record)._replace(fenced=False))

    def unregister_broker(self, record: m.UnregisterBrokerRecord, _offset: int) -> None:
        self._registered(record.broker_id, record.broker_epoch, record)
        del self._touch_brokers()[record.broker_id]
        self._delta.changed_brokers[record.broker_id] = None

    def _registered(self, broker_id: int, epoch: int, record: object) -> BrokerImage:
        broker = self._touch_brokers().get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise MetadataError(f"{record} speaks of a broker registration that is not there")
        return broker

    def _set_broker(self, broker: BrokerImage) -> None:
        self._touch_brokers()[broker.id] = broker
        self._delta.changed_brokers[broker.id] = broker

    def register_controller(self, record: m.RegisterControllerRecord, _offset: int) -> None:
        self._touch_controllers()[record.controller_id] = ControllerImage(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
        )

    def unregister_controller(self, record: m.UnregisterControllerRecord, _offset: int) -> None:
        self._touch_controllers().pop(record.controller_id, None)

    def _touch_controllers(self) -> dict[int, ControllerImage]:
        if self._controllers is None:
            self._controllers = dict(self._before.cluster.controllers)
        return self._controllers

    def _finish_cluster(self) -> ClusterImage:
        before = self._before.cluster
        if self._brokers is None and self._controllers is None:
            return before
        brokers = before.brokers if self._brokers is None else dict(sorted(self._brokers.items()))
        controllers = before.controllers if self._controllers is None else dict(sorted(self._controllers.items()))
        return ClusterImage(brokers, controllers)

    # --- the rest

    def feature_level(self, record: m.FeatureLevelRecord, _offset: int) -> None:
        if self._features is None:
            self._features = dict(self._before.features)
        if record.feature_level == 0 and record.name != METADATA_VERSION:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level
        self._delta.changed_features[record.name] = record.feature_level

    def producer_ids(self, record: m.ProducerIdsRecord, _offset: int) -> None:
        self._next_producer_id = self._delta.next_producer_id = record.next_producer_id

    def nothing(self, record: object, _offset: int) -> None:
        """Records that carry no state: NoOp, and the marks of a transaction whose batches came together."""

    def _retain(self, key: tuple[object, ...], record: object | None) -> None:
        if self._retained is None:
            self._retained = dict(self._before.retained)
        if record is None:
            self._retained.pop(key, None)
        else:
            self._retained[key] = record

    def acl(self, record: m.AccessControlEntryRecord, _offset: int) -> None:
        self._retain(("acl", record.id), record)

    def remove_acl(self, record: m.RemoveAccessControlEntryRecord, _offset: int) -> None:
        self._retain(("acl", record.id), None)

    def scram(self, record: m.UserScramCredentialRecord, _offset: int) -> None:
        self._retain(("scram", record.name, record.mechanism), record)

    def remove_scram(self, record: m.RemoveUserScramCredentialRecord, _offset: int) -> None:
        self._retain(("scram", record.name, record.mechanism), None)

    def token(self, record: m.DelegationTokenRecord, _offset: int) -> None:
        self._retain(("token", record.token_id), record)

    def remove_token(self, record: m.RemoveDelegationTokenRecord, _offset: int) -> None:
        self._retain(("token", record.token_id), None)

    def client_quota(self, record: m.ClientQuotaRecord, _offset: int) -> None:
        entity = tuple(
            sorted((each.entity_type, each.entity_name or "", each.entity_name is None) for each in record.entity)
        )
        self._retain(("quota", entity, record.key), None if record.remove else record)


_REPLAYS: Final[dict[type, Callable[[Fold, Any, int], None]]] = {
    m.TopicRecord: Fold.topic,
    m.PartitionRecord: Fold.partition,
    m.PartitionChangeRecord: Fold.partition_change,
    m.RemoveTopicRecord: Fold.remove_topic,
    m.ClearElrRecord: Fold.clear_elr,
    m.ConfigRecord: Fold.config,
    m.RegisterBrokerRecord: Fold.register_broker,
    m.BrokerRegistrationChangeRecord: Fold.broker_registration_change,
    m.FenceBrokerRecord: Fold.fence_broker,
    m.UnfenceBrokerRecord: Fold.unfence_broker,
    m.UnregisterBrokerRecord: Fold.unregister_broker,
    m.RegisterControllerRecord: Fold.register_controller,
    m.UnregisterControllerRecord: Fold.unregister_controller,
    m.FeatureLevelRecord: Fold.feature_level,
    m.ProducerIdsRecord: Fold.producer_ids,
    m.NoOpRecord: Fold.nothing,
    m.BeginTransactionRecord: Fold.nothing,
    m.EndTransactionRecord: Fold.nothing,
    m.ZkMigrationStateRecord: Fold.nothing,  # in every metadata log that Apache Kafka 3.4 to 3.9 began
    m.AccessControlEntryRecord: Fold.acl,
    m.RemoveAccessControlEntryRecord: Fold.remove_acl,
    m.UserScramCredentialRecord: Fold.scram,
    m.RemoveUserScramCredentialRecord: Fold.remove_scram,
    m.DelegationTokenRecord: Fold.token,
    m.RemoveDelegationTokenRecord: Fold.remove_token,
    m.ClientQuotaRecord: Fold.client_quota,
}


def merge(old: PartitionImage, record: m.PartitionChangeRecord) -> PartitionImage:
    """The partition after a change: naming a leader, even the old one, opens a leader epoch."""
    leads_anew = record.leader != NO_LEADER_CHANGE
    elr, last_known = record.eligible_leader_replicas, record.last_known_elr
    recovery = record.leader_recovery_state
    return PartitionImage(
        replicas=old.replicas if record.replicas is None else tuple(record.replicas),
        isr=old.isr if record.isr is None else tuple(record.isr),
        leader=record.leader if leads_anew else old.leader,
        leader_epoch=old.leader_epoch + leads_anew,
        partition_epoch=old.partition_epoch + 1,
        directories=old.directories if record.directories is None else tuple(record.directories),
        leader_recovery_state=old.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else recovery,
        removing_replicas=old.removing_replicas
        if record.removing_replicas is None
        else tuple(record.removing_replicas),
        adding_replicas=old.adding_replicas if record.adding_replicas is None else tuple(record.adding_replicas),
        elr=old.elr if elr is None else tuple(elr),
        last_known_elr=old.last_known_elr if last_known is None else tuple(last_known),
    )


def _endpoints(declared: list[Any]) -> dict[str, Endpoint]:
    return {each.name: Endpoint(each.name, each.host, each.port, each.security_protocol) for each in declared}


def _features(declared: list[Any]) -> dict[str, tuple[int, int]]:
    return {each.name: (each.min_supported_version, each.max_supported_version) for each in declared}
