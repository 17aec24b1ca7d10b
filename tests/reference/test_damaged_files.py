"""Files of a log damaged in every way: Apache Kafka and kbroker, each started on a copy, say the same of it.

One start answers for all damages, each in a partition of its own. Three directories: one that was stopped cleanly, and
two of a killed broker, whose recovery points are the log's begin and its end. What ends Apache Kafka's start is only
given to kbroker, which serves it as if nothing were damaged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.broker_process import BrokerProcess
from tests.reference.comparison import Deviation, differences
from tests.reference.damaged_logs import (
    END,
    FIRST,
    LAST,
    SECOND,
    SECOND_MS,
    THIRD,
    Damage,
    ask_everything,
    cut,
    entry,
    every,
    file_name,
    holds,
    kill,
    logs_left,
    longer,
    missing,
    overwritten,
    renamed,
    rubbish,
    second_batch,
    write_log,
)
from tests.toolchains import require
from tools.reference_kafka import ReferenceKafka

pytestmark = pytest.mark.all

FIRST_LOG, SECOND_LOG, LAST_LOG = (file_name(offset, ".log") for offset in (FIRST, SECOND, LAST))
INDEX, LAST_INDEX = file_name(SECOND, ".index"), file_name(LAST, ".index")
TIME_INDEX, LAST_TIME_INDEX = file_name(SECOND, ".timeindex"), file_name(LAST, ".timeindex")
TXN_INDEX, LAST_TXN_INDEX = file_name(THIRD, ".txnindex"), file_name(LAST, ".txnindex")
SNAPSHOT, LAST_SNAPSHOT = file_name(SECOND, ".snapshot"), file_name(END, ".snapshot")
EPOCHS, METADATA = "leader-epoch-checkpoint", "partition.metadata"
ALL_LOGS = [file_name(offset, ".log") for offset in (FIRST, SECOND, THIRD, LAST)]
KINDS = (".log", ".index", ".timeindex")

DAMAGES: dict[str, Damage] = {
    "nothing": every(),
    "last log: its end is cut": cut(LAST_LOG, -1),
    "last log: cut inside of its first header": cut(LAST_LOG, 30),
    "last log: empty": cut(LAST_LOG, 0),
    "last log: missing": missing(LAST_LOG),
    "last log: a few bytes behind": longer(LAST_LOG, b"abc"),
    "last log: its last byte": overwritten(LAST_LOG, -1, b"\xff"),
    "last log: a byte of its first batch": overwritten(LAST_LOG, 90, b"\xff"),
    "last log: a format in the middle": second_batch(LAST_LOG, 16, b"\1"),
    "last log: a length in the middle": second_batch(LAST_LOG, 8, bytes(4)),
    "last log: an epoch in the middle": second_batch(LAST_LOG, 12, entry(">i", 9)),
    "middle log: its end is cut": cut(SECOND_LOG, -1),
    "middle log: empty": cut(SECOND_LOG, 0),
    "middle log: missing": missing(SECOND_LOG),
    "first log: missing": missing(FIRST_LOG),
    "every log: missing": every(*(missing(name) for name in ALL_LOGS)),
    "index: missing": missing(INDEX),
    "index: empty": holds(INDEX, b""),
    "index: cut": cut(INDEX, -3),
    "index: rubbish": holds(INDEX, rubbish(96)),
    "index: zeros": holds(INDEX, bytes(80)),
    "index: a position between batches": holds(INDEX, entry(">ii", 9, 250)),
    "index: a position behind the end": holds(INDEX, entry(">ii", 9, 99_999)),
    "index: an offset that is not behind the first": holds(INDEX, entry(">ii", 0, 0)),
    "last index: missing": missing(LAST_INDEX),
    "last index: rubbish": holds(LAST_INDEX, rubbish(96)),
    "last index: zeros behind": longer(LAST_INDEX, bytes(800)),
    "time index: missing": missing(TIME_INDEX),
    "time index: empty": holds(TIME_INDEX, b""),
    "time index: cut": cut(TIME_INDEX, -3),
    "time index: rubbish": holds(TIME_INDEX, rubbish(96)),
    "time index: a time that is too late": holds(TIME_INDEX, entry(">qi", SECOND_MS + 1000, 2)),
    "last time index: missing": missing(LAST_TIME_INDEX),
    "last time index: rubbish": holds(LAST_TIME_INDEX, rubbish(96)),
    "transaction index: missing": missing(TXN_INDEX),
    "transaction index: empty": holds(TXN_INDEX, b""),
    "transaction index: cut": cut(TXN_INDEX, -3),
    "last transaction index: missing": missing(LAST_TXN_INDEX),
    "last transaction index: cut": cut(LAST_TXN_INDEX, -3),
    "snapshot: missing": missing(LAST_SNAPSHOT),
    "snapshot: empty": holds(LAST_SNAPSHOT, b""),
    "snapshot: rubbish": holds(LAST_SNAPSHOT, rubbish(100)),
    "snapshot: a wrong byte": overwritten(LAST_SNAPSHOT, -4, b"\xff"),
    "snapshot: another version": overwritten(LAST_SNAPSHOT, 0, b"\0\2"),
    "snapshot: all of them": lambda log: [path.write_bytes(rubbish(11)) for path in log.glob("*.snapshot")],
    "snapshot: of an offset within a segment": renamed({SNAPSHOT: file_name(SECOND + 3, ".snapshot")}, copied=True),
    "snapshot: of an offset behind the end": renamed({SNAPSHOT: file_name(900, ".snapshot")}, copied=True),
    "epochs: missing": missing(EPOCHS),
    "epochs: empty": holds(EPOCHS, b""),
    "epochs: none": holds(EPOCHS, b"0\n0\n"),
    "epochs: without its last line's end": holds(EPOCHS, b"0\n2\n0 0\n1 30"),
    "epochs: behind the end": holds(EPOCHS, b"0\n3\n0 0\n2 30\n5 900\n"),
    "topic id: missing": missing(METADATA),
    "cleaned: left": renamed({SECOND_LOG: f"{SECOND_LOG}.cleaned", INDEX: f"{INDEX}.cleaned"}, copied=True),
    "cleaned: rubbish": holds(f"{SECOND_LOG}.cleaned", rubbish(100)),
    "swap: beside the old files": renamed(
        {name: f"{name}.swap" for name in (file_name(SECOND, kind) for kind in KINDS)}, copied=True
    ),
    "swap: instead of the old files": renamed(
        {name: f"{name}.swap" for name in (file_name(SECOND, kind) for kind in KINDS)}
    ),
    "swap: the log alone": renamed({SECOND_LOG: f"{SECOND_LOG}.swap"}),
    "swap: an index alone": renamed({INDEX: f"{INDEX}.swap"}),
    "swap: of two segments": lambda log: (log / f"{FIRST_LOG}.swap").write_bytes(
        (log / FIRST_LOG).read_bytes() + (log / SECOND_LOG).read_bytes()
    ),
    "swap: and a cleaned one before": renamed(
        {FIRST_LOG: f"{FIRST_LOG}.cleaned", SECOND_LOG: f"{SECOND_LOG}.swap", INDEX: f"{INDEX}.swap"}, copied=True
    ),
    "deleted: left": renamed({name: f"{name}.deleted" for name in (file_name(FIRST, kind) for kind in KINDS)}),
    "deleted: beside the file": renamed({FIRST_LOG: f"{FIRST_LOG}.deleted"}, copied=True),
    "an index without a log": renamed({INDEX: file_name(SECOND + 2, ".index")}, copied=True),
    "a file that is none of Kafka's": holds("hello.txt", b"x"),
    "a directory": lambda log: (log / "hello").mkdir(),
    "files of an unfinished write": every(holds(f"{EPOCHS}.tmp", b"x"), holds(f"{METADATA}.tmp", b"x")),
}
ENDS_APACHE_KAFKA: dict[str, Damage] = {
    "last log: zeros behind": longer(LAST_LOG, bytes(300)),
    "last log: rubbish behind": longer(LAST_LOG, rubbish(300)),
    "transaction index: another version": overwritten(TXN_INDEX, 0, b"\0\1"),
    "transaction index: rubbish": holds(TXN_INDEX, rubbish(68)),
    "last transaction index: rubbish": holds(LAST_TXN_INDEX, rubbish(68)),
    "epochs: rubbish": holds(EPOCHS, rubbish(100)),
    "epochs: another version": holds(EPOCHS, b"1\n1\n0 0\n"),
    "epochs: more announced": holds(EPOCHS, b"0\n3\n0 0\n"),
    "epochs: fewer announced": holds(EPOCHS, b"0\n1\n0 0\n1 30\n"),
    "a log with a short name": lambda log: (log / "15.log").write_bytes((log / SECOND_LOG).read_bytes()),
    "a log with a name that is no number": holds("hello.log", b"x"),
}
KEPT = "kbroker cuts what is no batch, where Apache Kafka forgets the whole segment and writes over it"
BY_HAND = "good records stand behind the damage or below the recovery point: it is for a person to decide (docs)"
MADE_ANEW = "kbroker makes anew what it cannot read, Apache Kafka goes on with what it takes it for"
PASSED_OVER = "a reader hears of a batch that is cut, where Apache Kafka passes over it"
PREFIX = "what comes after a power loss is a beginning of what was written, where Apache Kafka keeps the gap"
OF_EMPTY = "Apache Kafka goes by the time index of a segment that is empty"
DEVIATIONS = [
    Deviation("stopped: last log: its end is cut", "*", KEPT),
    Deviation("stopped: last log: a few bytes behind", "logs*", KEPT),
    Deviation("stopped: last log: cut inside of its first header", "logs*", KEPT),
    Deviation("stopped: last log: cut inside of its first header", "newest*", OF_EMPTY),
    Deviation("stopped: last log: empty", "newest*", OF_EMPTY),
    Deviation("*: middle log: empty", "second*", OF_EMPTY),
    Deviation(
        "stopped: last log: a format in the middle",
        "records ?/*",
        "it answers UNKNOWN_SERVER_ERROR or INVALID_RECORD",
        reference=frozenset({-1, 87}),
    ),
    Deviation("stopped: last *index: *", "*", MADE_ANEW),
    Deviation("*: index: rubbish", "second*", MADE_ANEW),
    Deviation("*: transaction index: cut", "records 1*", MADE_ANEW),
    Deviation("*: epochs: *", "*", MADE_ANEW),
    Deviation("*: topic id: missing", "*", "it is taken for the topic's, where Apache Kafka sets the log aside"),
    Deviation("*: middle log: its end is cut", "records ?/*", PASSED_OVER),
    Deviation("killed*: last log: a byte of its first batch", "*", BY_HAND),
    Deviation("killed*: last log: a [fl]* in the middle", "*", BY_HAND),
    Deviation("killed after a flush: last log: its *", "*", BY_HAND),
    Deviation("killed after a flush: last log: cut *", "*", BY_HAND),
    Deviation("killed: middle log: empty", "*", PREFIX),
    Deviation("killed: middle log: missing", "*", PREFIX),
]
used: set[Deviation] = set()
NAMES = [*DAMAGES, *ENDS_APACHE_KAFKA]


class Directory(NamedTuple):
    """How the broker before went away."""

    name: str
    recovery_point: int | None


DIRECTORIES = [Directory("stopped", None), Directory("killed", 0), Directory("killed after a flush", END)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str, str]]:
    """A data directory with a partition for each damage; the name of the topic, and the id of the cluster."""
    require("java")
    folder = tmp_path_factory.mktemp("damaged")
    cluster_id = ReferenceKafka(folder / "id").cluster_id
    yield folder / "data", write_log(folder / "data", cluster_id, len(NAMES)), cluster_id
    shutil.rmtree(folder)


def copy_damaged(written: Path, data: Path, topic: str, directory: Directory, damages: dict[str, Damage]) -> None:
    shutil.copytree(written, data)
    if directory.recovery_point is not None:
        kill(data, topic, len(NAMES), directory.recovery_point)
    for number, name in enumerate(NAMES):
        if name in damages:
            damages[name](data / f"{topic}-{number}")


def seen(bootstrap: str, data: Path, topic: str) -> dict[str, dict[str, Any]]:
    found = dict(zip(NAMES, ask_everything(bootstrap, topic, len(NAMES)), strict=True))
    for number, name in enumerate(NAMES):
        found[name]["logs"] = logs_left(data, topic, number)
    return found


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda each: each.name)
def test_damaged_files_are_taken_as_apache_kafka_takes_them(
    tmp_path: Path, written: tuple[Path, str, str], directory: Directory
) -> None:
    source, topic, cluster_id = written
    kafka = ReferenceKafka(tmp_path / "kafka")
    kafka.cluster_id = cluster_id
    kafka.data_dir().parent.mkdir(parents=True)
    copy_damaged(source, kafka.data_dir(), topic, directory, DAMAGES)
    with kafka:
        reference = seen(kafka.bootstrap, kafka.data_dir(), topic)
    data = tmp_path / "kbroker"
    copy_damaged(source, data, topic, directory, DAMAGES | ENDS_APACHE_KAFKA)
    with BrokerProcess(data, "--node-id", "1", "--cluster-id", cluster_id) as broker:
        kbroker = seen(broker.bootstrap, data, topic)
    found = [
        each for name in DAMAGES for each in differences(f"{directory.name}: {name}", reference[name], kbroker[name])
    ]
    used.update(deviation for deviation in DEVIATIONS if any(map(deviation.covers, found)))
    assert [str(each) for each in found if not any(deviation.covers(each) for deviation in DEVIATIONS)] == []
    for name in ENDS_APACHE_KAFKA:
        assert kbroker[name] | {"logs": {}} == kbroker["nothing"] | {"logs": {}}, name


def test_every_deviation_that_is_listed_was_seen() -> None:
    """Runs after the others; an entry of the list that no longer differs is to be taken out."""
    assert [deviation for deviation in DEVIATIONS if deviation not in used] == []
