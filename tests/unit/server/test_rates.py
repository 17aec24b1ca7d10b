"""How fast connections come, and how long the next one waits."""

from __future__ import annotations

from kbroker.server.rates import ConnectionRate


def rate_after(*arrivals_ms: float) -> ConnectionRate:
    rate = ConnectionRate(windows=11, window_ms=1000)
    for at_ms in arrivals_ms:
        rate.arrived(at_ms)
    return rate


def test_a_burst_as_large_as_the_rate_of_all_windows_but_one_is_let_through() -> None:
    assert rate_after(*[0] * 50).wait_ms(5, 0) == 0


def test_who_comes_then_waits_until_the_time_has_earned_the_connection() -> None:
    assert rate_after(*[0] * 51).wait_ms(5, 0) == 200
    assert rate_after(*[0] * 52).wait_ms(5, 0) == 400


def test_nobody_waits_longer_than_a_window() -> None:
    assert rate_after(*[0] * 500).wait_ms(5, 0) == 1000


def test_a_window_counts_as_long_as_its_last_arrival_is_recent() -> None:
    rate = rate_after(*[0] * 55, 999)
    assert rate.wait_ms(4, 11_998) > 0
    assert rate.wait_ms(4, 11_999) == 0


def test_time_that_has_passed_beyond_the_windows_counts_too() -> None:
    rate = rate_after(0, *[10_500] * 55)
    assert rate.wait_ms(5, 10_500) > 0
    assert rate.wait_ms(6, 10_500) == 0
