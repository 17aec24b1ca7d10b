"""The one place that looks into a member's metadata: which topics a consumer says it reads.

Everything else that members tell each other is carried as it is. Only the first fields are read, those of version 0,
with which every version begins, whatever number the metadata gives.
"""

from __future__ import annotations

from collections.abc import Iterable

from kbroker.protocol.codec import decode
from kbroker.protocol.errors import ProtocolError
from kbroker.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all members; None when a member's metadata is not what consumers send."""
    topics: list[str] = []
    for each in metadata:
        if len(each) < 2:
            return None
        try:
            topics += decode(ConsumerProtocolSubscription, 0, each, 2).topics
        except ProtocolError:
            return None
    return frozenset(topics)
