"""Fixtures made to measure, as pytest-postgresql has them::

    from kbroker.testing import factories

    orders_proc = factories.kbroker_proc(topics={"orders": 3}, load=["tests/orders.jsonl"])
    orders_broker = factories.kafka_broker("orders_proc")

What is not said comes from the command line, then from the ini file. Nothing of kbroker is imported before a fixture
is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kbroker.testing.broker import Broker
    from kbroker.testing.clients import ExternalBroker
    from kbroker.testing.names import Topics

USED: pytest.StashKey[list[Broker]] = pytest.StashKey()
"""On an item: the brokers that its fixtures gave it."""
MARKER = "kafka"
MARKER_ARGUMENTS = frozenset({"topics", "configs", "load"})
UNMARKED = frozenset({"kbroker_proc", "kbroker_noproc"})
"""Fixtures for which a marker does nothing: they are made once a session."""
MODES = ("thread", "process")
ADDRESS_VARIABLE = "KBROKER_BOOTSTRAP"


def kbroker_proc(
    *,
    scope: str = "session",
    name: str | None = None,
    mode: str | None = None,
    topics: Topics | None = None,
    configs: Mapping[str, object] | None = None,
    load: Iterable[Any] = (),
    port: int = 0,
    data_dir: str | None = None,
) -> Any:
    """A fixture: a broker that runs as long as its scope. Arguments as of ``kbroker.testing.Broker``."""

    @pytest.fixture(scope=scope, name=name)  # type: ignore[call-overload,untyped-decorator]  # the scope is the caller's
    def kbroker_proc_fixture(request: pytest.FixtureRequest) -> Iterator[Broker]:
        """A Kafka broker that runs for the whole session; kafka_broker is the same, clean for each test."""
        from kbroker.testing.broker import Broker

        with Broker(
            mode=mode or chosen_mode(request.config),  # type: ignore[arg-type]  # checked by Broker
            topics={**ini_topics(request.config), **asked_topics("topics", topics)},
            configs={**ini_configs(request.config), **(configs or {})},
            load=load,
            port=port,
            data_dir=data_dir,
            unused_faults="ignore",
        ) as broker:
            yield broker

    return kbroker_proc_fixture


def kafka_broker(proc: str = "kbroker_proc", *, name: str | None = None) -> Any:
    """A fixture: the broker of the fixture ``proc``, clean for each test, with what the marker ``kafka`` asks for."""

    @pytest.fixture(name=name)
    def kafka_broker_fixture(request: pytest.FixtureRequest) -> Broker:
        """A Kafka broker, clean for each test: topics, groups, time and faults as new (kbroker.testing.Broker)."""
        broker: Broker = request.getfixturevalue(proc)
        asked = marker_of(request.node)
        if not broker.is_running:  # the test before has stopped it
            broker.start()
        broker.start_over(topics=asked.get("topics"), configs=asked.get("configs"))
        for source in asked.get("load", ()):
            broker.load(source)
        if request.config.getini("kbroker_story"):
            broker.note_requests()
        request.node.stash.setdefault(USED, []).append(broker)
        return broker

    return kafka_broker_fixture


def kbroker_noproc(*, name: str | None = None, address: str | None = None) -> Any:
    """A fixture: a broker that runs elsewhere; its address from here, ``--kbroker-bootstrap`` or KBROKER_BOOTSTRAP."""

    @pytest.fixture(scope="session", name=name)
    def kbroker_noproc_fixture(request: pytest.FixtureRequest) -> ExternalBroker:
        """A Kafka broker that runs elsewhere: its address, from KBROKER_BOOTSTRAP, and clients for it."""
        from kbroker.testing.clients import ExternalBroker

        found = address or request.config.getoption("kbroker_bootstrap") or os.environ.get(ADDRESS_VARIABLE)
        if not found:
            raise pytest.UsageError(
                f"kbroker_noproc needs the address of a broker: set {ADDRESS_VARIABLE}, or give --kbroker-bootstrap"
            )
        if not all(each.rpartition(":")[2].isdecimal() for each in found.split(",")):
            raise pytest.UsageError(f"kbroker_noproc: the address of a broker is HOST:PORT, not {found!r}")
        return ExternalBroker(found)

    return kbroker_noproc_fixture


def chosen_mode(config: pytest.Config) -> str:
    """From the command line, then the ini file. Raises ``UsageError``."""
    mode = config.getoption("kbroker_mode") or config.getini("kbroker_mode")
    if mode not in MODES:
        raise pytest.UsageError(f"kbroker_mode is {' or '.join(MODES)}, not {mode!r}")
    return str(mode)


def ini_topics(config: pytest.Config) -> dict[str, int]:
    """Lines ``name`` or ``name:partitions``. Raises ``UsageError``."""
    return asked_topics("kbroker_topics", config.getini("kbroker_topics"))


def asked_topics(where: str, given: Topics | None) -> dict[str, int]:
    """Topics to be made. Raises ``UsageError`` that says where they are asked for."""
    from kbroker.testing.names import new_topics

    try:
        return new_topics(given)
    except ValueError as error:
        raise pytest.UsageError(f"{where}: {error}") from error


def ini_configs(config: pytest.Config) -> dict[str, str]:
    """Lines ``key=value``, also those of pytest-kafka-broker. Raises ``UsageError``."""
    configs = {}
    for line in [*config.getini("kbroker_configs"), *_neighbour_configs(config)]:
        key, equals, value = line.partition("=")
        if not equals:
            raise pytest.UsageError(f"kbroker_configs: key=value is expected, not {line!r}")
        configs[key.strip()] = value.strip()
    return configs


def _neighbour_configs(config: pytest.Config) -> list[str]:
    try:
        return list(config.getini("kafka_broker_extra_config"))
    except ValueError:
        return []


def marker_of(item: pytest.Item) -> dict[str, Any]:
    """What the markers ``kafka`` of a test ask for, the nearest winning. Raises ``UsageError``."""
    asked: dict[str, Any] = {"topics": {}, "configs": {}, "load": []}
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(
                f"@pytest.mark.kafka takes names, as in topics={{...}}, not {marker.args[0]!r} alone"
            )
        unknown = sorted(set(marker.kwargs) - MARKER_ARGUMENTS)
        if unknown:
            raise pytest.UsageError(
                f"@pytest.mark.kafka knows {', '.join(sorted(MARKER_ARGUMENTS))}, not {', '.join(unknown)}"
            )
        configs = marker.kwargs.get("configs", {})
        if not isinstance(configs, Mapping):
            raise pytest.UsageError(f"@pytest.mark.kafka(configs=...) takes a dict, not {configs!r}")
        asked["configs"].update(configs)
        asked["topics"].update(asked_topics("@pytest.mark.kafka(topics=...)", marker.kwargs.get("topics")))
        sources = marker.kwargs.get("load", ())
        if isinstance(sources, str) or not isinstance(sources, Iterable):
            raise pytest.UsageError(f"@pytest.mark.kafka(load=...) takes a list, not {sources!r}")
        asked["load"] += sources
    return asked


def fixtures() -> dict[str, Callable[..., Any]]:
    """The fixtures that the plugin brings, by name."""
    return {
        "kbroker_proc": kbroker_proc(name="kbroker_proc"),
        "kbroker_noproc": kbroker_noproc(name="kbroker_noproc"),
        "kafka_broker": kafka_broker(name="kafka_broker"),
    }
