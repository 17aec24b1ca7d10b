"""What setting a key does here: it acts, it has no meaning, or what it asks for is not served.

- ACTS: kbroker follows it. Every key that the source reads is here (a test holds that).
- NOT_SERVED: it asks for something kbroker does not have (TLS, a plug-in class, tiered storage). Refused unless it has
  its default, because going on without what was asked for would be a lie.
- NO_MEANING: the rest: a tuning of machinery that kbroker does not have (thread pools, purgatories, caches of a JVM,
  time-outs between controllers, of which there is one, limits of a feature whose APIs are absent). Accepted, and named
  in one line of the log.
"""

from __future__ import annotations

ACTS = "ACTS"
NO_MEANING = "NO_MEANING"
NOT_SERVED = "NOT_SERVED"

_BROKER_ACTS = """
    advertised.listeners auto.create.topics.enable broker.id broker.rack broker.session.timeout.ms
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level connections.max.idle.ms
    controller.listener.names controller.quorum.bootstrap.servers controller.quorum.voters cordoned.log.dirs
    default.replication.factor delete.topic.enable fetch.max.bytes group.consumer.max.assignment.interval.ms
    group.consumer.max.heartbeat.interval.ms group.consumer.max.session.timeout.ms
    group.consumer.min.assignment.interval.ms group.consumer.min.heartbeat.interval.ms
    group.consumer.min.session.timeout.ms group.initial.rebalance.delay.ms group.max.session.timeout.ms
    group.max.size group.min.session.timeout.ms group.share.max.assignment.interval.ms
    group.share.max.delivery.count.limit group.share.max.heartbeat.interval.ms
    group.share.max.partition.max.record.locks group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms group.share.min.assignment.interval.ms
    group.share.min.delivery.count.limit group.share.min.heartbeat.interval.ms
    group.share.min.partition.max.record.locks group.share.min.record.lock.duration.ms
    group.share.min.session.timeout.ms group.streams.max.assignment.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms
    group.streams.max.standby.replicas group.streams.max.warmup.replicas group.streams.min.assignment.interval.ms
    group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms
    group.streams.min.task.offset.interval.ms initial.broker.registration.timeout.ms inter.broker.listener.name
    internal.metadata.log.segment.bytes
    kbroker.cluster.id kbroker.fsync kbroker.internal.topics.clamp.replication kbroker.log.level
    kbroker.open.files.max kbroker.record.validation kbroker.topics kbroker.worker.threads
    listener.security.protocol.map listeners log.cleaner.backoff.ms
    log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.enable
    log.cleaner.io.buffer.load.factor log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
    log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads log.cleanup.policy log.dir
    log.dirs log.flush.interval.messages log.flush.interval.ms log.flush.offset.checkpoint.interval.ms
    log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms log.index.interval.bytes
    log.index.size.max.bytes log.initial.task.delay.ms
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
    log.message.timestamp.type log.preallocate log.retention.bytes log.retention.check.interval.ms log.retention.hours
    log.retention.minutes log.retention.ms log.roll.hours log.roll.jitter.hours log.roll.jitter.ms log.roll.ms
    log.segment.bytes log.segment.delete.delay.ms max.connection.creation.rate max.connections max.connections.per.ip
    max.connections.per.ip.overrides max.decompressed.message.bytes max.incremental.fetch.session.cache.slots
    max.request.partition.size.limit message.max.bytes metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.retention.bytes metadata.max.retention.ms
    min.insync.replicas node.id num.partitions num.replica.alter.log.dirs.threads
    offset.metadata.max.bytes offsets.commit.timeout.ms offsets.retention.check.interval.ms
    offsets.retention.minutes offsets.topic.compression.codec offsets.topic.num.partitions
    offsets.topic.replication.factor offsets.topic.segment.bytes process.roles
    producer.id.expiration.check.interval.ms producer.id.expiration.ms quota.window.num quota.window.size.seconds
    replica.high.watermark.checkpoint.interval.ms socket.listen.backlog.size socket.request.max.bytes
    transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
    transaction.partition.verification.enable transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.replication.factor
    transaction.state.log.segment.bytes transactional.id.expiration.ms unclean.leader.election.enable
"""
_BROKER_NOT_SERVED = """
    alter.config.policy.class.name authorizer.class.name client.quota.callback.class config.providers
    connections.max.reauth.ms create.topic.policy.class.name early.start.listeners
    errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.topic.name.prefix
    follower.fetch.last.tiered.offset.enable group.share.dlq.manager.class.name group.share.persister.class.name
    group.streams.topology.description.plugin.class principal.builder.class replica.selector.class
    security.inter.broker.protocol security.providers transaction.two.phase.commit.enable unstable.api.versions.enable
    unstable.feature.versions.enable
"""
BROKER_NOT_SERVED_PREFIXES = ("delegation.token.", "remote.", "sasl.", "ssl.")

BROKER_ACTS = frozenset(_BROKER_ACTS.split())
BROKER_NOT_SERVED = frozenset(_BROKER_NOT_SERVED.split())
TOPIC_NOT_SERVED = frozenset({"errors.deadletterqueue.group.enable"})
# What Kafka itself ignores while it has no tiered storage, and while nothing is replicated.
_TOPIC_NO_MEANING = """
    follower.replication.throttled.replicas leader.replication.throttled.replicas
    local.retention.bytes local.retention.ms remote.copy.lag.bytes remote.copy.lag.ms remote.log.copy.disable
    remote.log.delete.on.disable remote.storage.enable
"""
TOPIC_NO_MEANING = frozenset(_TOPIC_NO_MEANING.split())


def effect(scope: str, name: str) -> str:
    """One of the three, for a known key."""
    if scope == "topic":
        if name in TOPIC_NOT_SERVED:
            return NOT_SERVED
        return NO_MEANING if name in TOPIC_NO_MEANING else ACTS
    if scope != "broker":
        # Groups and client metrics come with their APIs.
        return NO_MEANING
    if name in BROKER_ACTS:
        return ACTS
    if name in BROKER_NOT_SERVED or name.startswith(BROKER_NOT_SERVED_PREFIXES):
        return NOT_SERVED
    return NO_MEANING
