"""What a broker's configuration says as a whole: what cannot be, what deserves a warning or a remark.

Single values are checked when the snapshot is made. The rules between keys are Kafka's ``KafkaConfig.validateValues``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.config.broker import BrokerConfig
from kbroker.config.registry import BROKER_KEYS, Effect, base_name, broker_synonyms
from kbroker.config.relations import check_relations
from kbroker.config.values import ConfigError

REPLICATION_FACTORS = {
    "offsets.topic.replication.factor": "__consumer_offsets",
    "transaction.state.log.replication.factor": "__transaction_state",
    "default.replication.factor": "a topic without a number of its own",
}
CLEANER_BUFFER_MIN = 1 << 20
CODECS = range(5)
"""The numbers of compression codecs in record batches."""


def check_start(config: BrokerConfig) -> None:
    """Raises ``ConfigError`` for the first thing with which no broker starts; some of it may be altered to later."""
    check_broker(config)
    name, most = "log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"
    if config.integer(name) > config.integer(most):
        raise ConfigError(name, config.integer(name), f"{name} must not be greater than {most}")


def check_broker(config: BrokerConfig) -> None:
    """Raises ``ConfigError`` for the first thing that cannot be, at the start and later."""
    for name in config.not_served():
        key = BROKER_KEYS[base_name(name)]
        default = "unset" if key.default is None else (key.default or "empty")
        raise ConfigError(name, _shown(config, name), f"kbroker does not serve this; allowed is its default, {default}")
    _check_node(config)
    _check_logs(config)
    _check_listeners(config)
    _check_replication(config)
    _check_connections(config)
    _check_groups(config)


def _require(fulfilled: bool, name: str, value: object, reason: str) -> None:
    """Kafka's ``require``, in its words."""
    if not fulfilled:
        raise ConfigError(name, value, reason, message=f"requirement failed: {reason}")


def _shown(config: BrokerConfig, name: str) -> str:
    key = BROKER_KEYS.find(base_name(name))
    return "[hidden]" if key is not None and key.sensitive else config.texts().get(name, "")


def _check_node(config: BrokerConfig) -> None:
    node_id = config.node_id
    if node_id < 0:
        raise ConfigError("node.id", node_id, "Value must be at least 0")
    if config.is_set("broker.id") and config.integer("broker.id") != node_id:
        message = (
            "`node.id` and `broker.id` must be set to the same value. `broker.id` is deprecated, please use `node.id` "
            "instead."
        )
        raise ConfigError("node.id", node_id, message, message=message)
    roles = config.strings("process.roles")
    if set(roles) != {"broker", "controller"}:
        raise ConfigError("process.roles", ",".join(roles), "kbroker runs both roles in one process: broker,controller")
    voters = config.strings("controller.quorum.voters")
    if voters and [voter.partition("@")[0] for voter in voters] != [str(node_id)]:
        reason = f"kbroker runs a quorum of one: leave it unset, or name node {node_id} alone"
        raise ConfigError("controller.quorum.voters", ",".join(voters), reason)


def _check_logs(config: BrokerConfig) -> None:
    for name, value, least in (
        ("log.roll.ms", config.log_roll_ms, 1),
        ("log.roll.jitter.ms", config.log_roll_jitter_ms, 0),
    ):
        _require(value >= least, name, value, f"{name} must be greater than or equal to {least}")
    name = next(
        (name for name in broker_synonyms("log.retention.ms") if config.value(name) is not None), "log.retention.ms"
    )
    reason = "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    _require(config.log_retention_ms != 0, name, 0, reason)
    name, threads = "log.cleaner.dedupe.buffer.size", config.integer("log.cleaner.threads")
    if threads < 1:
        raise ConfigError("log.cleaner.threads", threads, "Value must be at least 1")
    reason = f"{name} must be at least 1MB per cleaner thread."
    _require(config.integer(name) // threads > CLEANER_BUFFER_MIN, name, config.integer(name), reason)
    for name in ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec"):
        codec = config.integer(name)
        if codec not in CODECS:
            message = f"Unknown compression type id: {codec}"
            raise ConfigError(name, codec, message, message=message)
    _check_cordoned(config)


def _check_cordoned(config: BrokerConfig) -> None:
    name = "cordoned.log.dirs"
    cordoned = config.strings(name)
    missing = [each for each in cordoned if each not in config.log_dirs]
    if "*" not in cordoned and missing:
        message = (
            f"requirement failed: All entries in {name} must be present in log.dirs or log.dir. "
            f"Missing entries : {', '.join(missing)}"
        )
        raise ConfigError(name, ",".join(cordoned), "each must be one of log.dirs", message=message)
    if "*" in cordoned and len(cordoned) > 1:
        message = f"requirement failed: When {name} is set to *, it must not contain other values"
        raise ConfigError(name, ",".join(cordoned), "* stands for all and must stand alone", message=message)


def _check_listeners(config: BrokerConfig) -> None:
    names = [listener.name for listener in config.listeners]
    for listener in config.listeners:
        if listener.protocol != "PLAINTEXT":
            reason = f"kbroker does not serve {listener.protocol}; map {listener.name} to PLAINTEXT"
            raise ConfigError("listeners", str(listener), reason)
    if not config.broker_listeners:
        reason = "There must be at least one listener that controller.listener.names does not name"
        raise ConfigError("listeners", ",".join(map(str, config.listeners)), reason)
    # What clients are told may be less than what is listened on, never more.
    known = [listener.name for listener in config.advertised_listeners]
    for listener in config.advertised_listeners:
        if listener.name not in names:
            reason = f"Its names must be among those of listeners: {','.join(names)}"
            raise ConfigError("advertised.listeners", str(listener), reason)
        if listener.host == "0.0.0.0" and config.is_set("advertised.listeners"):  # noqa: S104 - refused, not bound
            reason = "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
            raise ConfigError("advertised.listeners", str(listener), reason)
    _check_inter_broker_listener(config, known)


def _check_inter_broker_listener(config: BrokerConfig, known: Sequence[str]) -> None:
    name = "inter.broker.listener.name"
    if config.is_set(name):
        message = None
        if not config.string(name):
            message = "The provided listener name is null or empty string"
        elif config.is_set("security.inter.broker.protocol"):
            message = f"Only one of {name} and security.inter.broker.protocol should be set."
        if message is not None:
            raise ConfigError(name, config.string(name), message, message=message)
    inter_broker = config.inter_broker_listener_name
    if inter_broker not in known:
        reason = f"It must be a listener name defined in advertised.listeners: {','.join(known)}"
        if not config.is_set(name) and len(known) == 1:
            # A lone broker talks to nobody: the only listener will do.
            return
        raise ConfigError(name, inter_broker, reason)


def _check_connections(config: BrokerConfig) -> None:
    overrides = config.connections_per_ip_overrides
    is_open = config.integer("max.connections.per.ip") > 0 or bool(overrides)
    reason = "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    _require(is_open, "max.connections.per.ip", 0, reason)
    if config.integer("max.connections") == 0:
        raise ConfigError("max.connections", 0, "Value must be at least 1")
    name, queued = "queued.max.request.bytes", config.integer("queued.max.request.bytes")
    reason = f"{name} must be larger or equal to socket.request.max.bytes"
    _require(queued <= 0 or queued >= config.integer("socket.request.max.bytes"), name, queued, reason)
    name, delay = (
        "connection.failed.authentication.delay.ms",
        config.integer("connection.failed.authentication.delay.ms"),
    )
    idle = config.integer("connections.max.idle.ms")
    reason = (
        f"{name}={delay} should always be less than connections.max.idle.ms={idle} to prevent failed authentication "
        "responses from timing out"
    )
    _require(idle < 0 or delay < idle, name, delay, reason)


def _check_replication(config: BrokerConfig) -> None:
    name, wait = "replica.fetch.wait.max.ms", config.integer("replica.fetch.wait.max.ms")
    reason = f"replica.socket.timeout.ms should always be at least {name} to prevent unnecessary socket timeouts"
    _require(wait <= config.integer("replica.socket.timeout.ms"), name, wait, reason)
    reason = f"{name} should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR"
    _require(wait <= config.integer("replica.lag.time.max.ms"), name, wait, reason)


def _check_groups(config: BrokerConfig) -> None:
    name = "group.coordinator.rebalance.protocols"
    protocols = config.strings(name)
    if "classic" not in protocols:
        message = "Disabling the 'classic' protocol is not supported."
        raise ConfigError(name, protocols, message, message=message)
    check_relations(config)


def warnings(config: BrokerConfig) -> list[str]:
    """One line each for what was set and is unknown, or cannot work on a lone broker."""
    lines = []
    for name in config.unknown_names():
        place = config.place(name)
        nearest = BROKER_KEYS.nearest(name)
        hint = f"; did you mean {nearest}?" if nearest else ""
        lines.append(f"unknown key {name}{f' from {place}' if place else ''} is ignored{hint}")
    least, most = config.integer("group.min.session.timeout.ms"), config.integer("group.max.session.timeout.ms")
    if least > most:
        lines.append(
            f"no classic group can be joined: group.min.session.timeout.ms={least} is greater than "
            f"group.max.session.timeout.ms={most}"
        )
    if not config.boolean("kbroker.internal.topics.clamp.replication"):
        for name, what in REPLICATION_FACTORS.items():
            factor = config.integer(name)
            if factor > 1:
                lines.append(f"{name}={factor} cannot work on one broker: {what} will not be created; set it to 1")
    return lines


def remarks(config: BrokerConfig) -> list[str]:
    """One line on the keys that somebody set although they have no meaning here."""
    idle = [
        name
        for name, text in config.static.items()
        if name in BROKER_KEYS
        and BROKER_KEYS[name].effect is Effect.NO_MEANING
        and text != BROKER_KEYS[name].default
        and config.is_chosen(name)
    ]
    return [f"these keys have no meaning here and are ignored: {', '.join(sorted(idle))}"] if idle else []
