"""Who is let in, who waits, who has to go."""

from __future__ import annotations

import pytest

from kbroker.server.connection import Connection
from kbroker.server.limits import Admittance, Limits
from tests.unit.server.doubles import ManualClock, MemoryTransport, framed, shared


class Door:
    """An admittance, and the connections that came to it."""

    def __init__(self, limits: Limits) -> None:
        self.clock = ManualClock()
        self.admittance = Admittance(limits, self.clock)
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


def test_who_comes_too_fast_waits_until_the_rate_has_fallen() -> None:
    door = Door(Limits(connection_rate_max=1))
    clients = [door.knock() for _ in range(12)]
    assert [each.is_served() for each in clients] == [True] * 10 + [False] * 2
    door.clock.move(999)
    assert not clients[10].transport.written
    door.clock.move(1)
    assert [len(each.transport.written) for each in clients[10:]] == [5, 0]
    door.clock.move(1000)
    assert len(clients[11].transport.written) == 5


def test_each_listener_has_a_rate_of_its_own_and_that_of_the_brokers_only_this() -> None:
    limits = Limits(
        connection_rate_max=1, connection_rate_per_listener_max={"A": 100, "INTERNAL": 2}, protected_listener="INTERNAL"
    )
    door = Door(limits)
    assert [door.knock("A").is_served() for _ in range(11)] == [True] * 10 + [False]
    assert not door.knock("B").is_served()
    assert [door.knock("INTERNAL").is_served() for _ in range(21)] == [True] * 20 + [False]


def test_who_hangs_up_while_the_rate_is_too_high_is_not_waited_for() -> None:
    door = Door(Limits(connection_rate_max=1))
    first, second = [door.knock() for _ in range(12)][10:]
    door.clock.move(500)
    first.hang_up()
    door.clock.move(999)
    assert not second.is_served()
    door.clock.move(1)
    assert second.is_served()


def test_after_the_rate_there_must_still_be_room() -> None:
    door = Door(Limits(connection_rate_max=1, connections_max=10))
    *admitted, last = [door.knock() for _ in range(11)]
    door.clock.move(1000)
    assert not last.is_served()
    admitted[0].hang_up()
    assert last.is_served()


def test_a_rate_of_nothing_lets_one_in_each_second() -> None:
    door = Door(Limits(connection_rate_max=0))
    first, second = door.knock(), door.knock()
    assert not first.is_served()
    door.clock.move(1000)
    assert (first.is_served(), second.is_served()) == (True, False)
    door.clock.move(1000)
    assert second.is_served()
