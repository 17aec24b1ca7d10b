"""The pytest plugin, by runs of pytest within this one."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from kbroker.testing import Broker
from kbroker.testing.plugin import NEIGHBOUR
from tests.unit.testing.plugin_runs import ARGUMENTS, PYTHONPATH, ROOT

pytest_plugins = ["pytester"]


@pytest.fixture(autouse=True)
def installed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    monkeypatch.delenv("KBROKER_BOOTSTRAP", raising=False)
    pytester.makeini(
        f"[pytest]\naddopts = {ARGUMENTS} -p no:cacheprovider\nfilterwarnings =\n  error\n"
        "  ignore:(read_text|open_text|contents) is deprecated:DeprecationWarning\n"
    )


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess(*arguments, timeout=240)


def test_each_test_has_a_clean_broker_behind_one_address(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        seen = set()

        @pytest.mark.parametrize("turn", [1, 2, 3])
        def test_clean(kafka_broker, turn):
            seen.add(kafka_broker.bootstrap_server)
            assert kafka_broker.topics() == {}
            kafka_broker.produce("orders", ["a"])
            assert len(seen) == 1

        @pytest.mark.kafka(topics={"orders": 3}, configs={"num.partitions": 4})
        class TestMarked:
            @pytest.mark.kafka(topics={"more": 1})
            def test_marked(self, kafka_broker):
                assert {name: topic.partitions for name, topic in kafka_broker.topics().items()} == {
                    "orders": 3, "more": 1}
                kafka_broker.produce("automatic", ["a"])
                assert kafka_broker.topics()["automatic"].partitions == 4
        """
    )
    run(pytester).assert_outcomes(passed=4)


def test_the_helpers_of_pytest_kafka_broker_give_connected_clients(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_clients(kafka_broker):
            producer = kafka_broker.producer({"client.id": "shop"})
            producer.produce("orders", b"a")
            producer.flush()
            consumer = kafka_broker.consumer({"group.id": "g", "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            assert consumer.poll(60).value() == b"a"
            consumer.close()
            assert "orders" in kafka_broker.admin().list_topics(timeout=60).topics
            assert kafka_broker.config({"a": 1})["bootstrap.servers"] == kafka_broker.bootstrap_server
            other = kafka_broker.producer({"client.id": "other"}, library="kafka")
            assert other.send("orders", b"b").get(60).offset == 1
            other.close()
        """
    )
    run(pytester).assert_outcomes(passed=1)


def test_a_failed_test_shows_what_the_broker_saw(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_fails(kafka_broker):
            kafka_broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS").once()
            producer = kafka_broker.producer({"client.id": "shop"}, library="kafka")
            producer.send("orders", b"a").get(60)
            producer.close()
            assert not kafka_broker.records("orders")
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*what the Kafka broker saw*",
            "client 'shop': *Produce 2*",
            "*Produce v* NOT_ENOUGH_REPLICAS*error NOT_ENOUGH_REPLICAS (Produce)*",
            "fault error NOT_ENOUGH_REPLICAS (Produce): fired 1 times*",
            "topic orders: 1 partitions, next offsets [[]1[]]",
        ]
    )


def test_the_story_tells_of_rebalances_and_why_also_when_a_fixture_failed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def consuming(kafka_broker):
            kafka_broker.create_topics({"orders": 2})
            consumer = kafka_broker.consumer({"group.id": "shop", "client.id": "till"}, library="confluent_kafka")
            consumer.subscribe(["orders"])
            consumer.poll(0)
            kafka_broker.wait_for_assignment("shop")
            consumer.close()
            kafka_broker.wait_for_assignment("shop", timeout=0.01)

        def test_never_runs(consuming): ...

        def test_kills_it(kafka_broker):
            kafka_broker.kill()
            assert False

        def test_the_next_has_a_clean_one(kafka_broker):
            kafka_broker.produce("orders", ["a"])
        """
    )
    result = run(pytester)
    result.assert_outcomes(errors=1, failed=1, passed=1)
    result.stdout.no_fnmatch_line("*/kbroker/testing/*")
    result.stdout.fnmatch_lines(
        [
            "*what the Kafka broker saw*",
            "client 'till': *JoinGroup*",
            "group 'shop': Empty, 0 members",
            "    *rebalance after generation 0: *joins*",
            "    *rebalance after generation 1: *left*",
            "topic orders: 2 partitions, next offsets [[]0, 0[]]",
            "*what the Kafka broker saw*",
            "the broker was killed: call restart() first",
        ]
    )


def test_a_fault_that_never_fired_fails_the_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_unused(kafka_broker):
            kafka_broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS")

        def test_optional(kafka_broker):
            kafka_broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS").optional()
        """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*UnusedFaultError: never happened: error NOT_ENOUGH_REPLICAS (Produce)*"])


def test_a_broker_that_a_test_stopped_runs_again_for_the_next(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        def test_stop(kafka_broker):
            kafka_broker.stop()

        @pytest.mark.kafka(topics=["orders:3:1", "more"])
        def test_next(kafka_broker):
            assert kafka_broker.topics()["orders"].partitions == 3
            assert kafka_broker.topics()["more"].partitions == 1

        def test_unused_and_stopped(kafka_broker):
            kafka_broker.faults.error("Produce", "NOT_ENOUGH_REPLICAS")
            kafka_broker.stop()
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*UnusedFaultError: never happened: error NOT_ENOUGH_REPLICAS (Produce)*"])


def test_a_factory_makes_a_broker_of_ones_own_with_seeds(pytester: pytest.Pytester) -> None:
    (pytester.path / "orders.jsonl").write_text('{"topic": "orders", "value": "seed"}\n')
    pytester.makepyfile(
        """
        from kbroker.testing import factories

        orders_proc = factories.kbroker_proc(topics={"orders": 2}, load=["orders.jsonl"], mode="process")
        orders_broker = factories.kafka_broker("orders_proc")

        def test_one(orders_broker):
            assert [record.text for record in orders_broker.records("orders")] == ["seed"]
            orders_broker.produce("orders", ["more"])

        def test_two(orders_broker):
            assert [record.text for record in orders_broker.records("orders")] == ["seed"]
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_topics_and_configs_come_from_the_ini_file_and_the_mode_from_a_flag(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        f"[pytest]\naddopts = {ARGUMENTS}\nkbroker_topics =\n  orders:3\n  other\n"
        "kbroker_configs =\n  num.partitions=5\n"
    )
    pytester.makepyfile(
        """
        def test_ini(kafka_broker):
            assert kafka_broker.mode == "process"
            assert kafka_broker.topics()["orders"].partitions == 3
            kafka_broker.produce("new", ["a"])
            assert kafka_broker.topics()["new"].partitions == 5
        """
    )
    run(pytester, "--kbroker-mode=process").assert_outcomes(passed=1)


def test_a_broker_elsewhere_is_found_by_its_address(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(
        """
        def test_elsewhere(kbroker_noproc):
            assert "orders" in kbroker_noproc.admin().list_topics(timeout=60).topics
        """
    )
    with Broker(topics={"orders": 1}) as broker:
        run(pytester, f"--kbroker-bootstrap={broker.bootstrap_servers}").assert_outcomes(passed=1)
        monkeypatch.setenv("KBROKER_BOOTSTRAP", broker.bootstrap_servers)
        run(pytester).assert_outcomes(passed=1)
    monkeypatch.delenv("KBROKER_BOOTSTRAP")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*kbroker_noproc needs the address of a broker: set KBROKER_BOOTSTRAP*"])
    result = run(pytester, "--kbroker-bootstrap=localhost")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the address of a broker is HOST:PORT, not 'localhost'*"])


def test_wrong_use_is_told_at_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka(topic={"orders": 3})
        def test_wrong_word(kafka_broker): ...

        @pytest.mark.kafka(topics="orders")
        def test_wrong_kind(kafka_broker): ...

        @pytest.mark.kafka({"orders": 3})
        def test_no_word(kafka_broker): ...

        @pytest.mark.kafka(load="orders.jsonl")
        def test_one_load(kafka_broker): ...

        @pytest.mark.kafka(topics={"orders": 3})
        def test_no_fixture(): ...

        @pytest.mark.kafka(topics={"orders": 3})
        def test_another_fixture(kbroker_proc): ...

        @pytest.mark.kafka
        def test_somebody_elses_marker(): ...

        @pytest.mark.kafka(topics={"orders": 3})
        def test_asks_later(request):
            assert list(request.getfixturevalue("kafka_broker").topics()) == ["orders"]
        """
    )
    result = run(pytester)
    result.assert_outcomes(errors=6, passed=2)
    result.stdout.fnmatch_lines(
        [
            "*kafka knows configs, load, topics, not topic*",
            "*kafka(topics=...): topics are given as *, not as 'orders'*",
            "*kafka takes names, as in topics={...}, not {'orders': 3} alone*",
            "*kafka(load=...) takes a list, not 'orders.jsonl'*",
            "*test_no_fixture has @pytest.mark.kafka(...) but uses no broker*",
            "*test_another_fixture has @pytest.mark.kafka(...) but uses no broker*",
        ]
    )


def test_it_steps_back_for_pytest_kafka_broker(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    (pytester.path / "pytest_kafka_broker").mkdir()
    (pytester.path / "pytest_kafka_broker" / "__init__.py").write_text("")
    pytester.makepyfile(
        """
        import pytest

        def test_only_its_own(request, kbroker_proc):
            with pytest.raises(pytest.FixtureLookupError):
                request.getfixturevalue("kafka_broker")
        """
    )
    pytester.syspathinsert()
    monkeypatch.setenv("PYTHONPATH", f"{PYTHONPATH}{os.pathsep}{pytester.path}")
    run(pytester, "-p", NEIGHBOUR).assert_outcomes(passed=1)
    pytester.makepyfile("def test_ours(kafka_broker): assert kafka_broker.topics() == {}")
    run(pytester).assert_outcomes(passed=1)


def test_workers_of_xdist_do_not_meet(pytester: pytest.Pytester) -> None:
    """Each has a broker of its own, and all use the same names."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("turn", range(20))
        def test_alone(kafka_broker, turn, worker_id):
            assert kafka_broker.topics() == kafka_broker.groups() == {}
            producer = kafka_broker.producer({"transactional.id": "same"})
            producer.init_transactions(30)
            producer.begin_transaction()
            producer.produce("orders", str(turn).encode())
            producer.commit_transaction(30)
            consumer = kafka_broker.consumer({"group.id": "same", "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            assert consumer.poll(60).value() == str(turn).encode()
            consumer.close()
            assert [record.text for record in kafka_broker.records("orders")] == [str(turn)]
            with open(f"worker-{worker_id}", "w") as file:
                file.write(kafka_broker.bootstrap_server)
        """
    )
    run(pytester, "-n", "4").assert_outcomes(passed=20)
    addresses = [path.read_text() for path in pytester.path.glob("worker-*")]
    assert 1 < len(addresses) == len(set(addresses))


def test_a_clean_broker_costs_a_test_little(pytester: pytest.Pytester) -> None:
    """By the CPU's time of tests and broker together, which a busy machine does not change: 500 make 15 s at most."""
    pytester.makepyfile(
        """
        import pytest

        def pytest_generate_tests(metafunc):
            metafunc.parametrize("number", range(metafunc.config.getoption("maxfail") - 1))

        def test_an_order_is_written(kafka_broker, number):
            producer = kafka_broker.producer()
            producer.produce("orders", b"%d" % number)
            assert producer.flush(10) == 0
            assert [record.text for record in kafka_broker.records("orders")] == [str(number)]
        """
    )
    spent = []
    for count in (1, 61):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(pytester, f"--maxfail={count + 1}").assert_outcomes(passed=count)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert (spent[1] - spent[0]) / 60 < 15 / 500


def test_loading_the_plugin_imports_nothing_of_the_broker() -> None:
    code = (
        "import pytest, sys; before = set(sys.modules); import kbroker.testing.plugin;"
        "print(sorted(name for name in set(sys.modules) - before))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert said.strip() == str(["kbroker", "kbroker.testing", "kbroker.testing.factories", "kbroker.testing.plugin"])


def test_a_run_without_a_broker_imports_nothing_of_it_and_one_beside_a_process_little(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_none():
            loaded = sorted(name for name in sys.modules if name.startswith("kbroker"))
            assert loaded == ["kbroker", "kbroker.testing", "kbroker.testing.factories", "kbroker.testing.plugin"]

        def test_a_process(kafka_broker):
            kafka_broker.produce("orders", ["a"])
            assert [record.text for record in kafka_broker.wait_for_records("orders", 1)] == ["a"]
            assert not [name for name in sys.modules
                        if name.startswith("kbroker.") and not name.startswith("kbroker.testing")]
            assert "asyncio" not in sys.modules
        """
    )
    run(pytester, "-p", "no:asyncio", "-p", "no:anyio").assert_outcomes(passed=2)
