"""The pytest plugin: a Kafka broker in tests, by the fixture ``kafka_broker``.

Fixtures are made in ``kbroker.testing.factories``. Loading this module costs a millisecond at most and imports nothing
of the broker; every pytest run of an environment that has kbroker pays for it.
"""

from __future__ import annotations

from collections.abc import Generator
from importlib.util import find_spec
from inspect import signature
from types import ModuleType

import pytest

from kbroker.testing import factories

NEIGHBOUR = "pytest_kafka_broker"
"""The package of pytest-kafka-broker: where it is loaded, ``kafka_broker`` is its fixture."""
NEIGHBOUR_NAME = "kafka_broker"
"""As ``-p no:kafka_broker`` calls it."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    group = parser.getgroup("kbroker", "a Kafka broker for tests")
    group.addoption("--kbroker-mode", dest="kbroker_mode", choices=factories.MODES, help="where the broker runs")
    group.addoption(
        "--kbroker-bootstrap", dest="kbroker_bootstrap", metavar="HOST:PORT", help="the broker of kbroker_noproc"
    )
    parser.addini("kbroker_mode", "where the broker runs: process or thread", default="process")
    parser.addini("kbroker_topics", "topics of the broker, name:partitions a line", type="linelist", default=[])
    parser.addini("kbroker_configs", "broker configs, key=value a line", type="linelist", default=[])
    parser.addini("kbroker_story", "failed tests show what the broker saw", type="bool", default=True)
    if find_spec(NEIGHBOUR) is None or pluginmanager.is_blocked(NEIGHBOUR_NAME):
        parser.addini("kafka_broker_extra_config", "broker configs, as kbroker_configs", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "kafka(topics={}, configs={}, load=[]): topics, broker configs and seeds that kafka_broker has for this test",
    )
    found = factories.fixtures()
    if any(getattr(each, "__name__", "").startswith(NEIGHBOUR) for each in config.pluginmanager.get_plugins()):
        del found["kafka_broker"]
    home = ModuleType("kbroker_fixtures")
    vars(home).update(found)
    config.pluginmanager.register(home, "kbroker-fixtures")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marker that asks for something asks it of a fixture; one that takes ``request`` may get it later."""
    if any(marker.args or marker.kwargs for marker in item.iter_markers(factories.MARKER)):
        named = set(getattr(item, "fixturenames", ())) - factories.UNMARKED
        asks_later = isinstance(item, pytest.Function) and "request" in signature(item.function).parameters
        if not asks_later and not any("broker" in name for name in named):
            raise pytest.UsageError(
                f"{item.name} has @pytest.mark.kafka(...) but uses no broker: take the fixture kafka_broker"
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that passed and set up a fault that never fired has failed."""
    result = yield
    for broker in item.stash.get(factories.USED, ()):
        broker.verify_faults()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test's report tells what the broker saw."""
    report = yield
    if report.failed:
        for broker in item.stash.get(factories.USED, ()):
            try:
                story = broker.story()
            except Exception as error:  # noqa: BLE001 (the test's own failure is what has to be seen)
                story = f"it cannot be asked: {error}"
            if story:
                report.sections.append(("what the Kafka broker saw", story))
    return report
