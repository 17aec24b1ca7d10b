"""Clients that are connected to the broker, of whichever library is installed.

Names and arguments are those of pytest-kafka-broker: each takes a mapping of the library's configuration. Dotted names
(``group.id``) are understood for kafka-python and aiokafka, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

Config = Mapping[str, Any]

SYNC = ("confluent_kafka", "kafka")
ASYNC = ("confluent_kafka", "aiokafka")
PACKAGES = {"confluent_kafka": "confluent-kafka", "kafka": "kafka-python", "aiokafka": "aiokafka"}
_CLASSES = {
    ("confluent_kafka", "admin"): ("confluent_kafka.admin", "AdminClient"),
    ("confluent_kafka", "producer"): ("confluent_kafka", "Producer"),
    ("confluent_kafka", "consumer"): ("confluent_kafka", "Consumer"),
    ("confluent_kafka", "aio_producer"): ("confluent_kafka.aio", "AIOProducer"),
    ("confluent_kafka", "aio_consumer"): ("confluent_kafka.aio", "AIOConsumer"),
    ("kafka", "admin"): ("kafka", "KafkaAdminClient"),
    ("kafka", "producer"): ("kafka", "KafkaProducer"),
    ("kafka", "consumer"): ("kafka", "KafkaConsumer"),
    ("aiokafka", "aio_producer"): ("aiokafka", "AIOKafkaProducer"),
    ("aiokafka", "aio_consumer"): ("aiokafka", "AIOKafkaConsumer"),
}


class Clients:
    """A broker's client helpers. Whoever inherits has an address."""

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        raise NotImplementedError

    @property
    def bootstrap_server(self) -> str:
        """The same, as pytest-kafka-broker and some clients name it."""
        return self.bootstrap_servers

    def get_bootstrap_server(self) -> str:
        """The same, as testcontainers names it."""
        return self.bootstrap_servers

    def config(self, config: Config | None = None) -> dict[str, Any]:
        """A configuration for confluent-kafka, with the address in it."""
        return {**(config or {}), "bootstrap.servers": self.bootstrap_servers, "security.protocol": "PLAINTEXT"}

    def admin(self, config: Config | None = None, *, library: str | None = None) -> Any:
        """An admin client. ``library``: ``"confluent_kafka"`` or ``"kafka"``, else the first that is installed."""
        return self._make("admin", config, library, SYNC)

    def producer(self, config: Config | None = None, *, library: str | None = None) -> Any:
        """A producer."""
        return self._make("producer", config, library, SYNC)

    def consumer(self, config: Config | None = None, *, library: str | None = None) -> Any:
        """A consumer."""
        return self._make("consumer", config, library, SYNC)

    def aio_producer(self, config: Config | None = None, *, library: str | None = None) -> Any:
        """A producer for coroutines. ``library``: ``"confluent_kafka"`` or ``"aiokafka"``."""
        return self._make("aio_producer", config, library, ASYNC)

    def aio_consumer(self, config: Config | None = None, *, library: str | None = None) -> Any:
        """A consumer for coroutines."""
        return self._make("aio_consumer", config, library, ASYNC)

    def _make(self, what: str, config: Config | None, library: str | None, libraries: tuple[str, ...]) -> Any:
        if library is not None and library not in libraries:
            raise ValueError(f"{what}() is made of {' or '.join(map(repr, libraries))}, not of {library!r}")
        wanted = libraries if library is None else (library,)
        found = next((each for each in wanted if find_spec(each) is not None), None)
        if found is None:
            raise ModuleNotFoundError(f"{what}() needs {' or '.join(PACKAGES[each] for each in wanted)}: install it")
        module, name = _CLASSES[found, what]
        make = getattr(import_module(module), name)
        values = self.config(config)
        if found == "confluent_kafka":
            return make(values)
        return make(**{key.replace(".", "_"): value for key, value in values.items()})


class ExternalBroker(Clients):
    """A broker that somebody else runs: an address and clients for it."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def bootstrap_servers(self) -> str:
        return self._address
