"""A copier for ``copy_loop``, in a process of its own: consume, produce, offsets in the same transaction.

It says every step on its standard output, so that it can be killed right behind each; "copied N" is said when so many
more records are committed, "idle" when it has come to the end of its source. A failed transaction ends it: whoever
started it starts another, which goes on from the offsets that were committed.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Message, Producer, TopicPartition

RECORDS_MAX = 40
DEADLINE_S = 60.0
QUICK = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "log_level": 0,
    # librdkafka 2.16 waits for ever for a group coordinator that it has dropped from its list when all were down.
    "metadata.recovery.strategy": "none",
}


def say(step: str) -> None:
    print(step, flush=True)


class Copier:
    """Copies each partition of ``source`` into the one of ``target`` with its number, in order."""

    def __init__(self, bootstrap: str, source: str, target: str, partitions: int) -> None:
        self._target = target
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": target,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                **QUICK,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": target,
                "transaction.timeout.ms": 20_000,
                "linger.ms": 0,
                **QUICK,
            }
        )
        self._assigned = [TopicPartition(source, index) for index in range(partitions)]

    def run(self) -> None:
        """Until it is killed. Raises ``KafkaException``."""
        self._producer.init_transactions(DEADLINE_S)
        say("initialised")
        positions = self._consumer.committed(self._assigned, DEADLINE_S)
        self._consumer.assign([TopicPartition(each.topic, each.partition, max(each.offset, 0)) for each in positions])
        while True:
            messages = [each for each in self._consumer.consume(RECORDS_MAX, 0.1) if each.error() is None]
            if messages:
                self._copy(messages)
            elif self._is_at_end():
                say("idle")

    def _copy(self, messages: list[Message]) -> None:
        say("consumed")
        self._producer.begin_transaction()
        for message in messages:
            self._producer.produce(self._target, message.value(), partition=message.partition() or 0)
        say("produced")
        self._producer.flush(DEADLINE_S)
        say("flushed")
        positions = [each for each in self._consumer.position(self._assigned) if each.offset >= 0]
        self._producer.send_offsets_to_transaction(positions, self._consumer.consumer_group_metadata(), DEADLINE_S)
        say("offsets sent")
        self._producer.commit_transaction(DEADLINE_S)
        say(f"copied {len(messages)}")

    def _is_at_end(self) -> bool:
        positions = {each.partition: each.offset for each in self._consumer.committed(self._assigned, DEADLINE_S)}
        return all(
            max(positions[each.partition], 0) == self._consumer.get_watermark_offsets(each, DEADLINE_S)[1]
            for each in self._assigned
        )


def main() -> None:
    bootstrap, source, target, partitions = sys.argv[1:]
    Copier(bootstrap, source, target, int(partitions)).run()


if __name__ == "__main__":
    main()
