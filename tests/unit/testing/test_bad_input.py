"""Wrong use is told at once, in the words of who did it, the same from a thread and from a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kbroker.config.values import ConfigError
from kbroker.protocol.errors import ApiError
from kbroker.testing import Broker
from kbroker.types import StartupError


@pytest.fixture(scope="module", params=["thread", "process"])
def running(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(mode=request.param, topics={"orders": 2}) as broker:
        yield broker


@pytest.fixture
def broker(running: Broker) -> Broker:
    running.reset()
    return running


WRONG_WORDS: dict[str, dict[str, Any]] = {
    r"topics are given as .* not as 'orders'": {"topics": "orders"},
    r"topics are given as .* not as 3": {"topics": 3},
    r"given as 'name' or 'name:partitions', not as 'orders:x'": {"topics": ["orders:x"]},
    r"'orders' needs a number of partitions, at least 1, not 'three'": {"topics": {"orders": "three"}},
    r"'orders' needs a number of partitions, at least 1, not 0": {"topics": {"orders": 0}},
    r"'orders:3' is no name for a topic": {"topics": {"orders:3": 1}},
    r"'\.\.' is no name for a topic": {"topics": {"..": 1}},
    r"load takes a list, not 'orders.jsonl'": {"load": "orders.jsonl"},
    r"mode is 'thread' or 'process', not 'fiber'": {"mode": "fiber"},
    r"unused_faults is 'error' or 'ignore', not 'warn'": {"unused_faults": "warn"},
}


@pytest.mark.parametrize("said", list(WRONG_WORDS))
def test_a_broker_that_cannot_be_is_refused_before_it_starts(said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Broker(**WRONG_WORDS[said])


@pytest.mark.parametrize("mode", ["thread", "process"])
def test_a_start_that_fails_raises_the_same_in_both_modes(mode: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"no key 'num\.partitons': did you mean 'num\.partitions'"):
        Broker(mode=mode, configs={"num.partitons": 3}).start()
    with pytest.raises(ConfigError, match="between 0 and 65535"):
        Broker(mode=mode, port=70_000).start()
    with pytest.raises(StartupError, match="no data directory can be used"):
        Broker(mode=mode, data_dir=tmp_path / "file").start()
    with Broker(mode=mode, data_dir=tmp_path / "data") as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(StartupError, match="in use by another process"):
            Broker(mode=mode, data_dir=tmp_path / "data").start()
        with pytest.raises(StartupError, match=str(port)):
            Broker(mode=mode, port=port).start()


def test_a_key_of_somebody_else_is_no_slip() -> None:
    with Broker(configs={"io.example.authorizer.users": "me"}) as broker:
        assert broker.topics() == {}


WRONG_USE: dict[str, Callable[[Broker], object]] = {
    r"produce\(\) takes a list, not 'abc'": lambda broker: broker.produce("orders", "abc"),
    r"produce\(\) takes a list, not \{'value': 1\}": lambda broker: broker.produce("orders", {"value": 1}),
    r"a record has value, key, .*, not part": lambda broker: broker.produce("orders", [{"value": 1, "part": 1}]),
    r"the partitions 0 to 1, not 9": lambda broker: broker.produce("orders", [{"value": 1, "partition": 9}]),
    r"no topic 'oders': did you mean 'orders'": lambda broker: broker.records("oders"),
    r"the partitions 0 to 1, not 8": lambda broker: broker.wait_for_records("orders", partition=8),
    r"there is no group 'shop'; there are: none": lambda broker: broker.reset(groups=["shop"]),
    r"reset\(topics=\) takes a list, not 'orders'": lambda broker: broker.reset(topics="orders"),
    r"restore\(\) takes what snapshot\(\) gave": lambda broker: broker.restore("a/path"),  # type: ignore[arg-type]
    r"'orders' is there already, with 2": lambda broker: broker.create_topics({"orders": 3}),
    r"goes forward": lambda broker: broker.clock.advance(hours=-1),
    r"goes forward, less than": lambda broker: broker.clock.advance(wall=float("inf")),
    r"goes forward, less than a th": lambda broker: broker.clock.advance(hours=float("inf")),
    r"goes forward, less than a": lambda broker: broker.clock.advance(wall=1, timers=float("nan")),
    r"hours ... are numbers, not '2'": lambda broker: broker.clock.advance(hours="2"),  # type: ignore[arg-type]
    r"load\(\) takes a file, a data directory or": lambda broker: broker.load(3),
    r"'name:partitions', not as 'new:x'": lambda broker: broker.create_topics(["new:x"]),
    r"topics are given as .* not as 'new'": lambda broker: broker.create_topics("new"),
    r"a duration is a timedelta": lambda broker: broker.clock.advance(wall="1h"),  # type: ignore[arg-type]
    r"no error 'NONE'": lambda broker: broker.faults.error("Fetch", "NONE"),
    r"no error 9999": lambda broker: broker.faults.error("Fetch", 9999),
    r"takes an event": lambda broker: broker.faults.delay("Fetch", ms=1).until(None),  # type: ignore[arg-type]
    r"a slow disk needs ms": lambda broker: broker.faults.disk.slow(0),
    r"a delay needs ms, more than 0, not '5'": lambda broker: broker.faults.delay("Fetch", "5"),  # type: ignore[arg-type]
    r"times is a whole number, .* not '2'": lambda broker: broker.faults.delay("Fetch", 1).times("2"),  # type: ignore[arg-type]
    r"every\(\) needs a value": lambda broker: broker.faults.delay("Fetch", 1).every(None),  # type: ignore[arg-type]
    r"times is a whole number, at least 1 .* 0": lambda broker: broker.faults.disk.fail("write", times=0),
    r"after is a whole number, at least 0": lambda broker: broker.faults.disk.fail("write", after=-1),
    r"no error None": lambda broker: broker.faults.error("Fetch", None),  # type: ignore[arg-type]
    r"no served API 0": lambda broker: broker.faults.delay(0, 1),  # type: ignore[arg-type]
    r"no topic 5": lambda broker: broker.records(5),  # type: ignore[arg-type]
    r"Heartbeat names no topics": lambda broker: broker.faults.delay("Heartbeat", 1, topic="orders"),
    r"Produce names no groups": lambda broker: broker.faults.delay("Produce", 1, group="shop"),
    r"DeleteTopics names no part": lambda broker: broker.faults.delay("DeleteTopics", 1, topic="orders", partition=0),
    r"'a b' is no name for a topic": lambda broker: broker.produce("a b", [1]),
    r"7 is no name for a topic": lambda broker: broker.produce(7, [1]),  # type: ignore[arg-type]
    r"partition is a whole number, not '1'": lambda broker: broker.produce("orders", [{"value": 1, "partition": "1"}]),
    r"headers are a dict or a list of pairs": lambda broker: broker.produce("orders", [{"value": 1, "headers": "ab"}]),
    r"no group 'shop'; there are: none": lambda broker: broker.lag("shop"),
    r"a timeout is a number of seconds": lambda broker: broker.wait_for_lag("shop", timeout=None),  # type: ignore[arg-type]
    r"count is a whole number": lambda broker: broker.wait_for_records("orders", "3"),  # type: ignore[arg-type]
    r"have later run by 'await broker\.aio\.load": lambda broker: broker.load(later),
}


async def later(_broker: Broker) -> None:
    """What a plain load() must not be given: nobody would await it."""


@pytest.mark.parametrize("said", list(WRONG_USE))
def test_wrong_use_is_a_value_error_and_changes_nothing(broker: Broker, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        WRONG_USE[said](broker)
    assert list(broker.topics()) == ["orders"]
    assert broker.records("orders") == []
    assert broker.faults.unused() == []
    assert broker.clock.wall_ms > 0


def test_an_error_of_kafkas_keeps_its_code(broker: Broker) -> None:
    with pytest.raises(ApiError, match="MESSAGE_TOO_LARGE") as caught:
        broker.produce("orders", [b"x" * 2_000_000])
    assert caught.value.code.name == "MESSAGE_TOO_LARGE"


def test_a_group_that_has_members_is_not_forgotten(broker: Broker) -> None:
    consumer = broker.consumer({"group.id": "shop"}, library="confluent_kafka")
    consumer.subscribe(["orders"])
    consumer.poll(0)
    broker.wait_for_assignment("shop")
    with pytest.raises(RuntimeError, match="'shop': NON_EMPTY_GROUP"):
        broker.reset(groups=["shop"])
    consumer.close()
    broker.reset(groups=["shop"])
    assert broker.groups() == {}


def test_a_coroutine_is_told_that_it_would_hold_its_loop(broker: Broker) -> None:
    """And everybody on it: the clients that were to bring what is waited for."""
    fault = broker.faults.delay("Fetch", ms=1).optional()
    waits: list[Callable[[], object]] = [
        lambda: broker.wait_for_records("orders"),
        lambda: broker.wait_for_commit("shop", "orders", 1),
        fault.wait_fired,
    ]

    async def main() -> None:
        for wait in waits:
            with pytest.raises(RuntimeError, match="would hold the event loop"):
                wait()

    asyncio.run(main())


@pytest.mark.parametrize(
    "path", ["*", "*/orders-0/*.index", "*/__cluster_metadata-0/*.log", "*/__cluster_metadata-0/quorum-state*"]
)
def test_a_start_that_finds_no_room_on_the_disk_says_so_and_the_next_one_has_everything(path: str) -> None:
    with Broker(topics={"orders": 1}) as broker:
        for _ in range(3):
            broker.produce("orders", ["a" * 2000] * 3)
        broker.kill()
        with (
            broker.faults.disk.full(path=path),
            pytest.raises(StartupError, match=r"No space left on device.* free space on the disks of .* start again"),
        ):
            broker.restart()
        broker.restart()
        assert len(broker.records("orders")) == 9
