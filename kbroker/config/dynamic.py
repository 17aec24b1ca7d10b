"""What may be altered while a broker runs (KIP-226), and in which words the rest is refused.

Topics: ``kbroker.config.topic``. A broker's alteration that is refused is INVALID_REQUEST for its client, a group's
INVALID_CONFIG, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.config.broker import BrokerConfig
from kbroker.config.checks import check_broker
from kbroker.config.java_maps import in_map_order
from kbroker.config.registry import BROKER_KEYS, GROUP_KEYS, PER_BROKER, RATE_KEYS, Key, base_name
from kbroker.config.values import ConfigError, Value, parse

LISTENER_PREFIX = "listener.name."
# Kafka: a group's own value must lie between the broker's limits.
GROUP_LIMITS = {
    "consumer.assignment.interval.ms": "group.consumer.{}.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.{}.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.{}.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.{}.assignment.interval.ms",
    "share.delivery.count.limit": "group.share.{}.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.{}.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.{}.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.{}.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.{}.session.timeout.ms",
    "streams.assignment.interval.ms": "group.streams.{}.assignment.interval.ms",
    "streams.heartbeat.interval.ms": "group.streams.{}.heartbeat.interval.ms",
    "streams.session.timeout.ms": "group.streams.{}.session.timeout.ms",
}

# Numbers of threads that Kafka changes while it runs.
THREADS = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "log.cleaner.threads",
)
# Kafka moves its listeners while it runs.
FIXED_HERE = ("listeners", "listener.security.protocol.map")


def validate_broker_alteration(broker: BrokerConfig, values: Mapping[str, str], *, cluster_wide: bool) -> None:
    """Check the whole set of dynamic values that a broker, or with ``cluster_wide`` the cluster, shall have.

    Unknown names are taken, as Kafka takes them: they may be a plug-in's. Raises ``ConfigError``.
    """
    fixed = [name for name in values if _is_known(name) and BROKER_KEYS[base_name(name)].read_only]
    if fixed:
        raise _refused(fixed, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    secrets = [name for name in values if name in BROKER_KEYS and _of_one_listener(name)]
    if secrets:
        prefix = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise _refused(secrets, f"{prefix}: [{', '.join(secrets)}]")
    if cluster_wide:
        own = [name for name in values if _is_known(name) and BROKER_KEYS[base_name(name)].update_mode == PER_BROKER]
        if own:
            where = "Cannot update these configs at default cluster level, broker id must be specified"
            raise _refused(own, f"{where}: [{', '.join(own)}]")
    for name, text in values.items():
        if _is_known(name):
            _check_known(BROKER_KEYS[base_name(name)], text)
    for name in THREADS:
        if name in values:
            _check_threads(broker, name, int(values[name]))
    for key in RATE_KEYS.all():
        if key.name in values:
            parse(key, values[key.name])
    for name in FIXED_HERE:
        if name in values and values[name] != broker.static.get(name, BROKER_KEYS[name].default):
            raise ConfigError(name, values[name], "kbroker's listeners are fixed at its start: restart it with another")
    if cluster_wide:
        after = broker.with_dynamic(default=values, broker=broker.dynamic_broker)
    else:
        after = broker.with_dynamic(default=broker.dynamic_default, broker=values)
    check_broker(after)


def _check_known(key: Key, text: str) -> None:
    parse(key, text)
    if "list" in key.flags:  # in a file what stands twice counts once
        entries = [each.strip() for each in text.split(",")]
        if len(set(entries)) < len(entries):
            reason = "values must not be duplicated."
            raise ConfigError(key.name, text, reason, message=f"Configuration '{key.name}' {reason}")


def _check_threads(broker: BrokerConfig, name: str, count: int) -> None:
    """Kafka grows and shrinks its pools by at most a factor of two at a time; here the number has no meaning."""
    current = broker.integer(name)
    reason = None
    if count == current:
        return
    if count <= 0:
        reason = "value should be at least 1"
    elif count < current // 2:
        reason = f"value should be at least half the current value {current}"
    elif count > current * 2:
        reason = f"value should not be greater than double the current value {current}"
    if reason is not None:
        failed = f"Dynamic thread count update validation failed for {name}={count}, {reason}"
        shown = f"org.apache.kafka.common.config.ConfigException: {failed}"
        raise _refused([name], f"Invalid value {shown} for configuration Invalid dynamic configuration")


def validate_group_configs(values: Mapping[str, str], broker: BrokerConfig) -> None:
    """Check a group's whole set of values: names, values, the broker's limits. Raises ``ConfigError``."""
    unknown = [name for name in in_map_order(values) if name not in GROUP_KEYS]
    if unknown:
        raise _refused(unknown, f"Unknown group config name: {unknown[0]}")
    parsed: dict[str, Value] = {
        key.name: parse(key, values[key.name]) for key in GROUP_KEYS.all() if key.name in values
    }
    for name, value in parsed.items():
        if name in GROUP_LIMITS and isinstance(value, int):
            low, high = (broker.integer(GROUP_LIMITS[name].format(end)) for end in ("min", "max"))
            if not low <= value <= high:
                raise _refused([name], f"{name} must be in the range {low} to {high} inclusive.")
    standbys, most = parsed.get("streams.num.standby.replicas"), broker.integer("group.streams.max.standby.replicas")
    if isinstance(standbys, int) and standbys > most:
        name = "streams.num.standby.replicas"
        raise _refused([name], f"{name} must be less than or equal to {most}")


def _is_known(name: str) -> bool:
    return base_name(name) in BROKER_KEYS


def _of_one_listener(name: str) -> bool:
    return name.startswith(("ssl.", "sasl.")) and BROKER_KEYS[name].update_mode == PER_BROKER


def _refused(names: list[str], message: str) -> ConfigError:
    return ConfigError(names[0], None, message, message=message)
