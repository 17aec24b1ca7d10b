"""Limits of connections follow a change of the configuration while the broker runs."""

from __future__ import annotations

from queue import Queue
from threading import Thread

import pytest

from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.testing import Broker
from tests.wire import ConnectionClosedError, WireClient

BROKER = 4


def alter(client: WireClient, name: str, key: str, value: str | None) -> int:
    change = IncrementalAlterConfigsRequest.AlterableConfig(
        name=key, value=value, config_operation=0 if value is not None else 1
    )
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=BROKER, resource_name=name, configs=[change]
    )
    code: int = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code
    return code


def is_served(broker: Broker) -> bool:
    client = WireClient(broker.bootstrap_servers)
    try:
        client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    except (ConnectionClosedError, ConnectionError):
        return False
    finally:
        client.close()
    return True


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max.connections.per.ip", "1"),
        ("max.connections.per.ip.overrides", "127.0.0.1:1,::1:1"),
    ],
)
def test_a_lower_limit_holds_for_the_next_connection_and_leaves_those_that_are(key: str, value: str) -> None:
    with Broker() as broker:
        first = WireClient(broker.bootstrap_servers)
        assert is_served(broker)
        for name in ("1", ""):
            assert alter(first, name, key, value) == 0
            assert not is_served(broker)
            assert alter(first, name, key, None) == 0
            assert is_served(broker)
        first.close()


def test_a_lower_limit_of_the_broker_closes_who_is_too_many() -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as idle, WireClient(broker.bootstrap_servers) as last:
        idle.call(ApiVersionsRequest(), 0)
        assert alter(last, "", "max.connections", "1") == 0
        with pytest.raises(ConnectionClosedError):
            idle.receive_frame()
        assert alter(last, "", "max.connections", None) == 0
        assert is_served(broker)


def test_a_lower_rate_of_new_connections_makes_the_next_ones_wait() -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        assert alter(client, "", "max.connection.creation.rate", "1") == 0
        broker.clock.freeze()
        late: Queue[bool] = Queue()
        callers = [Thread(target=lambda: late.put(is_served(broker))) for _ in range(11)]
        for caller in callers:
            caller.start()
        assert [late.get(timeout=30) for _ in range(9)] == [True] * 9
        assert any(caller.is_alive() for caller in callers)
        broker.clock.advance(timers=3)
        assert [late.get(timeout=30) for _ in range(2)] == [True] * 2
        for caller in callers:
            caller.join()


def test_a_host_that_has_no_address_changes_no_limit() -> None:
    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        overrides = "max.connections.per.ip.overrides"
        assert alter(client, "", overrides, "no-such-host.invalid:1") == 0
        assert is_served(broker)
