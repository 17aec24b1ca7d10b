"""Where a message speaks of topics and partitions, and where it says errors: found by its declaration.

Kafka's messages name these things in a handful of ways (``name``, ``topic``, ``topic_id``; ``partition_index``,
``index``, ``partition``), so one walk finds them in the messages of every API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kbroker.kraft.image import RESOURCE_TOPIC
from kbroker.protocol.declarations import UNSET, Struct
from kbroker.types import ZERO_UUID

TopicName = Callable[[bytes], "str | None"]

_TOPIC_LISTS = ("topic", "responses", "results", "resources")
_TOPIC_NAMES = ("name", "topic", "topic_name")
_PARTITION_NUMBERS = ("partition_index", "index", "partition", "partition_id")


def is_struct(value: Any) -> bool:
    return isinstance(value, Struct)


def fields_of(struct: Any) -> Iterator[tuple[str, Any]]:
    """The fields that were set: structs that nobody asked for are not made."""
    for name, declared in struct.fields.items():
        value = getattr(struct, declared.slot)
        if value is not UNSET:
            yield name, value


def topic_of(struct: Any, name_of: TopicName) -> str | None:
    """The topic that a struct is about, if it is about one."""
    fields = struct.fields
    if "resource_type" in fields:
        return struct.resource_name if struct.resource_type == RESOURCE_TOPIC else None
    for name in _TOPIC_NAMES:
        if name in fields and isinstance(value := getattr(struct, name), str) and value:
            return value
    topic_id = getattr(struct, "topic_id", ZERO_UUID) if "topic_id" in fields else ZERO_UUID
    return name_of(topic_id) if topic_id != ZERO_UUID else None


def topic_lists(message: Any) -> Iterator[tuple[Any, str, list[Any]]]:
    """The lists of topics in a message: who has it, under which field, and the list. Also one level down."""
    for name, value in fields_of(message):
        if not isinstance(value, list) or not value:
            continue
        if any(word in name for word in _TOPIC_LISTS) and (isinstance(value[0], str) or _names_topic(value[0])):
            yield message, name, value
        elif is_struct(value[0]):
            for each in value:
                yield from topic_lists(each)


def _names_topic(struct: Any) -> bool:
    return hasattr(struct, "fields") and any(
        name in struct.fields for name in (*_TOPIC_NAMES, "topic_id", "resource_type")
    )


def _lists_of(kind: type[Struct]) -> Iterator[tuple[str, type[Struct] | None]]:
    """The lists that a kind of message or struct can have: their fields, and what is in them unless it is plain."""
    for name, declared in kind.fields.items():
        if declared.is_array:
            yield name, kind.struct(declared.element) if declared.element[0].isupper() else None


def can_name_topics(kind: type[Struct]) -> bool:
    """Whether there are messages of this kind that ``mentions`` finds a topic in."""
    for name, inner in _lists_of(kind):
        if any(word in name for word in _TOPIC_LISTS) and (inner is None or _names_topic(inner)):
            return True
        if inner is not None and can_name_topics(inner):
            return True
    return False


def can_name_partitions(kind: type[Struct]) -> bool:
    """Whether there are messages of this kind that name partitions of a topic."""
    return any(
        (_names_topic(kind) and "partition" in name) or (inner is not None and can_name_partitions(inner))
        for name, inner in _lists_of(kind)
    )


def partition_lists(topic: Any) -> Iterator[tuple[str, list[Any]]]:
    """The lists of partitions of a topic's struct."""
    for name, value in fields_of(topic):
        if isinstance(value, list) and value and "partition" in name:
            yield name, value


def partition_of(element: Any) -> int | None:
    if isinstance(element, int):
        return element
    for name in _PARTITION_NUMBERS:
        if is_struct(element) and name in element.fields:
            return int(getattr(element, name))
    return None


def mentions(message: Any, topic: str, partition: int | None, name_of: TopicName) -> bool:
    """Whether a message speaks of a topic, or of one partition of it."""
    for _, _, topics in topic_lists(message):
        for each in topics:
            if (each if isinstance(each, str) else topic_of(each, name_of)) != topic:
                continue
            if partition is None or isinstance(each, str) or not can_name_partitions(type(each)):
                return True
            for _, partitions in partition_lists(each):
                if any(partition_of(element) == partition for element in partitions):
                    return True
    return False


def split(message: Any, topic: str, partition: int | None, name_of: TopicName) -> tuple[Any, Any]:
    """Two messages: what is about the topic (or the partition), and the rest."""
    about, rest = copy(message), copy(message)
    for chosen, keeps in ((about, True), (rest, False)):
        for owner, field, topics in list(topic_lists(chosen)):
            kept = []
            for each in topics:
                if (each if isinstance(each, str) else topic_of(each, name_of)) != topic:
                    if not keeps:
                        kept.append(each)
                elif partition is None or isinstance(each, str):
                    if keeps:
                        kept.append(each)
                elif _keep_partitions(each, partition, keeps=keeps):
                    kept.append(each)
            setattr(owner, field, kept)
    return about, rest


def _keep_partitions(topic: Any, partition: int, *, keeps: bool) -> bool:
    """Leave a topic's struct only the partition (or all others); whether anything is left."""
    left = False
    for name, partitions in list(partition_lists(topic)):
        kept = [element for element in partitions if (partition_of(element) == partition) is keeps]
        setattr(topic, name, kept)
        left = left or bool(kept)
    return left


def copy(value: Any) -> Any:
    """A message of its own: structs and lists are copied, what lies in them is shared."""
    if isinstance(value, list):
        return [copy(each) for each in value]
    if not is_struct(value):
        return value
    return type(value)(**{name: copy(each) for name, each in fields_of(value)})


def is_empty(message: Any) -> bool:
    """Whether a message speaks of no topic any more."""
    return not any(topics for _, _, topics in topic_lists(message))


def merge(into: Any, other: Any, name_of: TopicName) -> None:
    """Add the topics and partitions of one answer to another of the same API."""
    for owner, field, topics in topic_lists(other):
        if owner is not other:
            continue
        mine = getattr(into, field)
        known = {topic_of(each, name_of): each for each in mine if is_struct(each)}
        for each in topics:
            same = known.get(topic_of(each, name_of))
            if same is None:
                mine.append(each)
                continue
            for name, partitions in partition_lists(each):
                setattr(same, name, [*getattr(same, name), *partitions])


def set_errors(response: Any, code: int, topic: str | None, partition: int | None, name_of: TopicName) -> int:
    """Write an error over every place of an answer that is about the topic (or all of it); how many places."""
    if topic is None:
        return _set_outermost(response, code)
    count = 0
    for _, _, topics in topic_lists(response):
        for each in topics:
            if not is_struct(each) or topic_of(each, name_of) != topic:
                continue
            if partition is None:
                count += _set_outermost(each, code)
                continue
            for _, partitions in partition_lists(each):
                count += sum(_set_outermost(one, code) for one in partitions if partition_of(one) == partition)
    return count


def _set_outermost(struct: Any, code: int) -> int:
    if not is_struct(struct):
        return 0
    if "error_code" in struct.fields:
        struct.error_code = code
        return 1
    return sum(
        _set_outermost(each, code) for _, value in fields_of(struct) if isinstance(value, list) for each in value
    )
