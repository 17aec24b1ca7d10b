"""Answers that follow from the metadata image are made once for each question."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from kbroker.handlers.context import Node, RequestContext
from kbroker.kraft.image import MetadataImage
from kbroker.protocol import codec
from kbroker.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kbroker.server import kept_answers
from kbroker.server.dispatch import Dispatcher
from kbroker.server.kept_answers import KeptAnswers
from tests.unit.server.doubles import connected, feed, framed, shared, unframed
from tests.unit.server.test_dispatch import HandlerRow, request

VERSION = 8
ASKED = codec.encode(MetadataRequest(topics=[]), VERSION)
ASKED_ALL = codec.encode(MetadataRequest(topics=None), VERSION)


class World:
    """A dispatcher whose one handler answers how often it was asked, and says whether its answers may be kept."""

    def __init__(self) -> None:
        self.quorum = SimpleNamespace(image=object(), leader_id=1)
        self.made = 0
        self.follows_from_image = True
        self.loop = asyncio.new_event_loop()
        row = HandlerRow(0, VERSION)
        row.module = ModuleType("handler")
        row.module.ANSWERS_FOLLOW_FROM_IMAGE = True
        row.module.handle = self.handle
        node = cast("Node", SimpleNamespace(quorum=self.quorum))
        self.connection, self.transport = connected(shared(Dispatcher(node, self.loop, {3: row})))

    def handle(self, context: RequestContext, _request: Any) -> MetadataResponse:
        self.made += 1
        context.follows_from_image = self.follows_from_image
        return MetadataResponse(controller_id=self.made)

    def ask(self, body: bytes = ASKED) -> int:
        """The controller id of the answer: which answer it is."""
        feed(self.connection, self.transport, framed(request(3, VERSION, body)))
        answer = unframed(self.transport.written)[-1]
        assert int.from_bytes(answer[:4], "big") == 77
        return codec.decode(MetadataResponse, VERSION, answer, 4).controller_id


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.loop.close()


def test_the_same_question_gets_the_same_answer_while_the_image_stands(world: World) -> None:
    assert [world.ask(), world.ask(), world.ask(ASKED_ALL), world.ask()] == [1, 1, 2, 1]


def test_the_answer_that_is_given_again_carries_the_new_correlation_id(world: World) -> None:
    world.ask()
    second = bytearray(request(3, VERSION, ASKED))
    second[4:8] = (4711).to_bytes(4, "big")
    feed(world.connection, world.transport, framed(bytes(second)))
    first, again = unframed(world.transport.written)
    assert (int.from_bytes(again[:4], "big"), again[4:]) == (4711, first[4:])


def test_a_new_image_or_controller_asks_the_handler_again(world: World) -> None:
    assert world.ask() == 1
    world.quorum.image = object()
    assert world.ask() == 2
    world.quorum.leader_id = 2
    assert [world.ask(), world.ask()] == [3, 3]


def test_an_answer_that_may_change_what_is_there_is_not_kept(world: World) -> None:
    world.follows_from_image = False
    assert [world.ask(), world.ask()] == [1, 2]


def test_who_asks_by_another_address_of_ours_is_told_that_address(world: World) -> None:
    world.ask()
    world.connection.info.server_host = "192.0.2.1"
    assert world.ask() == 2


def test_what_is_kept_is_bounded() -> None:
    image = cast("MetadataImage", object())
    kept = KeptAnswers()
    answer = bytes(kept_answers.KEPT_MAX // 3)
    for name in "abcdef":
        kept.find((name,), image, 1)
        kept.keep((name,), answer, image, 10)
    assert sum(kept.find((name,), image, 1) is not None for name in "abcdef") <= 3
    kept.keep(("long",), b"", image, kept_answers.REQUEST_MAX + 1)
    assert kept.find(("long",), image, 1) is None
