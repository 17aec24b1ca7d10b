"""Answers that are given again: the bytes of one hold for as long as nothing that it was made of has changed.

Clients ask for the same metadata over and over, and an answer about thousands of partitions takes milliseconds to make.
A handler says of an answer that it follows from the request, from who asks and from the metadata image alone
(``RequestContext.follows_from_image``); whether an API may have such answers is said by its module
(``ANSWERS_FOLLOW_FROM_IMAGE``). What is kept is dropped as a whole when the image or the active controller changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from kbroker.kraft.image import MetadataImage

REQUEST_MAX = 4096
"""Requests up to this size are remembered."""
KEPT_MAX = 4 * 1024 * 1024
"""Bytes of requests and answers kept."""

Key: TypeAlias = tuple[object, ...]


class KeptAnswers:
    """Framed answers by what was asked, and by whom. Owner: the dispatcher."""

    __slots__ = ("_answers", "_image", "_leader_id", "_size")

    def __init__(self) -> None:
        self._answers: dict[Key, bytes] = {}
        self._image: MetadataImage | None = None
        self._leader_id = -1
        self._size = 0

    def find(self, key: Key, image: MetadataImage, leader_id: int) -> bytes | None:
        """The answer to the same question under the same image, with the correlation id of whoever asked first."""
        if image is not self._image or leader_id != self._leader_id:
            self._answers.clear()
            self._image = image
            self._leader_id = leader_id
            self._size = 0
        return self._answers.get(key)

    def keep(self, key: Key, answer: bytes, image: MetadataImage, request_size: int) -> None:
        """Keep an answer that was made under ``image``, unless that has passed meanwhile."""
        size = len(answer) + request_size
        if image is not self._image or request_size > REQUEST_MAX or size > KEPT_MAX:
            return
        if self._size + size > KEPT_MAX:
            self._answers.clear()
            self._size = 0
        self._answers[key] = answer
        self._size += size
