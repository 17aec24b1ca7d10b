"""Which address a client is told."""

from __future__ import annotations

import pytest

from kbroker.handlers.context import ConnectionInfo


@pytest.mark.parametrize(
    ("advertised", "told"),
    [("", "10.1.1.1"), ("0.0.0.0", "10.1.1.1"), ("::", "10.1.1.1"), ("localhost", "localhost"), ("b1.lan", "b1.lan")],  # noqa: S104
)
def test_a_client_is_told_the_address_it_reached_where_none_is_advertised(advertised: str, told: str) -> None:
    assert ConnectionInfo("PLAINTEXT", "10.1.1.9", server_host="10.1.1.1").told_host(advertised) == told


def test_without_a_known_address_the_advertised_one_is_told() -> None:
    assert ConnectionInfo("PLAINTEXT", "").told_host("0.0.0.0") == "0.0.0.0"  # noqa: S104
