"""Who is let in, who waits, who has to go."""

from __future__ import annotations

import pytest

from kbroker.server.connection import Connection
from kbroker.server.limits import Admittance, Limits
from tests.unit.server.doubles import MemoryTransport, framed, shared


class Door:
    """An admittance, and the connections that came to it."""

    def __init__(self, limits: Limits) -> None:
        self.admittance = Admittance(limits)
        self._shared = shared(admit=self.admittance.arrive, forget=self.admittance.leave)

    def knock(self, listener: str = "PLAINTEXT") -> Client:
        return Client(Connection(self._shared, listener))


class Client:
    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.transport = MemoryTransport()
        connection.connection_made(self.transport)

    def is_served(self) -> bool:
        """Whether a request, or one that was sent before, is answered."""
        before = len(self.transport.written)
        request = framed(b"?")
        if self.transport.reading and not self.transport.closed:
            self.connection.get_buffer(-1)[: len(request)] = request
            self.connection.buffer_updated(len(request))
        return len(self.transport.written) > before

    def hang_up(self) -> None:
        self.connection.connection_lost(None)


def test_who_finds_the_broker_full_is_served_when_another_leaves() -> None:
    door = Door(Limits(connections_max=2))
    first, second, third, fourth = (door.knock() for _ in range(4))
    assert [each.is_served() for each in (first, second, third, fourth)] == [True, True, False, False]
    first.hang_up()
    assert (len(third.transport.written), len(fourth.transport.written)) == (5, 0)
    third.hang_up()
    assert len(fourth.transport.written) == 5


def test_who_gives_up_waiting_is_not_waited_for() -> None:
    door = Door(Limits(connections_max=1))
    first, second, third = (door.knock() for _ in range(3))
    second.hang_up()
    first.hang_up()
    assert third.is_served()


def test_each_listener_has_a_limit_of_its_own() -> None:
    door = Door(Limits(connections_max=3, connections_per_listener_max={"A": 1}))
    assert [door.knock(each).is_served() for each in "AABBB"] == [True, False, True, True, False]


def test_the_limit_of_an_address_holds_for_who_has_waited_too() -> None:
    door = Door(Limits(connections_max=1, connections_per_ip_max=1))
    first, second = door.knock(), door.knock()
    door.admittance.change(Limits(connections_max=2, connections_per_ip_max=1))
    assert second.transport.aborted
    second.hang_up()
    first.hang_up()
    assert door.knock().is_served()


@pytest.mark.parametrize("number", [0, -1])
def test_an_address_may_be_shut_out(number: int) -> None:
    door = Door(Limits(connections_per_ip_overrides={"10.0.0.1": number}))
    assert door.knock().transport.aborted


def test_a_lower_limit_closes_who_was_unused_for_longest() -> None:
    door = Door(Limits())
    used, old, young = door.knock(), door.knock(), door.knock()
    assert used.is_served()
    door.admittance.change(Limits(connections_max=2))
    assert [each.transport.aborted for each in (used, old, young)] == [False, True, False]


def test_room_for_the_brokers_among_each_other_is_made() -> None:
    door = Door(Limits(connections_max=2, protected_listener="INTERNAL"))
    outer = [door.knock("EXTERNAL") for _ in range(2)]
    assert door.knock("INTERNAL").is_served()
    assert [each.transport.aborted for each in outer] == [True, False]
