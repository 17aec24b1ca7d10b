"""Rows of DescribeConfigs: each key with its value, where that comes from, and what it would be without (KIP-226)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from kbroker.config.broker import UNITS_MS, BrokerConfig, Source
from kbroker.config.java_maps import in_map_order
from kbroker.config.registry import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    RATE_KEYS,
    TOPIC_KEYS,
    ConfigType,
    Key,
    Keys,
    base_name,
    broker_synonyms,
)
from kbroker.config.values import Value, convert, parse, to_text


class ConfigSynonym(NamedTuple):
    """A name, value and source that applies, or would if what stands before it were gone."""

    name: str
    value: str | None
    source: Source


class DescribedConfig(NamedTuple):
    """One row. ``synonyms`` begins with what is in force; a sensitive value is None everywhere."""

    name: str
    value: str | None
    source: Source
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    read_only: bool
    sensitive: bool
    key: Key | None

    @property
    def doc(self) -> str:
        return self.key.doc if self.key is not None else ""


class EffectiveConfig(NamedTuple):
    """What CreateTopics answers of one key of the new topic."""

    name: str
    value: str | None
    source: Source


OWN_PREFIX = "kbroker."


def describe_topic(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """A topic's rows: its own overrides over the broker's values. ``names`` limits them; unknown names are left out."""
    rows = []
    for key in _keys_in_order(TOPIC_KEYS, overrides, names):
        own = parse(key, overrides[key.name]) if key.name in overrides else broker.topic_defaults[key.name]
        synonyms = _broker_rows(broker, key.broker_synonym, sensitive=False) if key.broker_synonym else ()
        if key.name in overrides:
            synonyms = (_override(key, own, overrides, Source.TOPIC), *synonyms)
        rows.append(_row(key, own, synonyms, read_only=False))
    return rows


def effective_topic_configs(broker: BrokerConfig, overrides: Mapping[str, str]) -> list[EffectiveConfig]:
    """A new topic's values by name, as Kafka's controller tells them: each as it was written, whatever its unit."""
    found = []
    for key in sorted(_keys_in_order(TOPIC_KEYS, overrides, None), key=lambda key: key.name):
        if key.name in overrides:
            found.append(EffectiveConfig(key.name, overrides[key.name], Source.TOPIC))
            continue
        behind = _set_values(broker, key.broker_synonym) if key.broker_synonym else []
        if behind:
            name, text, source = behind[0]
            value = text if name not in UNITS_MS else str(int(text or "0") * UNITS_MS[name])
            found.append(EffectiveConfig(key.name, value, source))
        else:
            found.append(EffectiveConfig(key.name, to_text(convert(key, key.default)), Source.DEFAULT))
    return found


def describe_group(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """A group's rows. Kafka shows a group key's own default as a synonym where no broker key stands behind it."""
    rows = []
    for key in _keys_in_order(GROUP_KEYS, overrides, names):
        behind = key.broker_synonym
        value = broker.value(behind) if behind is not None else convert(key, key.default)
        if key.name == "streams.assignor.name" and isinstance(value, list):
            value = value[0]
        synonyms = (
            _broker_rows(broker, behind, sensitive=False)
            if behind is not None
            else (ConfigSynonym(key.name, to_text(value), Source.DEFAULT),)
        )
        if key.name in overrides:
            value = parse(key, overrides[key.name])
            synonyms = (_override(key, value, overrides, Source.GROUP), *synonyms)
        rows.append(_row(key, value, synonyms, read_only=False))
    return rows


def describe_client_metrics(
    overrides: Mapping[str, str], names: Collection[str] | None = None
) -> list[DescribedConfig]:
    """The rows of a subscription to client metrics."""
    rows = []
    for key in _keys_in_order(CLIENT_METRICS_KEYS, overrides, names):
        is_set = key.name in overrides
        value = parse(key, overrides[key.name] if is_set else key.default)
        synonyms = (_override(key, value, overrides, Source.CLIENT_METRICS),) if is_set else ()
        rows.append(_row(key, value, synonyms, read_only=False))
    return rows


def describe_broker(broker: BrokerConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """This broker's rows: every key, and whatever else was set (the unknown without its value, as in Kafka)."""
    texts = broker.texts()
    rows = []
    for name in _in_order(BROKER_KEYS, texts):
        key = BROKER_KEYS.find(name)
        if not _wanted(name, names):
            continue
        if key is None:
            rows.append(_unknown(broker, name))
            continue
        synonyms = _broker_rows(broker, name, sensitive=key.sensitive)
        rows.append(_row(key, broker.value(name), synonyms, read_only=key.read_only))
    return rows


def describe_broker_default(broker: BrokerConfig, names: Collection[str] | None = None) -> list[DescribedConfig]:
    """The rows of the empty broker name: only what was set for the whole cluster."""
    rows = []
    for name in broker.dynamic_default:
        if _wanted(name, names):
            row = next(iter(describe_broker(broker, [name])))
            synonyms = tuple(each for each in row.synonyms if each.source is Source.DYNAMIC_DEFAULT_BROKER)
            value = None if row.sensitive else broker.dynamic_default[name]
            rows.append(row._replace(value=value, source=Source.DYNAMIC_DEFAULT_BROKER, synonyms=synonyms))
    return rows


def _in_order(keys: Keys, given: Iterable[str]) -> list[str]:
    """Every key but the internal ones that nobody set, and what else was given: in the order of Kafka's hash map.

    What is kbroker's own stands at the end, so that the rest is where Kafka has it.
    """
    given = dict.fromkeys(given)
    shown = [key.name for key in keys.all() if not key.internal or key.name in given]
    shown += [name for name in given if name not in keys]
    kafkas = tuple(name for name in shown if not name.startswith(OWN_PREFIX))
    return [*_map_order(kafkas), *(name for name in shown if name.startswith(OWN_PREFIX))]


@lru_cache(maxsize=16)
def _map_order(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(in_map_order(names))


def _keys_in_order(keys: Keys, given: Iterable[str], names: Collection[str] | None) -> list[Key]:
    return [keys[name] for name in _in_order(keys, given) if name in keys and _wanted(name, names)]


def _wanted(name: str, names: Collection[str] | None) -> bool:
    return not names or name in names


def _override(key: Key, value: Value, overrides: Mapping[str, str], source: Source) -> ConfigSynonym:
    """What was set, as Kafka shows it: a key of its own use as it was written, others as they were understood."""
    return ConfigSynonym(key.name, overrides[key.name] if key.internal else to_text(value), source)


def _row(key: Key, value: Value, synonyms: tuple[ConfigSynonym, ...], *, read_only: bool) -> DescribedConfig:
    source = synonyms[0].source if synonyms else Source.DEFAULT
    text = None if key.sensitive else to_text(value)
    if key.internal and synonyms:
        text = synonyms[0].value
    return DescribedConfig(key.name, text, source, synonyms, key.type, read_only, key.sensitive, key)


def _unknown(broker: BrokerConfig, name: str) -> DescribedConfig:
    key = BROKER_KEYS.find(base_name(name)) or RATE_KEYS.find(name)
    synonyms = _broker_rows(broker, name, sensitive=True)
    config_type = key.type if key is not None else ConfigType.UNKNOWN
    sensitive = key is None or key.sensitive
    if not sensitive:
        synonyms = _broker_rows(broker, name, sensitive=False)
    value = None if sensitive else broker.texts()[name]
    # Kafka looks for the whole name among those that may be altered: of a single listener it finds none.
    read_only = name not in RATE_KEYS
    return DescribedConfig(name, value, broker.source(name), synonyms, config_type, read_only, sensitive, key)


def _broker_rows(broker: BrokerConfig, name: str, *, sensitive: bool) -> tuple[ConfigSynonym, ...]:
    """What every source says for a broker key, the strongest first; nothing above the first row of the key itself."""
    names = broker_synonyms(name)
    found = _set_values(broker, name)
    for each in names:
        key = BROKER_KEYS.find(each)
        if key is not None and key.default is not None:
            found.append(ConfigSynonym(each, key.default, Source.DEFAULT))
    first = next((index for index, synonym in enumerate(found) if synonym.name == name), len(found))
    kept = found[first:]
    return tuple(each._replace(value=None) for each in kept) if sensitive else tuple(kept)


def _set_values(broker: BrokerConfig, name: str) -> list[ConfigSynonym]:
    """What was set for a broker key or one that says the same, the strongest first."""
    return [
        ConfigSynonym(each, values[each], source)
        for values, source in (
            (broker.dynamic_broker, Source.DYNAMIC_BROKER),
            (broker.dynamic_default, Source.DYNAMIC_DEFAULT_BROKER),
            (broker.static, Source.STATIC_BROKER),
        )
        for each in broker_synonyms(name)
        if each in values
    ]
