"""FindCoordinator: one key and many, types of keys that exist and do not."""

from __future__ import annotations

from kbroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.reference.conversation import Conversation, question
from tests.reference.questions.group_scenery import new_group

SERVED = range(7)


@question(range(4))
def one_key(c: Conversation, version: int) -> None:
    new_group(c)
    for key in ("a", "", "ü\U0001f600", "polygenelubricants"):
        c.ask(FindCoordinatorRequest(key=key), version, label=key)


@question(range(1, 4))
def a_type_of_coordinator_that_one_key_cannot_have(c: Conversation, version: int) -> None:
    for kind in (2, 3, -1, 127):
        c.ask(FindCoordinatorRequest(key="a", key_type=kind), version, label=str(kind))


@question(range(4, 7))
def many_keys(c: Conversation, version: int) -> None:
    new_group(c)
    c.ask(FindCoordinatorRequest(coordinator_keys=["a", "", "b", "a"]), version)
    c.ask(FindCoordinatorRequest(coordinator_keys=[]), version)


@question(range(4, 7))
def a_type_of_coordinator_that_many_keys_cannot_have(c: Conversation, version: int) -> None:
    for kind in (3, -1, 127):
        c.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=kind), version, label=str(kind))
    if version < 6:
        c.ask(FindCoordinatorRequest(coordinator_keys=["a", "b"], key_type=2), version, label="share")
