"""What a subscription to client metrics may say (KIP-714; Kafka's ``ClientMetricsConfigs``)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kbroker.config.java_maps import in_map_order
from kbroker.config.registry import CLIENT_METRICS_KEYS
from kbroker.config.values import ConfigError, parse

INTERVAL_MIN_MS = 100
INTERVAL_MAX_MS = 3_600_000
MATCHED = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""What of a client a pattern may look at."""


class UnknownSettingError(ConfigError):
    """What Kafka calls a wrong request, not a wrong configuration: an unknown key, an interval out of bounds."""


def validate_client_metrics(values: Mapping[str, str]) -> None:
    """Check a subscription's whole set of values. Raises ``ConfigError``."""
    for name in in_map_order(values):
        if name not in CLIENT_METRICS_KEYS:
            message = f"Unknown client metrics configuration: {name}"
            raise UnknownSettingError(name, values[name], message, message=message)
    parsed = {key.name: parse(key, values[key.name]) for key in CLIENT_METRICS_KEYS.all() if key.name in values}
    interval = parsed.get("interval.ms")
    if isinstance(interval, int) and not INTERVAL_MIN_MS <= interval <= INTERVAL_MAX_MS:
        message = f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
        raise UnknownSettingError("interval.ms", interval, message, message=message)
    patterns = parsed.get("match")
    for pattern in patterns if isinstance(patterns, list) else ():
        _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    what, *expressions = pattern.split("=")
    is_good = len(expressions) == 1 and bool(expressions[0]) and what.strip() in MATCHED
    if is_good:
        try:
            re.compile(expressions[0].strip())
        except (re.error, RecursionError, OverflowError):
            is_good = False
    if not is_good:
        message = f"Illegal client matching pattern: {pattern}"
        raise ConfigError("match", pattern, message, message=message)
