"""From flags, environment, file and presets to one ``BrokerConfig``, and from its errors to one line for a person.

Precedence: flag, ``KAFKA_*`` variable, file, preset. Only commands read the environment: a broker inside another
process takes what it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kbroker.config.broker import PRESET, SHIPPED, BrokerConfig, Layer
from kbroker.config.checks import check_start, remarks, warnings
from kbroker.config.environment import read_environment
from kbroker.config.listeners import Listener
from kbroker.config.properties import PropertiesError, parse_properties
from kbroker.config.registry import BROKER_KEYS, base_name
from kbroker.config.values import ConfigError

# The values of the server.properties that Apache Kafka ships, for a start without a file.
SHIPPED_VALUES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "inter.broker.listener.name": "PLAINTEXT",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "log.dirs": "/tmp/kraft-combined-logs",  # noqa: S108 - Apache's choice
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
# These say nothing that holds once somebody else says where to listen.
OF_LISTENERS = ("advertised.listeners", "inter.broker.listener.name")
WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognised, not bound


class SettingsError(Exception):
    """What was given cannot be: one line for a person."""


@dataclass(slots=True)
class Flags:
    """The options of ``start`` and ``dev``."""

    file: str | None = None
    host: str | None = None
    port: int | None = None
    data_dir: str | None = None
    node_id: int | None = None
    cluster_id: str | None = None
    overrides: Sequence[str] = ()
    topics: Sequence[str] = ()


@dataclass(slots=True)
class Settings:
    """A whole configuration and what is worth saying about where it came from."""

    config: BrokerConfig
    warnings: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    is_dev: bool = False


def assemble(flags: Flags, environment: Mapping[str, str], *, presets: Mapping[str, str] | None = None) -> Settings:
    """Raises ``SettingsError``. ``presets`` (of ``dev``) take the place of what Apache's own file says."""
    layers = [_of_flags(flags), _of_environment(environment)]
    if flags.file is not None:
        layers.append(_of_file(flags.file))
    if presets is not None:
        layers.append(_of_presets(layers, presets, PRESET))
    elif flags.file is None:
        layers.append(_of_presets(layers, SHIPPED_VALUES, SHIPPED))
    try:
        config = BrokerConfig.from_layers(layers)
        if flags.host is not None or flags.port is not None:
            layers.insert(0, _of_address(flags, config))
            config = BrokerConfig.from_layers(layers)
        check_start(config)
    except ConfigError as error:
        raise SettingsError(explain(error, layers)) from error
    settings = Settings(config, warnings(config), remarks(config), is_dev=presets is not None)
    for variable, name in read_environment(environment).unknown.items():
        nearest = BROKER_KEYS.nearest(name)
        if nearest:
            settings.warnings.append(f"the environment variable {variable} names no key; did you mean {nearest}?")
        else:
            settings.remarks.append(f"the environment variable {variable} names no key and is ignored")
    return settings


def explain(error: ConfigError, layers: Iterable[Layer]) -> str:
    """One line: key, value, what is allowed, where it was set."""
    key = BROKER_KEYS.find(base_name(error.name))
    layer = next((layer for layer in layers if error.name in layer.values), None)
    value = error.value if layer is None else layer.values[error.name]
    if key is not None and key.sensitive:
        value = "[hidden]"
    allowed = ""
    if key is not None and error.reason.startswith(("Not a number", "Value must", "String must", "Expected value")):
        allowed = f"; allowed: {key.type.name}" + (f" {key.valid}" if key.valid else "")
    place = f" (from {layer.place_of(error.name)})" if layer is not None else ""
    return f"{error.name}={value}{place}: {error.reason}{allowed}"


def _of_flags(flags: Flags) -> Layer:
    values: dict[str, str] = {}
    places: dict[str, str] = {}

    def put(name: str, value: str, flag: str) -> None:
        values[name] = value
        places[name] = f"the flag {flag}"

    for override in flags.overrides:
        name, separator, value = override.partition("=")
        name = name.strip()
        if not separator or not name:
            raise SettingsError(f"--override {override}: key=value is expected")
        if base_name(name) not in BROKER_KEYS:
            nearest = BROKER_KEYS.nearest(name)
            hint = f"did you mean {nearest}?" if nearest else "the keys are those of Apache Kafka's server.properties"
            raise SettingsError(f"--override {override}: unknown key {name}; {hint}")
        put(name, value, "--override")
    if flags.data_dir is not None:
        put("log.dirs", flags.data_dir, "--data-dir")
    if flags.node_id is not None:
        put("node.id", str(flags.node_id), "--node-id")
    if flags.cluster_id is not None:
        put("kbroker.cluster.id", flags.cluster_id, "--cluster-id")
    if flags.topics:
        put("kbroker.topics", ",".join(flags.topics), "--topic")
    return Layer(values, "a flag", places)


def _of_environment(environment: Mapping[str, str]) -> Layer:
    found = read_environment(environment)
    return Layer(found.values, "the environment", found.places)


def _of_file(path: str) -> Layer:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            entries = parse_properties(file.read())
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from error
    except PropertiesError as error:
        raise SettingsError(f"{path}: {error}") from error
    values = {entry.key: entry.value for entry in entries}
    return Layer(values, path, {entry.key: f"{path} line {entry.line}" for entry in entries})


def _of_presets(stronger: Sequence[Layer], presets: Mapping[str, str], place: str) -> Layer:
    values = dict(presets)
    said = {name for layer in stronger for name in layer.values}
    if "listeners" in said:
        for name in OF_LISTENERS:
            values.pop(name, None)
    elif "advertised.listeners" in said:
        # As Kafka's image: whoever says only what clients are told listens there on every address.
        advertised = next(layer.values for layer in stronger if "advertised.listeners" in layer.values)
        told = advertised["advertised.listeners"].split(",")
        heard = [f"{each.strip().partition('://')[0]}://:{each.strip().rpartition(':')[2]}" for each in told]
        rest = [each for each in values.get("listeners", "").split(",") if each.startswith("CONTROLLER:")]
        values["listeners"] = ",".join(dict.fromkeys([*heard, *rest]))
    return Layer(values, place)


def _of_address(flags: Flags, config: BrokerConfig) -> Layer:
    """``--host`` and ``--port`` move the first listener that clients use, and what they are told of it."""
    if not config.broker_listeners:
        raise SettingsError("--host and --port move a listener for clients, and listeners has none")
    first = config.broker_listeners[0]
    moved = first._replace(
        host=first.host if flags.host is None else flags.host,
        port=first.port if flags.port is None else flags.port,
    )
    listeners = [moved if each == first else each for each in config.listeners]
    values = {"listeners": ",".join(map(str, listeners))}
    if "advertised.listeners" not in {each.partition("=")[0] for each in flags.overrides}:
        told = [_told(each, moved, flags) for each in config.advertised_listeners]
        values["advertised.listeners"] = ",".join(map(str, told))
    flag = "--port" if flags.host is None else "--host"
    return Layer(values, f"the flag {flag}")


def _told(advertised: Listener, moved: Listener, flags: Flags) -> Listener:
    if advertised.name != moved.name:
        return advertised
    host = advertised.host
    if flags.host is not None:
        host = "" if flags.host in WILDCARDS else flags.host
    return advertised._replace(host=host, port=moved.port)
