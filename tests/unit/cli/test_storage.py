"""``kbroker storage`` does what Kafka's tool does."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from kbroker.cli import cli
from kbroker.host.real import RealDisk
from kbroker.kraft.controller.features import bootstrap_records
from kbroker.kraft.raft.voters import Voter, VoterEndpoint, Voters
from kbroker.kraft.snapshots import SnapshotContent, read_bootstrap
from kbroker.log import meta_properties
from kbroker.types import uuid_from_string

CLUSTER = "5L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(f"node.id=4\nlog.dirs={tmp_path}/a,{tmp_path}/b\n")
    return path


def storage(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner(env={}).invoke(cli, ["storage", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_a_random_uuid_is_one_and_does_not_look_like_an_option() -> None:
    seen = {storage("random-uuid")[1].strip() for _ in range(20)}
    assert len(seen) == 20
    assert all(len(uuid_from_string(uuid)) == 16 and uuid[0] != "-" for uuid in seen)


def test_format_writes_whose_a_directory_is_and_the_features(file: Path, tmp_path: Path) -> None:
    status, output, _ = storage("format", "-t", CLUSTER, "-c", str(file), "-N")
    assert status == 0
    assert output.splitlines() == [
        f"Formatting metadata directory {tmp_path}/a with metadata.version 4.4-IV2.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.4-IV2.",
    ]
    disk = RealDisk(16)
    first, second = (meta_properties.read(disk, f"{tmp_path}/{name}") for name in "ab")
    assert first is not None
    assert second is not None
    assert (first.cluster_id, first.node_id) == (second.cluster_id, second.node_id) == (CLUSTER, 4)
    assert first.directory_id != second.directory_id
    assert whole(f"{tmp_path}/a") == (bootstrap_records(), [])
    assert read_bootstrap(disk, f"{tmp_path}/b") is None


@pytest.mark.parametrize("options", [("--standalone",), ("--initial-controllers", f"4@[::1]:9094:{CLUSTER}")])
def test_a_dynamic_quorum_of_one_begins_with_the_directory_that_is_formatted(
    file: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    file.write_text(
        f"{file.read_text()}controller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
    )
    status, output, _ = storage("format", "-t", CLUSTER, "-c", str(file), *options)
    assert status == 0
    assert output.splitlines() == [
        f"Formatting dynamic metadata voter directory {tmp_path}/a with metadata.version 4.4-IV2.",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.4-IV2.",
    ]
    owner = meta_properties.read(RealDisk(16), f"{tmp_path}/a")
    assert owner is not None
    records, controls = whole(f"{tmp_path}/a")
    assert records == bootstrap_records()
    voters = Voters(()).replay(controls, in_log=False)
    place = ("localhost", 9093) if len(options) == 1 else ("::1", 9094)
    assert owner.directory_id is not None
    assert voters == Voters((Voter(4, owner.directory_id, (VoterEndpoint("CONTROLLER", *place),)),), kraft_version=1)
    if len(options) == 2:
        assert owner.directory_id == uuid_from_string(CLUSTER)


def test_a_dynamic_quorum_has_no_voters_in_its_configuration(file: Path) -> None:
    file.write_text(f"{file.read_text()}controller.quorum.voters=4@localhost:9093\n")
    assert "You cannot specify controller.quorum.voters" in storage("format", "-t", CLUSTER, "-c", str(file), "-s")[2]
    assert storage("format", "-t", CLUSTER, "-c", str(file), "-s", "-N")[0] == 2


def test_who_leaves_the_voters_to_the_log_has_to_say_who_they_are(file: Path) -> None:
    file.write_text(f"{file.read_text()}controller.quorum.bootstrap.servers=localhost:9093\n")
    formatting = ("format", "-t", CLUSTER, "-c", str(file))
    status, _, error = storage(*formatting)
    assert status == 1
    assert "you must specify one of the following: --standalone, --initial-controllers, or --no-initial" in error
    assert storage(*formatting, "--no-initial-controllers")[0] == 0


def test_a_directory_can_be_named_instead_of_a_file(tmp_path: Path) -> None:
    named = ("--data-dir", f"{tmp_path}/data")
    assert storage("info", *named)[0] == 1
    assert storage("format", "-t", CLUSTER, *named)[0] == 0
    status, output, _ = storage("info", *named)
    assert status == 0
    assert f"cluster.id={CLUSTER}" in output


def test_a_formatted_directory_is_refused_or_skipped(file: Path, tmp_path: Path) -> None:
    assert storage("format", "-t", CLUSTER, "-c", str(file))[0] == 0
    status, _, error = storage("format", "-t", CLUSTER, "-c", str(file))
    assert status == 1
    assert f"Log directory {tmp_path}/a is already formatted. Use --ignore-formatted" in error
    status, output, _ = storage("format", "-t", CLUSTER, "-c", str(file), "--ignore-formatted")
    assert (status, output) == (0, "All of the log directories are already formatted.\n")


def test_another_clusters_directory_is_refused(file: Path) -> None:
    assert storage("format", "-t", CLUSTER, "-c", str(file))[0] == 0
    status, _, error = storage("format", "-t", "4d2ChnjUT_uWSO4ynqKo8Q", "-c", str(file), "-g")
    assert status == 1
    assert "belongs to cluster 5L6g3nShT-eMCtK--X86sw" in error


def test_any_cluster_id_will_do_but_none_at_all(file: Path, tmp_path: Path) -> None:
    status, _, error = storage("format", "-t", "", "-c", str(file))
    assert (status, "The cluster id is empty" in error) == (1, True)
    assert storage("format", "-t", "my=own: id", "-c", str(file))[0] == 0
    properties = meta_properties.read(RealDisk(16), f"{tmp_path}/a")
    assert properties is not None
    assert properties.cluster_id == "my=own: id"


def test_a_directory_that_cannot_be_read_is_passed_over(file: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    status, output, _ = storage("format", "-t", CLUSTER, "-c", str(file))
    assert status == 0
    assert output.splitlines() == [
        f"I/O error trying to read log directory {tmp_path}/a. Ignoring...",
        f"Formatting data directory {tmp_path}/b with metadata.version 4.4-IV2.",
    ]
    (tmp_path / "b" / "meta.properties").write_text("version=2\n")
    status, _, error = storage("format", "-t", CLUSTER, "-c", str(file))
    assert (status, "No available log directories to format." in error) == (1, True)


def test_two_directories_with_one_id_are_refused(file: Path, tmp_path: Path) -> None:
    storage("format", "-t", CLUSTER, "-c", str(file))
    (tmp_path / "b" / "meta.properties").write_text((tmp_path / "a" / "meta.properties").read_text())
    status, _, error = storage("format", "-t", CLUSTER, "-c", str(file), "-g")
    assert status == 1
    assert f"It was the ID of {tmp_path}/a, but also of {tmp_path}/b" in error
    reserved = {"version": "1", "node.id": "4", "cluster.id": CLUSTER, "directory.id": "A" * 22}
    (tmp_path / "b" / "meta.properties").write_text("".join(f"{key}={value}\n" for key, value in reserved.items()))
    assert "Invalid reserved directory ID" in storage("format", "-t", CLUSTER, "-c", str(file), "-g")[2]


def test_a_standalone_node_has_no_voters_in_its_configuration(file: Path) -> None:
    file.write_text(f"{file.read_text()}controller.quorum.voters=4@localhost:9093\n")
    status, _, error = storage("format", "-t", CLUSTER, "-c", str(file), "--standalone")
    assert (status, "You cannot specify controller.quorum.voters" in error) == (1, True)


def test_info_tells_problems_by_its_status(file: Path, tmp_path: Path) -> None:
    status, output, _ = storage("info", "-c", str(file))
    assert status == 1
    assert output == f"Found problems:\n  {tmp_path}/a does not exist\n  {tmp_path}/b does not exist\n\n"
    storage("format", "-t", CLUSTER, "-c", str(file))
    status, output, _ = storage("info", "-c", str(file))
    assert status == 0
    assert output.startswith(
        f"Found log directories:\n  {tmp_path}/a\n  {tmp_path}/b\n\nFound metadata: {{cluster.id={CLUSTER}, "
    )


def test_info_names_what_does_not_belong_together(file: Path, tmp_path: Path) -> None:
    storage("format", "-t", CLUSTER, "-c", str(file))
    other = tmp_path / "b" / "meta.properties"
    text = other.read_text()
    for changed, problem in (
        (text.replace(CLUSTER, "x"), "Mismatched cluster IDs between storage directories."),
        (text.replace("node.id=4", "node.id=5"), "Mismatched node IDs between storage directories."),
        ("version=2", f"Error loading {other}: version 2 is not served, 1 is expected"),
    ):
        other.write_text(changed)
        status, output, _ = storage("info", "-c", str(file))
        assert status == 1
        assert f"Found problem:\n  {problem}\n" in output
    file.write_text(f"{file.read_text()}metadata.log.dir={tmp_path}/c\n")
    (tmp_path / "c").write_text("")
    assert f"{tmp_path}/c is not a directory" in storage("info", "-c", str(file))[1]


def whole(directory: str) -> SnapshotContent:
    found = read_bootstrap(RealDisk(16), directory)
    assert found is not None
    return found


def levels(directory: str) -> dict[str, int]:
    return {each.name: each.feature_level for each in whole(directory).records}


def test_a_release_version_and_single_levels_are_what_the_cluster_begins_with(file: Path, tmp_path: Path) -> None:
    chosen = ("-r", "4.0", "-f", "group.version=0", "-f", "group.version=1", "--feature", "transaction.version=0")
    status, output, _ = storage("format", "-t", CLUSTER, "-c", str(file), *chosen)
    assert (status, output.splitlines()[0]) == (
        0,
        f"Formatting metadata directory {tmp_path}/a with metadata.version 4.0-IV3.",
    )
    assert levels(f"{tmp_path}/a") == {"metadata.version": 25, "group.version": 1}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("-r", "3.2"), "Unknown metadata.version '3.2'. Supported metadata.version are: 3.3-IV3, 3.4-IV0, "),
        (("-r", "4.4", "-f", "metadata.version=33"), "Use --release-version instead of --feature metadata.version=X"),
        (("-f", "metadata.version=6"), "No MetadataVersion with feature level 6. Valid feature levels are from 7 to"),
        (("-f", "group.version"), "Can't parse feature=level string group.version: equals sign not found."),
        (("-f", "group.version=x"), "Can't parse feature=level string group.version=x: unable to parse x as a short."),
        (("-f", "group.version=32768"), "unable to parse 32768 as a short."),
        (("-f", "group.version=-1"), "No feature:group.version with feature level -1"),
        (("-f", "no=1"), "Unsupported feature: no. Supported features are: eligible.leader.replicas.version, group."),
        (
            ("-f", "kraft.version=1"),
            "Cannot set kraft.version to 1 unless controller.quorum.voters is empty and one of",
        ),
        (("-s", "-f", "kraft.version=0"), "Cannot set kraft.version to 0 if controller.quorum.voters is empty and one"),
        (("-f", "kraft.version=2"), "No feature:kraft.version with feature level 2"),
        (("-I", "4@h:1"), "--initial-controllers 4@h:1: it is not id@host:port:directory-id"),
        (("-I", f"4@h:1:{CLUSTER}x"), "is not a Kafka UUID"),
        (("-I", "4@h:1:AAAAAAAAAAAAAAAAAAAAAA"), "AAAAAAAAAAAAAAAAAAAAAA is a reserved id"),
        (("-I", f"1@h:1:{CLUSTER}"), "kbroker runs a quorum of one, which is node 4"),
        (
            ("-r", "3.9", "-f", "eligible.leader.replicas.version=1"),
            "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
        ),
    ],
)
def test_levels_that_there_are_not_are_refused_before_anything_is_formatted(
    file: Path, tmp_path: Path, arguments: tuple[str, ...], reason: str
) -> None:
    status, output, error = storage("format", "-t", CLUSTER, "-c", str(file), *arguments)
    assert (status, output) == (1, "")
    assert reason in error
    assert not (tmp_path / "a").exists()


def test_a_release_version_is_mapped_to_levels() -> None:
    status, output, _ = storage("version-mapping")
    assert (status, output.splitlines()) == (
        0,
        [
            "metadata.version=33 (4.4-IV2)",
            "kraft.version=1",
            "transaction.version=2",
            "group.version=1",
            "eligible.leader.replicas.version=1",
            "share.version=2",
            "streams.version=1",
        ],
    )
    assert storage("version-mapping", "-r", "3.8.1")[1].splitlines()[:2] == [
        "metadata.version=20 (3.8.1)",
        "kraft.version=0",
    ]
    assert storage("version-mapping", "-r", "x")[0] == 1


def test_the_dependencies_of_levels_are_shown() -> None:
    asked = ("-f", "eligible.leader.replicas.version=1", "-f", "metadata.version=7", "-f", "group.version=1")
    status, output, _ = storage("feature-dependencies", *asked)
    assert (status, output.splitlines()) == (
        0,
        [
            "eligible.leader.replicas.version=1 requires:",
            "    metadata.version=23 (4.0-IV1)",
            "metadata.version=7 (3.3-IV3) has no dependencies.",
            "group.version=1 has no dependencies.",
        ],
    )
    for text, reason in (
        ("no=1", "Unknown feature: no"),
        ("x", "Invalid feature format: x. Expected format: 'feature=version' (e.g. 'group.version=1')"),
        ("group.version=", "Invalid version format:  for feature group.version"),
        ("group.version=5", "Feature level 5 is not supported for feature group.version"),
        ("metadata.version=99", "Unknown metadata.version 99"),
    ):
        status, _, error = storage("feature-dependencies", "-f", text)
        assert (status, error) == (1, f"kbroker storage: {reason}\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("node.id=x", "Unable to read node.id as a base-10 number."),
        ("node.id=2147483648", "Unable to read node.id as a base-10 number."),
        ("", "node.id is missing; format the directory again"),
    ],
)
def test_a_node_id_that_is_none_is_a_problem_of_its_directory(
    file: Path, tmp_path: Path, text: str, reason: str
) -> None:
    assert storage("format", "-t", CLUSTER, "-c", str(file))[0] == 0
    written = tmp_path / "a" / "meta.properties"
    written.write_text(written.read_text().replace("node.id=4", text))
    status, output, _ = storage("info", "-c", str(file))
    assert status == 1
    assert f"  Error loading {written}: {reason}\n" in output


def test_without_a_file_that_says_so_the_voters_are_not_left_to_the_log(tmp_path: Path) -> None:
    """Although the values that stand in for a file name bootstrap servers, which then are this node's own."""
    named = ("--data-dir", f"{tmp_path}/data")
    assert storage("format", "-t", CLUSTER, *named)[0] == 0
    assert whole(f"{tmp_path}/data").controls == []
