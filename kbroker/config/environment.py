"""``KAFKA_*`` variables to keys, with the rules of Apache's and Confluent's images.

``KAFKA_`` is dropped; three underscores stand for a dash, two for an underscore, one for a dot; letters become small.
Only names that map to a known key act, so that ``KAFKA_HOME`` or a test suite's own ``KAFKA_BROKERS`` do no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kbroker.config.registry import BROKER_KEYS, base_name

PREFIX = "KAFKA_"
# Of the JVM, its logging and the images' own scripts: known not to be keys.
IGNORED = frozenset(
    {
        "KAFKA_CLUSTER_ID",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_HEAP_OPTS",
        "KAFKA_HOME",
        "KAFKA_JMX_HOSTNAME",
        "KAFKA_JMX_OPTS",
        "KAFKA_JMX_PORT",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_OPTS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_VERSION",
    }
)


class Environment(NamedTuple):
    """What the environment says: values and the variable of each; variables that look like a misspelt key."""

    values: dict[str, str]
    places: dict[str, str]
    unknown: dict[str, str]
    """Variable -> the key it would have been."""


def key_of(variable: str) -> str:
    """The key that a ``KAFKA_*`` variable names."""
    name = variable.removeprefix(PREFIX).lower()
    return name.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def read_environment(environment: Mapping[str, str]) -> Environment:
    """Pick out of an environment what configures a broker."""
    found = Environment({}, {}, {})
    for variable in sorted(environment):
        if not variable.startswith(PREFIX) or variable in IGNORED:
            continue
        name = key_of(variable)
        if base_name(name) in BROKER_KEYS:
            found.values[name] = environment[variable]
            found.places[name] = f"the environment variable {variable}"
        else:
            found.unknown[variable] = name
    return found
