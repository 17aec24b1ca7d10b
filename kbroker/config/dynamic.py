"""What may be altered while a broker runs (KIP-226), and in which words the rest is refused.

Topics: ``kbroker.config.topic``. A broker's alteration that is refused is INVALID_REQUEST for its client, a group's
INVALID_CONFIG, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping

from kbroker.config.broker import BrokerConfig
from kbroker.config.checks import check_broker
from kbroker.config.java_maps import in_map_order
from kbroker.config.registry import BROKER_KEYS, GROUP_KEYS, PER_BROKER, RATE_KEYS, ConfigType, Key, base_name
from kbroker.config.values import ConfigError, Value, has_duplicates, parse

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

GROUP_MAXIMA = {
    "streams.num.standby.replicas": "group.streams.max.standby.replicas",
    "streams.num.warmup.replicas": "group.streams.max.warmup.replicas",
}

# Kafka's ``SslConfigs.RECONFIGURABLE_CONFIGS``: the stores of single listeners.
_STORES = (
    "ssl.keystore.type",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.type",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)
_OF_ALL_LISTENERS = ("max.connections", "max.connection.creation.rate", "num.network.threads")
# Numbers of threads that Kafka changes while it runs; those of the log cleaner have a check of their own.
THREADS = (
    "num.network.threads",
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
# Kafka moves its listeners while it runs.
FIXED_HERE = ("listeners", "listener.security.protocol.map")
# Kafka looks for these in files and elsewhere before it looks at anything, and forgets the names.
_PROVIDERS = "config.providers"
_REPORTERS = "metric.reporters"
_RACK_TAGS = "streams.rack.aware.assignment.tags"


def validate_broker_alteration(broker: BrokerConfig, values: Mapping[str, str], *, cluster_wide: bool) -> None:
    """Check the whole set of dynamic values that a broker, or with ``cluster_wide`` the cluster, shall have.

    Unknown names are taken, as Kafka takes them: they may be a plug-in's. Raises ``ConfigError``. The order is Kafka's
    (``DynamicBrokerConfig.validate``): which keys, each value, all values together, each part of the broker.
    """
    values = {name: text for name, text in values.items() if not name.startswith(_PROVIDERS)}
    fixed = [name for name in in_map_order(values) if name in BROKER_KEYS and BROKER_KEYS[name].read_only]
    if fixed:
        raise _refused(fixed, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    secrets = [name for name in in_map_order(values) if name in _STORES]
    if secrets:
        prefix = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise _refused(secrets, f"{prefix}: [{', '.join(secrets)}]")
    order = {name: number for number, name in enumerate(BROKER_KEYS)}
    for name in sorted(filter(_is_known, values), key=lambda each: order[base_name(each)]):
        _check_value(BROKER_KEYS[base_name(name)], values[name])
    for name in filter(RATE_KEYS.find, values):
        parse(RATE_KEYS[name], values[name])
    if cluster_wide:
        own = [name for name in in_map_order(values) if _is_of_one_broker(name)]
        if own:
            where = "Cannot update these configs at default cluster level, broker id must be specified"
            raise _refused(own, f"{where}: [{', '.join(own)}]")
        after = broker.with_dynamic(default=values, broker=broker.dynamic_broker)
    else:
        after = broker.with_dynamic(default=broker.dynamic_default, broker=values)
    _check_parts(after)
    check_broker(after)
    for name in FIXED_HERE:
        if name in values and values[name] != broker.static.get(name, BROKER_KEYS[name].default):
            raise ConfigError(name, values[name], "kbroker's listeners are fixed at its start: restart it with another")
    _check_threads(broker, after)
    _check_local_retention(after)


def _check_value(key: Key, text: str) -> None:
    if key.type is ConfigType.LIST and has_duplicates(key, text):
        raise _refused([key.name], f"Configuration '{key.name}' values must not be duplicated.")
    if key.type is ConfigType.CLASS and text != key.default:
        raise ConfigError(key.name, text, f"Class {text} could not be found.")
    parse(key, text)


def _check_threads(before: BrokerConfig, after: BrokerConfig) -> None:
    """Kafka grows and shrinks its pools by at most a factor of two at a time; here the number has no meaning."""
    for name in THREADS:
        count, current = after.integer(name), before.integer(name)
        reason = None
        if count <= 0:
            reason = "value should be at least 1"
        elif count < current // 2:
            reason = f"value should be at least half the current value {current}"
        elif count > current * 2:
            reason = f"value should not be greater than double the current value {current}"
        if count != current and reason is not None:
            raise _nested([name], f"Dynamic thread count update validation failed for {name}={count}, {reason}")
    name = "log.cleaner.threads"
    count, current = after.integer(name), before.integer(name)
    if count < 1:
        raise _nested([name], "Log cleaner threads should be at least 1")
    if count < current // 2:
        raise _nested([name], f"Log cleaner threads cannot be reduced to less than half the current value {current}")
    if count > current * 2:
        reason = f"Log cleaner threads cannot be increased to more than double the current value {current}"
        raise _nested([name], reason)


def _check_local_retention(after: BrokerConfig) -> None:
    """What is kept here of a log in tiers is a part of all that is kept, and is copied before it goes."""
    for unit, whole in (("ms", after.log_retention_ms), ("bytes", after.integer("log.retention.bytes"))):
        name, retention = f"log.local.retention.{unit}", f"log.retention.{unit}"
        local = after.integer(name)
        if whole < 0:
            continue
        if local == -1:
            reason = f"Value must not be -1 as {retention} value is set as {whole}."
            raise _nested([name], str(ConfigError(name, local, reason)))
        if local > whole:
            reason = f"Value must not be more than {retention} property value: {whole}"
            raise _nested([name], str(ConfigError(name, local, reason)))
        lag_name = f"log.remote.copy.lag.{unit}"
        lag, effective = after.integer(lag_name), whole if local == -2 else local
        if lag > effective:
            reason = f"Value must not exceed {name} (effective value: {effective})"
            raise _nested([lag_name], str(ConfigError(lag_name, lag, reason)))


def _check_parts(after: BrokerConfig) -> None:
    """What Kafka's network layer and its metrics have to say."""
    texts = after.texts()
    for name in ("max.connections", "max.connection.creation.rate"):
        own = (texts.get(f"listener.name.{listener.name.lower()}.{name}") for listener in after.broker_listeners)
        for number in (after.integer(name), *(int(text) for text in own if text is not None)):
            if number <= 0:
                raise _nested([name], f"Invalid {name} {number}")
    if any(each != BROKER_KEYS[_REPORTERS].default for each in after.strings(_REPORTERS)):
        what = f"Validation of dynamic config update of Set({_REPORTERS}) failed with class"
        raise _nested([_REPORTERS], f"{what} class kafka.server.DynamicMetricsReporters")


def validate_group_configs(values: Mapping[str, str], broker: BrokerConfig) -> None:
    """Check a group's whole set of values: names, values, the broker's limits. Raises ``ConfigError``."""
    unknown = [name for name in in_map_order(values) if name not in GROUP_KEYS]
    if unknown:
        raise _refused(unknown, f"Unknown group config name: {unknown[0]}")
    if has_duplicates(GROUP_KEYS[_RACK_TAGS], values.get(_RACK_TAGS, "")):
        raise _refused([_RACK_TAGS], f"{_RACK_TAGS} must not contain duplicate tag keys.")
    parsed: dict[str, Value] = {
        key.name: parse(key, values[key.name]) for key in GROUP_KEYS.all() if key.name in values
    }
    for name, value in parsed.items():
        if name in GROUP_LIMITS and isinstance(value, int):
            low, high = (broker.integer(GROUP_LIMITS[name].format(end)) for end in ("min", "max"))
            if not low <= value <= high:
                raise _refused([name], f"{name} must be in the range {low} to {high} inclusive.")
    for name, limit in GROUP_MAXIMA.items():
        number, most = parsed.get(name), broker.integer(limit)
        if isinstance(number, int) and number > most:
            raise _refused([name], f"{name} must be less than or equal to {most}")
    name, least = "streams.task.offset.interval.ms", broker.integer("group.streams.min.task.offset.interval.ms")
    interval = parsed.get(name)
    if isinstance(interval, int) and interval < least:
        raise _refused([name], f"{name} must be greater than or equal to {least}")
    name, assignors = "streams.assignor.name", broker.strings("group.streams.assignors")
    assignor = parsed.get(name)
    if isinstance(assignor, str) and assignor not in assignors:
        known = f"Registered assignors are: [{', '.join(assignors)}]."
        raise _refused([name], f"{name} '{assignor}' is not a registered task assignor. {known}")


def _is_known(name: str) -> bool:
    return base_name(name) in BROKER_KEYS


def _is_of_one_broker(name: str) -> bool:
    """Listeners and all that is said of a single one are each broker's own, but for a few that Kafka gives to all."""
    if name.startswith(LISTENER_PREFIX):
        return base_name(name) not in _OF_ALL_LISTENERS
    return name in BROKER_KEYS and BROKER_KEYS[name].update_mode == PER_BROKER


def _nested(names: list[str], failed: str) -> ConfigError:
    """What a part of the broker refuses: Kafka shows one exception inside another."""
    shown = f"org.apache.kafka.common.config.ConfigException: {failed}"
    return _refused(names, f"Invalid value {shown} for configuration Invalid dynamic configuration")


def _refused(names: list[str], message: str) -> ConfigError:
    return ConfigError(names[0], None, message, message=message)
