"""One registry of every configuration key, and typed snapshots of what a broker, a topic was given.

The registry drives parsing, files, ``KAFKA_*`` variables, validation, DescribeConfigs, the command line and the docs.
"""

from __future__ import annotations

from kbroker.config.broker import BrokerConfig, Layer, Source
from kbroker.config.listeners import Listener
from kbroker.config.registry import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS, ConfigType, Effect, Key
from kbroker.config.topic import TopicConfig, validate_topic_configs
from kbroker.config.values import ConfigError, Value

__all__ = [
    "BROKER_KEYS",
    "CLIENT_METRICS_KEYS",
    "GROUP_KEYS",
    "TOPIC_KEYS",
    "BrokerConfig",
    "ConfigError",
    "ConfigType",
    "Effect",
    "Key",
    "Layer",
    "Listener",
    "Source",
    "TopicConfig",
    "Value",
    "validate_topic_configs",
]
