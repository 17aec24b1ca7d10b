"""Deadlines of a shard, and replies that come later."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbroker.protocol.coordinator_record import Deadlines, Deferred, Now


def due(deadlines: Deadlines, now_ms: int) -> list[object]:
    """What the actions say that are due."""
    said = []
    while (action := deadlines.pop_due(now_ms)) is not None:
        said.append(action(Now(0, now_ms)))
    return said


def test_deadlines_come_in_their_order_and_once() -> None:
    deadlines = Deadlines()
    for at_ms in (30, 10, 20):
        deadlines.set(at_ms, at_ms, lambda _, at_ms=at_ms: at_ms)  # type: ignore[misc]
    assert deadlines.next_ms() == 10
    assert due(deadlines, 9) == []
    assert due(deadlines, 20) == [10, 20]
    assert due(deadlines, 100) == [30]
    assert deadlines.next_ms() is None


def test_a_deadline_that_is_put_off_or_brought_forward_counts_where_it_is_now() -> None:
    deadlines = Deadlines()
    deadlines.set("a", 10, lambda _: "first")
    deadlines.set("a", 50, lambda _: "later")
    assert due(deadlines, 49) == []
    deadlines.set("a", 20, lambda _: "sooner")
    assert deadlines.at("a") == 20
    assert due(deadlines, 20) == ["sooner"]
    assert due(deadlines, 100) == []


def test_a_cancelled_deadline_never_comes() -> None:
    deadlines = Deadlines()
    deadlines.set("a", 10, lambda _: "a")
    deadlines.cancel("a")
    deadlines.cancel("nobody")
    assert due(deadlines, 100) == []
    assert len(deadlines) == 0


Step = tuple[str, int, int]


@given(
    st.lists(st.tuples(st.sampled_from(["set", "cancel", "pass"]), st.integers(0, 5), st.integers(1, 50)), max_size=400)
)
def test_deadlines_behave_like_a_sorted_list(steps: list[Step]) -> None:
    deadlines = Deadlines()
    model: dict[int, int] = {}
    now_ms = 0
    for kind, key, ms in steps:
        if kind == "set":
            deadlines.set(key, now_ms + ms, lambda _, key=key: key)  # type: ignore[misc]
            model[key] = now_ms + ms
        elif kind == "cancel":
            deadlines.cancel(key)
            model.pop(key, None)
        else:
            now_ms += ms
            over = {key for key, at_ms in model.items() if at_ms <= now_ms}
            assert set(due(deadlines, now_ms)) == over
            model = {key: at_ms for key, at_ms in model.items() if key not in over}
        assert len(deadlines) == len(model)
        if model:
            assert deadlines.next_ms() is not None
            assert (deadlines.next_ms() or 0) <= min(model.values())


def test_the_first_reply_counts() -> None:
    heard: list[int] = []
    deferred: Deferred[int] = Deferred()
    deferred.listener = heard.append
    deferred.complete(1)
    deferred.complete(2)
    assert (heard, deferred.reply) == ([1], 1)
