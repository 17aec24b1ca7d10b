"""InitProducerId without a transactional id."""

from __future__ import annotations

from kbroker.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.reference.conversation import Conversation, question

SERVED = range(6)


@question(SERVED)
def each_call_gets_an_id_of_its_own(c: Conversation, version: int) -> None:
    first = c.ask(InitProducerIdRequest(transaction_timeout_ms=1000), version)
    second = c.ask(InitProducerIdRequest(transaction_timeout_ms=-5), version)
    c.note("the second is the next", second.producer_id - first.producer_id)


@question(range(3, 6))
def ids_and_epochs_that_are_given(c: Conversation, version: int) -> None:
    for producer_id, epoch in ((100, 5), (100, -1), (-1, 5), (-5, -5), (2**63 - 1, 32767)):
        request = InitProducerIdRequest(transaction_timeout_ms=1000, producer_id=producer_id, producer_epoch=epoch)
        c.ask(request, version, label=f"{producer_id} {epoch}")


@question(SERVED)
def an_empty_transactional_id(c: Conversation, version: int) -> None:
    c.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), version)
