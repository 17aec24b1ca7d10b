"""What may be altered while a broker runs (KIP-226), and in which words the rest is refused.

Topics: ``kbroker.config.topic``. A broker's alteration that is refused is INVALID_REQUEST for its client, a group's
INVALID_CONFIG, as in Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from kbroker.config.broker import BrokerConfig
from kbroker.config.checks import check_broker
from kbroker.config.java_maps import in_map_order
from kbroker.config.registry import BROKER_KEYS, GROUP_KEYS, PER_BROKER, RATE_KEYS, ConfigType, Key, base_name
from kbroker.config.values import ConfigError, Value, has_duplicates, parse

logger = logging.getLogger(__name__)

LISTENER_PREFIX = "listener.name."


class Bound(NamedTuple):
    """Between which of the broker's values a group's own must lie."""

    name: str
    least: str | None
    most: str | None


def _between(*names: str) -> tuple[Bound, ...]:
    parts = (name.partition(".") for name in names)
    return tuple(
        Bound(f"{kind}.{what}", f"group.{kind}.min.{what}", f"group.{kind}.max.{what}") for kind, _, what in parts
    )


GROUP_BOUNDS = (
    *_between("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms", "consumer.assignment.interval.ms"),
    *_between("share.heartbeat.interval.ms", "share.session.timeout.ms", "share.record.lock.duration.ms"),
    *_between("share.delivery.count.limit", "share.partition.max.record.locks", "share.assignment.interval.ms"),
    *_between("streams.heartbeat.interval.ms", "streams.session.timeout.ms"),
    Bound("streams.num.standby.replicas", None, "group.streams.max.standby.replicas"),
    *_between("streams.assignment.interval.ms"),
    Bound("streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", None),
    Bound("streams.num.warmup.replicas", None, "group.streams.max.warmup.replicas"),
)
"""In the order in which Kafka looks at them."""

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


def with_stored(broker: BrokerConfig, *, default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
    """The configuration with the dynamic values that the metadata log holds, the cluster's and this broker's own."""
    return broker.with_dynamic(default=taken(default, cluster_wide=True), broker=taken(own, cluster_wide=False))


def taken(stored: Mapping[str, str], *, cluster_wide: bool) -> dict[str, str]:
    """The stored values that may be altered to today; an older version may have taken more. The rest is logged."""
    refused = {name for name, text in stored.items() if not _is_taken(name, text, cluster_wide=cluster_wide)}
    if refused:
        whose = "the cluster" if cluster_wide else "this broker"
        logger.error("Dynamic values of %s that are not taken any more are ignored: %s", whose, ", ".join(refused))
    return {name: text for name, text in stored.items() if name not in refused}


def _is_taken(name: str, text: str, *, cluster_wide: bool) -> bool:
    if (name in BROKER_KEYS and BROKER_KEYS[name].read_only) or name in _STORES:
        return False
    if cluster_wide and _is_of_one_broker(name):
        return False
    key = BROKER_KEYS.find(base_name(name))
    if key is not None:
        try:
            parse(key, text)
        except ConfigError:
            return False
    return True


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
    for bound in GROUP_BOUNDS:
        _check_bound(bound, parsed.get(bound.name), broker)
    name, assignors = "streams.assignor.name", broker.strings("group.streams.assignors")
    assignor = parsed.get(name)
    if isinstance(assignor, str) and assignor not in assignors:
        known = f"Registered assignors are: [{', '.join(assignors)}]."
        raise _refused([name], f"{name} '{assignor}' is not a registered task assignor. {known}")


def _check_bound(bound: Bound, value: Value, broker: BrokerConfig) -> None:
    least = None if bound.least is None else broker.integer(bound.least)
    most = None if bound.most is None else broker.integer(bound.most)
    if not isinstance(value, int) or ((least is None or least <= value) and (most is None or value <= most)):
        return
    if least is None:
        reason = f"less than or equal to {most}"
    elif most is None:
        reason = f"greater than or equal to {least}"
    else:
        reason = f"in the range {least} to {most} inclusive."
    raise _refused([bound.name], f"{bound.name} must be {reason}")


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
