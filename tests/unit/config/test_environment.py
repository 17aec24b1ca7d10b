"""``KAFKA_*`` variables."""

from __future__ import annotations

from kbroker.config.environment import key_of, read_environment


def test_underscores_stand_for_dots_underscores_and_dashes() -> None:
    assert key_of("KAFKA_LOG_RETENTION_MS") == "log.retention.ms"
    assert key_of("KAFKA_A__B___C_D") == "a_b-c.d"


def test_only_names_of_keys_act() -> None:
    found = read_environment(
        {
            "KAFKA_NODE_ID": "2",
            "KAFKA_KBROKER_FSYNC": "false",
            "KAFKA_LISTENER_NAME_CLIENT_SSL_KEYSTORE_TYPE": "PEM",
            "KAFKA_HEAP_OPTS": "-Xmx1G",
            "KAFKA_BROKERS": "localhost:9092",
            "KAFKA_NUM_PARTITION": "3",
            "HOME": "/root",
        }
    )
    assert found.values == {
        "node.id": "2",
        "kbroker.fsync": "false",
        "listener.name.client.ssl.keystore.type": "PEM",
    }
    assert found.places["node.id"] == "the environment variable KAFKA_NODE_ID"
    assert found.unknown == {"KAFKA_BROKERS": "brokers", "KAFKA_NUM_PARTITION": "num.partition"}
