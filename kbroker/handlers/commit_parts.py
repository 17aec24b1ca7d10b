"""What OffsetCommit and TxnOffsetCommit share: topics that exist go to the coordinator, the others are refused first.

Both messages have the same shape under names of their own; a ``Form`` holds one's classes. In an answer a topic stands
once, however often it was named, and what was refused stands first, as in Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from kbroker.handlers.context import RequestContext
from kbroker.protocol.errors import ErrorCode
from kbroker.replies import Reply, then, unless_refused


class _Topic(Protocol):
    name: str
    topic_id: bytes
    partitions: list[Any]


class _Response(Protocol):
    topics: list[Any]


T = TypeVar("T", bound=_Topic)
R = TypeVar("R", bound=_Response)


@dataclass(frozen=True)
class Form(Generic[T, R]):
    """The classes of one API, and the version from which it names topics by their ids."""

    topic: Callable[..., T]
    response: Callable[..., R]
    topic_answer: Callable[..., _Topic]
    slot: Callable[..., Any]
    topic_ids_since: int

    def refused(self, topics: Iterable[T], code: ErrorCode) -> R:
        """The code at every partition."""
        return self.response(topics=[self.refused_topic(topic, code) for topic in topics])

    def refused_topic(self, topic: T, code: ErrorCode) -> _Topic:
        slots = [self.slot(partition_index=each.partition_index, error_code=code) for each in topic.partitions]
        return self.topic_answer(name=topic.name, topic_id=topic.topic_id, partitions=slots)


class CommitParts(Generic[T, R]):
    """One request: ``existing`` is for the coordinator, ``response`` says so far what does not exist."""

    def __init__(self, form: Form[T, R], context: RequestContext, topics: Iterable[T]) -> None:
        self._form = form
        self.existing: list[T] = []
        self.response = form.response(topics=[])
        for topic in topics:
            self._sort_out(context, topic)

    def answered(self, ask: Callable[[], Reply[R]]) -> Reply[R]:
        """The coordinator's answer behind what was refused; its own refusal stands at each partition."""
        return then(unless_refused(ask, lambda error: self._form.refused(self.existing, error.code)), self._merged)

    def refuse(self, code: ErrorCode) -> R:
        """The answer when nothing of what exists may be committed."""
        return self._merged(self._form.refused(self.existing, code))

    def _sort_out(self, context: RequestContext, topic: T) -> None:
        topics, form = context.node.quorum.image.topics, self._form
        if context.api_version >= form.topic_ids_since:
            known, missing = topics.by_id.get(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            known, missing = topics.by_name.get(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if known is None:
            self._add(form.refused_topic(topic, missing))
            return
        topic.name, topic.topic_id = known.name, known.id
        there = [each for each in topic.partitions if each.partition_index in known.partitions]
        if len(there) < len(topic.partitions):
            absent = [each for each in topic.partitions if each.partition_index not in known.partitions]
            rest = form.topic(name=topic.name, topic_id=topic.topic_id, partitions=absent)
            self._add(form.refused_topic(rest, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if there:
            topic.partitions = there
            self.existing.append(topic)

    def _add(self, answer: _Topic) -> None:
        for topic in self.response.topics:
            if (topic.name, topic.topic_id) == (answer.name, answer.topic_id):
                topic.partitions += answer.partitions
                return
        self.response.topics.append(answer)

    def _merged(self, reply: R) -> R:
        if not self.response.topics:
            return reply
        for topic in reply.topics:
            self._add(topic)
        return self.response
