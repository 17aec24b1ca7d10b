"""One line on every key that acts here, in our own words, with the unit. Imported only when somebody asks."""

from __future__ import annotations

OWN = {
    "kbroker.cluster.id": (
        "The cluster id that an empty data directory is formatted with, and that a formatted one must have. "
        "Unset: a new one is made up, and any is taken."
    ),
    "kbroker.log.level": "How much is logged. The lines that tell that the broker is ready are logged at every level.",
    "kbroker.topics": ("Topics that are made at start when they do not exist, as name[:partitions[:replicas]], ..."),
    "kbroker.fsync": (
        "Whether the metadata log, checkpoints and other small files are forced to stable storage. Without it"
        " a power failure may lose topics; a crash of the process does not."
    ),
    "kbroker.internal.topics.clamp.replication": (
        "Whether internal topics are made with as many replicas as there are live brokers when fewer are "
        "alive than their replication factor asks for."
    ),
    "kbroker.open.files.max": (
        "How many descriptors logs may hold open at a time; 0 derives it from the process's limit."
    ),
    "kbroker.record.validation": (
        "How much of a produced batch is checked: its header and checksum (`header`), or every record too, as"
        " Apache Kafka does (`full`)."
    ),
    "kbroker.worker.threads": "Threads for slow disk work, so that it does not hold up clients.",
}
TOPIC = {
    "segment.bytes": (
        "Size in bytes at which a partition's active segment is closed and a new one begun. Retention and "
        "compaction work on closed segments."
    ),
    "segment.ms": (
        "Age in milliseconds at which the active segment is closed even when it is not full, so that old "
        "records can expire or be compacted."
    ),
    "segment.jitter.ms": (
        "At most this many milliseconds, by chance, are taken off segment.ms, so that many partitions do not "
        "roll at the same moment."
    ),
    "segment.index.bytes": (
        "Size in bytes up to which a segment's offset index may grow; a full index closes the segment."
    ),
    "flush.messages": (
        "After how many records a log is forced to stable storage. The default leaves that to the operating "
        "system and to replication."
    ),
    "flush.ms": (
        "After how many milliseconds unflushed records are forced to stable storage. The default leaves that "
        "to the operating system."
    ),
    "retention.bytes": (
        "Size in bytes above which a partition's oldest segments are deleted (cleanup.policy delete); -1 for no limit."
    ),
    "retention.ms": (
        "Age in milliseconds after which a segment's records are deleted (cleanup.policy delete); -1 for no limit."
    ),
    "max.message.bytes": "Largest record batch in bytes, as it arrives (compressed), that the topic takes.",
    "max.decompressed.message.bytes": (
        "Largest size in bytes that a compressed batch may have once it is decompressed; guards against "
        "decompression bombs."
    ),
    "index.interval.bytes": (
        "About every so many bytes of records the offset index gets an entry: smaller finds an offset with "
        "less reading, larger keeps the index small."
    ),
    "delete.retention.ms": (
        "How many milliseconds a tombstone survives in a compacted topic after it was first cleaned, so that "
        "readers see the deletion."
    ),
    "min.compaction.lag.ms": "Age in milliseconds below which a record is never compacted away.",
    "max.compaction.lag.ms": (
        "Age in milliseconds after which a record must be open to compaction, whatever the share of dirty bytes."
    ),
    "file.delete.delay.ms": (
        "How many milliseconds a deleted segment's files stay on disk under another name, for reads in progress."
    ),
    "min.cleanable.dirty.ratio": (
        "Share of a log that must not be compacted yet before compaction is worth while: between 0 (always) and 1."
    ),
    "cleanup.policy": (
        "What happens to old records: `delete` them by age or size, `compact` to the last record of each key,"
        " both, or neither (empty)."
    ),
    "unclean.leader.election.enable": (
        "Whether a replica that is not in sync may become leader when no other is left, which loses "
        "acknowledged records."
    ),
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be accepted.",
    "compression.type": (
        "Codec in which the topic's batches are stored: a named one, `uncompressed`, or `producer` to keep "
        "them as they were sent."
    ),
    "compression.gzip.level": "Level for compression.type gzip.",
    "compression.lz4.level": "Level for compression.type lz4.",
    "compression.zstd.level": "Level for compression.type zstd.",
    "preallocate": "Whether a new segment's space is taken on disk when it is made.",
    "message.timestamp.type": (
        "Which time a record carries: the producer's (CreateTime) or the broker's at the append (LogAppendTime)."
    ),
    "message.timestamp.before.max.ms": (
        "How many milliseconds a producer's timestamp may lie before the broker's clock; older records are "
        "refused. Ignored under LogAppendTime."
    ),
    "message.timestamp.after.max.ms": (
        "How many milliseconds a producer's timestamp may lie after the broker's clock; later records are "
        "refused. Ignored under LogAppendTime."
    ),
    "leader.replication.throttled.replicas": (
        "Replicas (partition:broker, or * for all) whose leader's side of replication is throttled."
    ),
    "follower.replication.throttled.replicas": (
        "Replicas (partition:broker, or * for all) whose follower's side of replication is throttled."
    ),
    "remote.storage.enable": "Whether closed segments are moved to tiered storage. Refused: kbroker has none.",
    "local.retention.ms": (
        "How many milliseconds records stay on local disk under tiered storage; -2 means as retention.ms."
    ),
    "local.retention.bytes": "How many bytes stay on local disk under tiered storage; -2 means as retention.bytes.",
    "remote.copy.lag.ms": "How many milliseconds a closed segment waits before it is copied to tiered storage.",
    "remote.copy.lag.bytes": (
        "How many bytes behind the active segment a segment lies before it is copied to tiered storage."
    ),
    "remote.log.copy.disable": "Whether copying to tiered storage is stopped while what is there stays readable.",
    "remote.log.delete.on.disable": (
        "Whether data in tiered storage is deleted when it is switched off for the topic."
    ),
    "errors.deadletterqueue.group.enable": (
        "Whether share groups may use this topic for records they could not process."
    ),
    "internal.segment.bytes": "For tests: like segment.bytes, without its lower bound.",
}
BROKER = {
    "advertised.listeners": (
        "Addresses that clients and other brokers are told to connect to, one for each listener. Unset: those"
        " of `listeners`, with a host that the client can reach."
    ),
    "auto.create.topics.enable": "Whether asking for the metadata of a topic that does not exist creates it.",
    "broker.heartbeat.interval.ms": "How often, in milliseconds, a broker tells the controller that it is alive.",
    "broker.id": "Older name of node.id; the two must agree.",
    "broker.rack": "Where the broker stands (rack, zone): replicas are spread over different ones.",
    "broker.session.timeout.ms": (
        "After how many milliseconds without a heartbeat the controller takes a broker for dead."
    ),
    "connections.max.idle.ms": "After how many milliseconds without a request a connection is closed.",
    "controller.listener.names": "Which listeners belong to the controller; clients are never told of them.",
    "controller.quorum.election.backoff.max.ms": (
        "Longest wait in milliseconds before a new election after one without a winner."
    ),
    "controller.quorum.election.timeout.ms": (
        "How many milliseconds a candidate waits for votes before it tries again."
    ),
    "controller.quorum.fetch.timeout.ms": (
        "After how many milliseconds without a word from the leader a voter calls an election, and a leader "
        "without a majority resigns."
    ),
    "controller.quorum.request.timeout.ms": "How many milliseconds a controller waits for another's answer.",
    "controller.quorum.bootstrap.servers": (
        "Where controllers are found. Set, and controller.quorum.voters not: an empty directory begins a quorum whose "
        "voters stand in the metadata log."
    ),
    "controller.quorum.voters": (
        "The controllers as id@host:port, for a quorum that was not formatted with its voters."
    ),
    "default.replication.factor": "Replicas of a topic that is created without a number, automatically too.",
    "delete.topic.enable": "Whether topics may be deleted.",
    "fetch.max.bytes": "Most bytes of records in one fetch answer, whatever the client asks for; at least 1024.",
    "group.initial.rebalance.delay.ms": (
        "How many milliseconds a new classic group waits for more members before its first assignment."
    ),
    "group.max.session.timeout.ms": (
        "Longest session time-out, in milliseconds, that a member of a classic group may ask for."
    ),
    "group.streams.max.standby.replicas": "Most standby copies that a streams group may be given.",
    "group.streams.max.warmup.replicas": "Most copies that a streams group may be given to warm up at a time.",
    "group.max.size": "Most members of a classic group.",
    "group.min.session.timeout.ms": (
        "Shortest session time-out, in milliseconds, that a member of a classic group may ask for."
    ),
    "initial.broker.registration.timeout.ms": (
        "How many milliseconds a starting broker tries to register, while the disk is full, before it gives up."
    ),
    "inter.broker.listener.name": "The listener that brokers use among each other.",
    "listener.security.protocol.map": "Which security protocol each listener name stands for.",
    "listeners": "Where the broker listens: NAME://host:port, ... An empty host is every address, port 0 a free one.",
    "log.dir": "Directory of the data, used when log.dirs is not set.",
    "log.dirs": "Directories of the data.",
    "internal.metadata.log.segment.bytes": "For tests: like metadata.log.segment.bytes, without its lower bound.",
    "cordoned.log.dirs": "Those of log.dirs that take no new replicas; * for all.",
    "num.replica.alter.log.dirs.threads": (
        "How many logs move between data directories at a time; unset, as many as there are directories."
    ),
    "log.preallocate": "Whether a new segment's space is taken on disk when it is made.",
    "log.cleaner.backoff.ms": "For how many milliseconds the cleaner rests when no compacted log needs it.",
    "log.cleaner.dedupe.buffer.size": (
        "Bytes for the keys of one round of cleaning, 200 for a key; a log with more keys takes several rounds."
    ),
    "log.cleaner.enable": "Whether compacted topics are compacted and, where their policy says so, lose old segments.",
    "log.cleaner.io.buffer.load.factor": "The share of the cleaner's key buffer that is filled at most.",
    "log.cleaner.threads": "How many logs are compacted at the same time, each in a process of its own; 0: none.",
    "log.cleaner.io.max.bytes.per.second": "How many bytes a second the cleaner reads and writes at most.",
    "log.flush.interval.ms": "Default of the topics' flush.ms; unset, log.flush.scheduler.interval.ms.",
    "log.flush.scheduler.interval.ms": (
        "How often, in milliseconds, logs are looked at for records to force to stable storage."
    ),
    "log.flush.offset.checkpoint.interval.ms": (
        "How often, in milliseconds, the offset from which a crash must recover is written down."
    ),
    "log.flush.start.offset.checkpoint.interval.ms": (
        "How often, in milliseconds, the logs' start offsets are written down."
    ),
    "log.initial.task.delay.ms": (
        "How many milliseconds after the start logs are first looked at for segments to delete; "
        "unset, log.retention.check.interval.ms where that is shorter."
    ),
    "log.retention.check.interval.ms": "How often, in milliseconds, logs are looked at for segments to delete.",
    "log.retention.hours": "Default of the topics' retention.ms, in hours; the weakest of the three keys for it.",
    "log.retention.minutes": "Default of the topics' retention.ms, in minutes; stronger than log.retention.hours.",
    "log.retention.ms": "Default of the topics' retention.ms; the strongest of the three keys for it.",
    "log.roll.hours": "Default of the topics' segment.ms, in hours, when log.roll.ms is not set.",
    "log.roll.ms": "Default of the topics' segment.ms.",
    "log.roll.jitter.hours": (
        "Default of the topics' segment.jitter.ms, in hours, when log.roll.jitter.ms is not set."
    ),
    "log.roll.jitter.ms": "Default of the topics' segment.jitter.ms.",
    "max.connection.creation.rate": "Most new connections a second; more wait.",
    "max.connections": "Most connections at a time; one more waits until another ends.",
    "max.connections.per.ip": "Most connections at a time from one address.",
    "max.connections.per.ip.overrides": "Addresses or host names with a limit of their own: host:number, ...",
    "max.incremental.fetch.session.cache.slots": "How many fetch sessions are kept.",
    "max.request.partition.size.limit": "Most partitions in one answer of DescribeTopicPartitions.",
    "metadata.log.dir": "Directory of the metadata log; unset, the first of log.dirs.",
    "metadata.log.max.record.bytes.between.snapshots": (
        "After how many bytes of metadata records a snapshot is written."
    ),
    "metadata.log.max.snapshot.interval.ms": (
        "After how many milliseconds with new records a metadata snapshot is written; 0 for never by time."
    ),
    "metadata.log.segment.bytes": "Size in bytes of a segment of the metadata log.",
    "metadata.log.segment.ms": "Age in milliseconds at which a segment of the metadata log is closed.",
    "metadata.max.idle.interval.ms": (
        "How often, in milliseconds, an idle controller writes a no-op record; 0 for never."
    ),
    "metadata.max.retention.bytes": "Bytes of metadata log and snapshots above which the oldest go; -1: no limit.",
    "metadata.max.retention.ms": "Age in milliseconds after which a metadata snapshot goes with its log; -1: never.",
    "min.insync.replicas": "Default of the topics' min.insync.replicas.",
    "node.id": "The number of this node in its cluster.",
    "num.partitions": "Partitions of a topic that is created without a number, automatically too.",
    "offset.metadata.max.bytes": "Most bytes of the text that goes with a committed offset.",
    "offsets.commit.timeout.ms": "How many milliseconds a commit may wait for its replicas.",
    "offsets.retention.check.interval.ms": (
        "How often, in milliseconds, committed offsets are looked at for expired ones."
    ),
    "offsets.retention.minutes": "How many minutes committed offsets are kept once their group is empty.",
    "offsets.topic.compression.codec": "Codec (by number) of batches in __consumer_offsets.",
    "offsets.topic.num.partitions": "Partitions of __consumer_offsets.",
    "offsets.topic.replication.factor": (
        "Replicas of __consumer_offsets; it is not created while fewer brokers are alive."
    ),
    "offsets.topic.segment.bytes": "Segment size in bytes of __consumer_offsets.",
    "process.roles": "What this process is: broker, controller or both.",
    "producer.id.expiration.check.interval.ms": (
        "How often, in milliseconds, idle idempotent producers are looked at for expired ones."
    ),
    "producer.id.expiration.ms": "How many milliseconds an idle idempotent producer is remembered by a partition.",
    "quota.window.num": "Windows over which rates that have a limit are reckoned.",
    "quota.window.size.seconds": "Length of such a window in seconds, and the longest wait for a rate's sake.",
    "replica.high.watermark.checkpoint.interval.ms": "How often, in milliseconds, high watermarks are written down.",
    "request.timeout.ms": "How many milliseconds a request among brokers may take.",
    "socket.listen.backlog.size": "Connections that wait to be accepted.",
    "socket.receive.buffer.bytes": "Kernel's receive buffer of a connection, which the kernel sizes here.",
    "socket.request.max.bytes": "Largest request in bytes; a larger one closes the connection.",
    "socket.send.buffer.bytes": "Kernel's send buffer of a connection, which the kernel sizes here.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (
        "How often, in milliseconds, transactions are looked at for timed-out ones."
    ),
    "transaction.max.timeout.ms": "Longest transaction time-out, in milliseconds, that a producer may ask for.",
    "transaction.partition.verification.enable": (
        "Whether a partition asks the coordinator if a transaction is open before it takes its first batch."
    ),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (
        "How often, in milliseconds, transactional ids are looked at for expired ones."
    ),
    "transaction.state.log.min.isr": "min.insync.replicas of __transaction_state.",
    "transaction.state.log.num.partitions": "Partitions of __transaction_state.",
    "transaction.state.log.replication.factor": (
        "Replicas of __transaction_state; it is not created while fewer brokers are alive."
    ),
    "transaction.state.log.segment.bytes": "Segment size in bytes of __transaction_state.",
    "transactional.id.expiration.ms": "How many milliseconds an idle transactional id is remembered.",
}


GROUP = {
    "consumer.assignment.interval.ms": "Least time in milliseconds between two assignments of a consumer group.",
    "consumer.assignor.offload.enable": "Whether a consumer group's assignments are computed beside its requests.",
    "consumer.heartbeat.interval.ms": "How often, in milliseconds, members of a consumer group send heartbeats.",
    "consumer.session.timeout.ms": (
        "After how many milliseconds without a heartbeat a member of a consumer group is taken for dead."
    ),
    "errors.deadletterqueue.copy.record.enable": (
        "Whether the dead-letter queue of a share group gets the records themselves, not only where they lie."
    ),
    "errors.deadletterqueue.topic.name": "Topic for the records that a share group could not process; empty for none.",
    "share.assignment.interval.ms": "Least time in milliseconds between two assignments of a share group.",
    "share.assignor.offload.enable": "Whether a share group's assignments are computed beside its requests.",
    "share.auto.offset.reset": (
        "Where a share group begins on a partition that it has not read yet: earliest, latest, or"
        " by_duration:<ISO 8601> before now."
    ),
    "share.delivery.count.limit": "How often a share group delivers a record before it gives it up.",
    "share.heartbeat.interval.ms": "How often, in milliseconds, members of a share group send heartbeats.",
    "share.isolation.level": "Whether a share group sees records of open and aborted transactions.",
    "share.partition.max.record.locks": "Most records of a partition that a share group's members may hold at a time.",
    "share.record.lock.duration.ms": "How many milliseconds a member of a share group may hold a record.",
    "share.renew.acknowledge.enable": "Whether members of a share group may prolong their hold on a record.",
    "share.session.timeout.ms": (
        "After how many milliseconds without a heartbeat a member of a share group is taken for dead."
    ),
    "streams.acceptable.recovery.lag": "Lag in records up to which a task's standby counts as caught up.",
    "streams.assignment.interval.ms": "Least time in milliseconds between two assignments of a streams group.",
    "streams.assignor.name": "Which assignor a streams group uses.",
    "streams.assignor.offload.enable": "Whether a streams group's assignments are computed beside its requests.",
    "streams.heartbeat.interval.ms": "How often, in milliseconds, members of a streams group send heartbeats.",
    "streams.initial.rebalance.delay.ms": (
        "How many milliseconds a new streams group waits for more members before its first assignment."
    ),
    "streams.num.standby.replicas": "How many standby copies of its state each task of a streams group has.",
    "streams.num.warmup.replicas": "How many copies of state may be warmed up at a time before tasks move to them.",
    "streams.rack.aware.assignment.tags": "Client tags over which a streams group spreads its standby copies.",
    "streams.session.timeout.ms": (
        "After how many milliseconds without a heartbeat a member of a streams group is taken for dead."
    ),
    "streams.task.offset.interval.ms": (
        "How often, in milliseconds, members of a streams group tell the offsets of their tasks."
    ),
}
CLIENT_METRICS = {
    "interval.ms": "How often, in milliseconds, the clients that match push their metrics; 100 to 3600000.",
    "match": (
        "Which clients push: name=regular expression, ..., over client_instance_id, client_id, client_software_name,"
        " client_software_version, client_source_address, client_source_port. Empty matches all."
    ),
    "metrics": "Prefixes of the metrics that are pushed; * for all.",
}
_OTHERS = {"group": GROUP, "client-metrics": CLIENT_METRICS, "topic": TOPIC}
_NO_MEANING = "Tunes machinery of Apache Kafka that kbroker does not have: accepted, without effect."
_NOT_SERVED = "Asks for something that kbroker does not serve: refused unless it has its default."


def describe(scope: str, name: str) -> str:
    """The description of a key; for a broker key that is a topic's default or a group's limit, made of that key's."""
    if scope in _OTHERS:
        return _OTHERS[scope].get(name, "")
    own = OWN.get(name) or BROKER.get(name)
    if own:
        return own
    from kbroker.config.effects import NO_MEANING, effect
    from kbroker.config.keys import topic

    for topic_name, *_, synonyms, _ in topic.ROWS:
        if name in synonyms.split():
            return f"Default of the topics' {topic_name}. {TOPIC[topic_name]}"
    for end, word in ((".min.", "Least"), (".max.", "Largest")):
        group_name = name.removeprefix("group.").replace(end, ".", 1)
        if end in name and group_name in GROUP:
            return f"{word} {group_name} that a group may be given. {GROUP[group_name]}"
    if name.removeprefix("group.") in GROUP:
        return f"Default of the groups' {name.removeprefix('group.')}. {GROUP[name.removeprefix('group.')]}"
    return _NO_MEANING if effect("broker", name) == NO_MEANING else _NOT_SERVED
