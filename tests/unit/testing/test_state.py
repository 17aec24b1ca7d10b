"""What a test sees of its broker: topics, records, offsets, producers, the journal; and waiting for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kafka import KafkaProducer

from kbroker.testing import Broker, WaitTimeoutError
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    running.create_topics({"orders": 2})
    return running


def test_what_a_client_produces_is_seen_decoded(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, compression_type="gzip")
    producer.send("orders", b"book", key=b"k", headers=[("h", b"1")], partition=1, timestamp_ms=1000).get(PATIENCE_S)
    producer.close()
    (record,) = broker.records("orders")
    assert (record.topic, record.partition, record.offset) == ("orders", 1, 0)
    assert (record.key, record.value, record.headers, record.timestamp_ms) == (b"k", b"book", (("h", b"1"),), 1000)
    assert record.text == "book"
    assert record.transaction is None
    assert broker.next_offset("orders", 1) == 1
    assert broker.next_offset("orders") == 0


def test_topics_are_seen_with_their_partitions_and_configs(broker: Broker) -> None:
    broker.create_topics({"short": 1}, {"retention.ms": 1000})
    assert list(broker.topics()) == ["orders", "short"]
    assert broker.topics()["orders"].partitions == 2
    assert broker.topics()["short"].configs == {"retention.ms": "1000"}


def test_an_idempotent_producer_is_seen_with_its_sequences(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=True)
    for value in (b"a", b"b"):
        producer.send("orders", value, partition=0).get(PATIENCE_S)
    producer.close()
    (seen,) = broker.producers()
    assert (seen.topic, seen.partition, seen.last_sequence) == ("orders", 0, 1)
    assert [record.sequence for record in broker.records("orders")] == [0, 1]


def test_records_put_in_directly_are_text_json_or_bytes(broker: Broker) -> None:
    assert broker.produce("orders", ["text", b"bytes", {"total": 3}, None]) == [0, 1, 2, 3]
    broker.produce("orders", [{"value": 1, "key": "k", "partition": 1, "headers": {"h": "v"}, "timestamp_ms": 5}])
    assert [record.value for record in broker.records("orders", 0)] == [b"text", b"bytes", b'{"total":3}', None]
    (record,) = broker.records("orders", 1)
    assert (record.key, record.json(), record.headers, record.timestamp_ms) == (b"k", 1, (("h", b"v"),), 5)


def test_records_can_be_put_in_again_as_they_were_read(broker: Broker) -> None:
    broker.produce("orders", [{"value": "v", "key": "k", "partition": 1}])
    broker.produce("orders", broker.records("orders"))
    assert [record.key for record in broker.records("orders", 1)] == [b"k", b"k"]


def test_a_file_of_json_lines_is_loaded_and_a_wrong_line_is_named(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_text(
        '{"topic": "orders", "value": {"id": 1}, "key": "a"}\n\n{"topic": "other", "value_base64": "AA=="}\n'
    )
    broker.load(path)
    assert broker.records("orders")[0].json() == {"id": 1}
    assert broker.records("other")[0].value == b"\0"
    path.write_text('{"topic": "orders", "value": 1}\n{"value": 2}\n')
    path.write_text('\ufeff{"topic": "orders", "value": 2}\r\n')  # as editors of Windows leave it
    broker.load(path)
    assert [record.json() for record in broker.records("orders")] == [{"id": 1}, 2]


WRONG_LINES = {
    r'a record is \{"topic": \.\.\., "value": \.\.\.\}, not \{"value": 2\}': b'{"value": 2}',
    r'a record is .*, not \["orders", 2\]': b'["orders", 2]',
    r"Expecting property name": b"{orders}",
    r"5 is no name for a topic": b'{"topic": 5}',
    r"partition is a whole number, not '0'": b'{"topic": "orders", "partition": "0"}',
    r"timestamp_ms is a whole number, not 'today'": b'{"topic": "orders", "timestamp_ms": "today"}',
    r"headers are a dict or a list of pairs, not \[\['a'\]\]": b'{"topic": "orders", "headers": [["a"]]}',
    r"value and value_base64 exclude each other": b'{"topic": "orders", "value": 1, "value_base64": "AA=="}',
    r"base64": b'{"topic": "orders", "value_base64": "~~~~"}',
    r"can't decode byte 0xff": b'{"topic": "orders", "value": "\xff"}',
}


@pytest.mark.parametrize("said", list(WRONG_LINES))
def test_a_wrong_line_of_a_file_is_named_and_nothing_of_the_file_is_written(
    broker: Broker, tmp_path: Path, said: str
) -> None:
    path = tmp_path / "orders.jsonl"
    path.write_bytes(b'{"topic": "orders", "value": 1}\n' + WRONG_LINES[said] + b"\n")
    with pytest.raises(ValueError, match=rf"orders\.jsonl:2: .*{said}"):
        broker.load(path)
    assert broker.records("orders") == []


def test_waiting_ends_with_the_record_that_was_waited_for(broker: Broker) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(broker.wait_for_records, "orders", 3)
        for value in ("a", "b", "c"):
            broker.produce("orders", [value])
        assert [record.text for record in waiting.result(PATIENCE_S)] == ["a", "b", "c"]


def test_waiting_for_a_topic_that_is_made_later_works(broker: Broker) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(broker.wait_for_records, "later")
        broker.produce("later", ["a"])
        assert len(waiting.result(PATIENCE_S)) == 1


def test_waiting_in_vain_says_what_was_there_instead(broker: Broker) -> None:
    broker.produce("orders", ["only this"])
    with pytest.raises(WaitTimeoutError, match=r"2 records of 'orders' were expected; there are 1.*0@0 b'only this'"):
        broker.wait_for_records("orders", 2, timeout=0.01)
    with pytest.raises(WaitTimeoutError, match=r"no such topic. There are: orders"):
        broker.wait_for_records("oders", timeout=0.01)


def test_waiting_goes_on_across_a_reset_and_a_restart(broker: Broker) -> None:
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(broker.wait_for_records, "orders", 2)
        broker.produce("orders", ["a"])
        broker.restart()
        broker.produce("orders", ["b"])
        assert len(waiting.result(PATIENCE_S)) == 2


def test_no_records_is_asserted_and_a_record_is_told(broker: Broker) -> None:
    broker.assert_no_records("orders", within=0.01)
    broker.assert_no_records("not there", within=0.01)
    broker.produce("orders", ["earlier"])
    with pytest.raises(AssertionError, match=r"no records of 'orders' were expected; there are 1"):
        broker.assert_no_records("orders")
    broker.assert_no_records("orders", within=0.01, beyond=1)
    broker.produce("orders", ["more"])
    with pytest.raises(AssertionError, match=r"no records of 'orders' were expected beyond 1; there are 2"):
        broker.assert_no_records("orders", beyond=1)


def test_exactly_once_tells_what_is_missing_and_what_is_too_many(broker: Broker) -> None:
    broker.produce("orders", ["a", "b"])
    broker.assert_exactly_once("orders", ["b", "a"])
    broker.produce("orders", ["b"])
    with pytest.raises(AssertionError, match=r"missing: b'c'; too many: b'b' \(2 times\)"):
        broker.assert_exactly_once("orders", ["a", "b", "c"])


def test_unknown_names_are_told_with_the_nearest(broker: Broker) -> None:
    with pytest.raises(ValueError, match="there is no topic 'oders': did you mean 'orders'"):
        broker.records("oders")
    with pytest.raises(ValueError, match="partitions 0 to 1, not 7"):
        broker.records("orders", 7)
    broker.record_requests()
    with pytest.raises(ValueError, match="there is no served API 'Prodce': did you mean 'Produce'"):
        broker.requests("Prodce")


def test_the_journal_is_off_until_asked_for(broker: Broker) -> None:
    with pytest.raises(RuntimeError, match="call record_requests"):
        broker.requests()


def test_the_journal_has_requests_by_api_and_client_without_record_bytes(broker: Broker) -> None:
    broker.record_requests()
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="shop")
    producer.send("orders", b"x" * 1000, partition=0).get(PATIENCE_S)
    producer.close()
    (request,) = broker.requests("Produce", client_id="shop")
    (topic,) = request.fields["topic_data"]
    assert "bytes>" in topic["partition_data"][0]["records"]
    assert request.errors == ()
    assert request.duration_ms is not None
    assert broker.requests("Produce", client_id="other") == []
    assert {each.api for each in broker.requests()} >= {"ApiVersions", "Metadata", "Produce"}


def test_the_journal_is_bounded_in_bytes(broker: Broker) -> None:
    broker.record_requests(size_max=3000)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
    for _ in range(30):
        producer.send("orders", b"x", partition=0).get(PATIENCE_S)
    producer.close()
    assert 0 < len(broker.requests()) < 15


def test_the_brokers_own_thread_is_told_that_it_cannot_wait_for_itself(broker: Broker) -> None:
    seen: list[BaseException] = []
    done = threading.Event()

    def ask() -> None:
        for question in (broker.topics, broker.stop):
            try:
                question()
            except RuntimeError as error:
                seen.append(error)
        done.set()

    loop = broker._channel._loop  # type: ignore[union-attr]  # noqa: SLF001 (the loop is nobody's business else)
    loop.call_soon_threadsafe(ask)
    assert done.wait(PATIENCE_S)
    assert ["own thread" in str(each) for each in seen] == [True, True]
    assert list(broker.topics()) == ["orders"]
