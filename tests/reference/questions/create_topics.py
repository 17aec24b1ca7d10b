"""CreateTopics: names, counts, assignments, configurations, validation only."""

from __future__ import annotations

from kbroker.protocol.messages.create_topics import CreateTopicsRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.scenery import create_topic, fresh_name

SERVED = range(2, 8)
LATEST = range(7, 8)
Topic = CreateTopicsRequest.CreatableTopic
Config = CreateTopicsRequest.CreatableTopicConfig
Assignment = CreateTopicsRequest.CreatableReplicaAssignment


def creation(*topics: Topic, validate_only: bool = False, timeout_ms: int = 10_000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms, validate_only=validate_only)


def sized(name: str, partitions: int = 1, replicas: int = 1, **configs: str | None) -> Topic:
    return Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[Config(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


@question(SERVED)
def a_topic_is_made_once(c: Conversation, version: int) -> None:
    name = fresh_name(c)
    c.ask(creation(sized(name, 3)), version)
    c.ask(creation(sized(name, 3)), version)
    c.ask(creation(sized(name, 3), validate_only=True), version)


@question(SERVED)
def names_that_may_not_be(c: Conversation, version: int) -> None:
    for name in ("", ".", "..", "a b", "ü", "a/b", "a" * 250, "a,b", "a\x00b", "__cluster_metadata"):
        c.ask(creation(sized(name)), version, label=repr(name[:20]))


@question(LATEST)
def names_that_collide(c: Conversation, version: int) -> None:
    name = fresh_name(c)
    c.ask(creation(sized(f"{name}.a_b")), version)
    c.ask(creation(sized(f"{name}_a.b")), version)
    c.ask(creation(sized(f"{name}.a.b"), sized(f"{name}_a_b")), version)


@question(SERVED)
def counts_that_may_not_be(c: Conversation, version: int) -> None:
    for partitions in (0, -1, -2, 1, 10_001, 2**31 - 1):
        for replicas in (1, 0, -1, -2, 2, 32767):
            if partitions == 10_001 and replicas in (1, -1):
                continue
            label = f"{partitions} partitions, {replicas} replicas"
            c.ask(creation(sized(fresh_name(c), partitions, replicas), validate_only=True), version, label=label)


@question(SERVED)
def default_counts(c: Conversation, version: int) -> None:
    if version >= 4:
        c.ask(creation(sized(fresh_name(c), -1, -1)), version)


def assigned(name: str, *assignments: tuple[int, list[int]], partitions: int = -1, replicas: int = -1) -> Topic:
    return Topic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[Assignment(partition_index=number, broker_ids=ids) for number, ids in assignments],
    )


@question(SERVED)
def assignments(c: Conversation, version: int) -> None:
    faults: dict[str, list[tuple[int, list[int]]]] = {
        "one": [(0, [1])],
        "two": [(0, [1]), (1, [1])],
        "two, turned": [(1, [1]), (0, [1])],
        "a gap": [(0, [1]), (2, [1])],
        "begins at 1": [(1, [1])],
        "twice": [(0, [1]), (0, [1])],
        "unknown broker": [(0, [7])],
        "no broker": [(0, [])],
        "the same broker twice": [(0, [1, 1])],
        "negative broker": [(0, [-1])],
        "uneven": [(0, [1]), (1, [1, 2])],
        "negative partition": [(-1, [1])],
    }
    for label, pairs in faults.items():
        c.ask(creation(assigned(fresh_name(c), *pairs), validate_only=True), version, label=label)
    c.ask(creation(assigned(fresh_name(c), (0, [1]), partitions=1), validate_only=True), version, label="and a count")
    c.ask(creation(assigned(fresh_name(c), (0, [1]), replicas=1), validate_only=True), version, label="and a factor")


CONFIGS: list[tuple[str, str | None]] = [
    ("retention.ms", "1000"),
    ("retention.ms", "-1"),
    ("retention.ms", "-2"),
    ("retention.ms", "soon"),
    ("retention.ms", None),
    ("retention.ms", ""),
    ("retention.ms", " 1000 "),
    ("retention.ms", "9223372036854775808"),
    ("retention.bytes", "-7"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "delete , compact"),
    ("cleanup.policy", "delete,delete"),
    ("cleanup.policy", "shred"),
    ("cleanup.policy", ""),
    ("compression.type", "zstd"),
    ("compression.type", "bzip2"),
    ("compression.type", "GZIP"),
    ("compression.gzip.level", "0"),
    ("compression.gzip.level", "-1"),
    ("compression.gzip.level", "10"),
    ("compression.lz4.level", "18"),
    ("compression.zstd.level", "23"),
    ("max.message.bytes", "-1"),
    ("max.message.bytes", "0"),
    ("max.message.bytes", "2147483648"),
    ("max.message.bytes", "1.5"),
    ("segment.bytes", "1048575"),
    ("segment.bytes", "1048576"),
    ("segment.ms", "0"),
    ("segment.ms", "1"),
    ("segment.jitter.ms", "-1"),
    ("segment.index.bytes", "3"),
    ("segment.index.bytes", "4"),
    ("index.interval.bytes", "-1"),
    ("min.insync.replicas", "0"),
    ("min.insync.replicas", "5"),
    ("min.cleanable.dirty.ratio", "1.1"),
    ("min.cleanable.dirty.ratio", "-0.1"),
    ("min.cleanable.dirty.ratio", "NaN"),
    ("min.cleanable.dirty.ratio", "0.5"),
    ("min.cleanable.dirty.ratio", "\u0661"),
    ("retention.ms", "\u0661"),
    ("min.compaction.lag.ms", "-1"),
    ("max.compaction.lag.ms", "0"),
    ("delete.retention.ms", "-1"),
    ("file.delete.delay.ms", "-1"),
    ("flush.messages", "0"),
    ("flush.ms", "-1"),
    ("preallocate", "yes"),
    ("preallocate", "TRUE"),
    ("unclean.leader.election.enable", "maybe"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.type", "logappendtime"),
    ("message.timestamp.before.max.ms", "-1"),
    ("message.timestamp.after.max.ms", "-1"),
    ("leader.replication.throttled.replicas", "0:1"),
    ("leader.replication.throttled.replicas", "*"),
    ("leader.replication.throttled.replicas", "zero:one"),
    ("follower.replication.throttled.replicas", ""),
    ("remote.storage.enable", "true"),
    ("remote.storage.enable", "false"),
    ("local.retention.ms", "-3"),
    ("local.retention.ms", "-2"),
    ("local.retention.bytes", "-3"),
    ("remote.log.copy.disable", "true"),
    ("remote.log.delete.on.disable", "true"),
    ("message.format.version", "3.0"),
    ("message.downconversion.enable", "true"),
    ("internal.segment.bytes", "100"),
    ("no.such.key", "1"),
    ("", "1"),
    ("num.partitions", "3"),
    # Last: the ids that it is given only by one of the two are counted.
    ("errors.deadletterqueue.group.enable", "true"),
]


@question(LATEST)
def every_configuration(c: Conversation, version: int) -> None:
    for key, value in CONFIGS:
        topic = Topic(
            name=fresh_name(c), num_partitions=1, replication_factor=1, configs=[Config(name=key, value=value)]
        )
        c.ask(creation(topic, validate_only=True), version, label=f"{key}={value}")


@question(LATEST)
def configurations_that_contradict(c: Conversation, version: int) -> None:
    for pairs in (
        [("min.compaction.lag.ms", "1000"), ("max.compaction.lag.ms", "10")],
        [("local.retention.ms", "5000"), ("retention.ms", "1000")],
        [("local.retention.bytes", "5000"), ("retention.bytes", "1000")],
        [("retention.ms", "1"), ("retention.ms", "2")],
        [("retention.ms", "-7"), ("segment.bytes", "1")],
    ):
        configs = [Config(name=key, value=value) for key, value in pairs]
        topic = Topic(name=fresh_name(c), num_partitions=1, replication_factor=1, configs=configs)
        c.ask(creation(topic, validate_only=True), version, label=str(pairs))


@question(range(5, 8))
def the_configuration_that_is_answered(c: Conversation, version: int) -> None:
    answer = c.ask(creation(sized(fresh_name(c), cleanup_policy="compact", retention_ms="777")), version, note=False)
    configs = {each.name: each for each in answer.topics[0].configs}
    for name in sorted(configs):
        each = configs[name]
        c.note(name, (each.value, each.read_only, each.config_source, each.is_sensitive))


@question(SERVED)
def several_topics_in_one_request(c: Conversation, version: int) -> None:
    good, bad, twice = fresh_name(c), "bad name!", fresh_name(c)
    c.ask(creation(sized(good), sized(bad), sized(twice), sized(twice, 2)), version, unordered=True)
    c.ask(creation(), version)


@question(SERVED)
def a_timeout_of_nothing(c: Conversation, version: int) -> None:
    name = fresh_name(c)
    c.ask(creation(sized(name), timeout_ms=0), version)
    c.ask(creation(sized(name), timeout_ms=-1), version)
    c.ask(creation(sized(name), validate_only=True), version)
    twice = creation(sized(name), sized(name), timeout_ms=0)
    c.ask(twice, version, label="nothing to do")
    twice.topics.append(sized(fresh_name(c)))
    c.ask(twice, version, label="one to make and one twice", unordered=True)
    c.ask(creation(sized("__cluster_metadata"), timeout_ms=0), version, label="a forbidden one")
    c.ask(creation(timeout_ms=0), version, label="none")


@question(SERVED)
def a_topic_that_exists_with_other_faults(c: Conversation, version: int) -> None:
    name, _ = create_topic(c)
    c.ask(creation(sized(name, 0)), version)
    c.ask(creation(sized(name, retention_ms="x")), version)


@question(LATEST)
def as_many_partitions_as_one_request_may_make(c: Conversation, version: int) -> None:
    for counts in ((9_999,), (10_000,), (10_001,), (5_000, 4_998), (5_000, 5_000), (2**31 - 1, 2**31 - 1, 2)):
        topics = [sized(fresh_name(c), count) for count in counts]
        answer = c.ask(creation(*topics, validate_only=True), version, note=False)
        c.note(f"{counts}", [(each.error_code, each.error_message, each.num_partitions) for each in answer.topics])


@question(SERVED)
def which_of_two_faults_is_told(c: Conversation, version: int) -> None:
    name = fresh_name(c)
    bad, null = Config(name="retention.ms", value="x"), Config(name="retention.ms", value=None)
    for label, topic in {
        "value and count": Topic(name=name, num_partitions=0, replication_factor=1, configs=[bad]),
        "value and factor": Topic(name=name, num_partitions=1, replication_factor=9, configs=[bad]),
        "count and factor": Topic(name=name, num_partitions=0, replication_factor=0),
        "count and too high a factor": Topic(name=name, num_partitions=0, replication_factor=9),
        "name and value": Topic(name="a b", num_partitions=1, replication_factor=1, configs=[bad]),
        "name and null": Topic(name="a b", num_partitions=1, replication_factor=1, configs=[null]),
        "two nulls and a value": Topic(
            name=name, num_partitions=1, replication_factor=1, configs=[Config(name="a", value=None), null, bad]
        ),
        "a value and null": Topic(
            name=name, num_partitions=1, replication_factor=1, configs=[Config(name="retention.ms", value="5"), null]
        ),
        "broker and value": Topic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[Assignment(partition_index=0, broker_ids=[7])],
            configs=[bad],
        ),
    }.items():
        c.ask(creation(topic, validate_only=True), version, label=label)
