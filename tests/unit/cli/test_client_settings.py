"""``-X``, profiles and options: which value holds, what is refused, what the commands make of it."""

from __future__ import annotations

from pathlib import Path

import click
import confluent_kafka
import pytest
from click.testing import CliRunner

from kbroker.cli import cli
from kbroker.cli.output import client_options
from tests.unit.cli.shell import Shell


@click.group()
def root() -> None:
    """Stands for ``kbroker``."""


@root.command()
@client_options
def topic(*, bootstrap: str, timeout_ms: int) -> None:
    click.echo(f"{bootstrap} {timeout_ms}")


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of profiles of somebody whose environment says nothing else."""
    for name in ("KBROKER_BROKERS", "KAFKA_BOOTSTRAP_SERVERS", "KBROKER_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "kbroker"
    folder.mkdir()
    return folder


def asked(*arguments: str, status: int = 0, **environment: str) -> str:
    result = CliRunner().invoke(root, ["topic", *arguments], env=environment)
    assert result.exit_code == status, (result.output, result.exception)
    return result.stderr.splitlines()[-1] if status else result.stdout.strip()


def test_a_flag_is_stronger_than_x_than_the_environment_than_the_profile_than_the_default(profiles: Path) -> None:
    assert asked() == "localhost:9092 30000"
    (profiles / "default.properties").write_text("bootstrap.servers=profile:1\nrequest.timeout.ms=1500\nacks=1\n")
    assert asked() == "profile:1 1500"
    assert asked(KAFKA_BOOTSTRAP_SERVERS="variable:1") == "variable:1 1500"
    typed = ("-X", "bootstrap.servers=typed:1", "-X", "request.timeout.ms=2500")
    assert asked(*typed, KAFKA_BOOTSTRAP_SERVERS="variable:1") == "typed:1 2500"
    assert asked("-b", "flag:1", "--timeout", "5", *typed, KAFKA_BOOTSTRAP_SERVERS="variable:1") == "flag:1 5000"


def test_the_last_of_a_repeated_setting_holds(profiles: Path) -> None:
    (profiles / "default.properties").write_text("request.timeout.ms=1500\nrequest.timeout.ms=1600\n")
    assert asked() == "localhost:9092 1600"
    assert asked("-X", "request.timeout.ms=1700", "-X", "request.timeout.ms=1800") == "localhost:9092 1800"


def test_a_profile_is_named_or_is_a_path(profiles: Path, tmp_path: Path) -> None:
    (profiles / "default.properties").write_text("request.timeout.ms=1500\n")
    (profiles / "staging.properties").write_text("bootstrap.servers: staging:1\n")
    (tmp_path / "client.conf").write_text("# a comment\nbootstrap.servers = file:1\n")
    assert asked("--profile", "staging") == asked(KBROKER_PROFILE="staging") == "staging:1 30000"
    assert asked("--command-config", str(tmp_path / "client.conf"), KBROKER_PROFILE="staging") == "file:1 30000"


def test_a_profile_that_is_not_there_is_told_with_those_that_are(profiles: Path) -> None:
    (profiles / "staging.properties").write_text("")
    error = asked("--profile", "stage", status=2)
    assert f"no profile stage: {profiles}/stage.properties is not there; there are staging" in error
    assert "cannot read" in asked("--profile", f"{profiles}/", status=2)


@pytest.mark.parametrize(
    ("pair", "error"),
    [
        ("client-id=me", "-X client-id=me: no client setting client-id; did you mean client.id?"),
        ("compression.typ=gzip", "did you mean compression.type?"),
        ("zzz=1", "no client setting zzz; there are acks, "),
        ("sasl.mechanism=PLAIN", "sasl.mechanism is not served yet; security.protocol can be PLAINTEXT only"),
        ("security.protocol=SSL", "'SSL' is not 'PLAINTEXT'. (others are not served yet)"),
        ("request.timeout.ms=soon", "-X request.timeout.ms=soon: 'soon' is not a valid integer"),
        ("request.timeout.ms=1", "1 is not in the range x>=100"),
        ("acks=1", "acks is for kbroker produce; kbroker topic heeds bootstrap.servers, client.id, "),
        ("client.id", "-X client.id is not KEY=VALUE"),
    ],
)
@pytest.mark.usefixtures("profiles")
def test_what_cannot_be_is_refused_in_one_line_that_names_it(pair: str, error: str) -> None:
    assert error in asked("-X", pair, status=2)


def test_what_cannot_be_is_refused_in_a_profile_with_its_line(profiles: Path) -> None:
    path = profiles / "default.properties"
    path.write_text("client.id=me\nlinger.ms=1\n")
    assert f"{path} line 2: linger.ms=1: no client setting linger.ms" in asked(status=2)
    path.write_text("a=\\uXYZ\n")
    assert f"{path}: line 1: malformed" in asked(status=2)


def test_a_client_id_is_what_the_brokers_hear(shell: Shell, topic: str) -> None:
    shell("produce", topic, "-v", "a")
    shell("consume", topic, "-g", topic, "-X", "client.id=nightly", "-X", "session.timeout.ms=7000")
    assert "nightly" in shell.json("group", "describe", topic, "--history")[0]["reason"]


def test_the_settings_of_a_profile_reach_the_commands_that_heed_them(shell: Shell, topic: str, tmp_path: Path) -> None:
    profile = tmp_path / "client.properties"
    profile.write_text(f"acks=-1\nbatch.size=1\ncompression.type=zstd\ngroup.id={topic}\nauto.offset.reset=latest\n")
    shell.environment = {"KBROKER_PROFILE": str(profile)}
    shell("produce", topic, "-p", "0", text="a\nb\n")
    assert shell("consume", topic).stdout == ""
    shell("produce", topic, "-p", "0", text="c\n")
    assert shell("consume", topic, "-X", f"group.id={topic}2", "-o", "start").stdout == "a\nb\nc\n"
    assert shell("consume", topic).stdout == "c\n"
    assert {f"{topic}", f"{topic}2"} <= {row["group"] for row in shell.json("group", "list")}


def test_read_committed_is_an_isolation_level(shell: Shell, topic: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": shell.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"given up")
    producer.flush()
    producer.abort_transaction()
    assert shell("consume", topic).stdout == "given up\n"
    assert shell("consume", topic, "-X", "isolation.level=read_committed").stdout == ""
    assert shell("consume", topic, "--read-committed", "-X", "isolation.level=read_uncommitted").stdout == ""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("kbroker topic list -X cl", ["client.id="]),
        ("kbroker produce t -X a", ["acks="]),
        ("kbroker produce t -X acks=", ["acks=all", "acks=-1", "acks=1", "acks=0"]),
        ("kbroker topic list --profile st", ["staging"]),
        ("kbroker topic list -X nonsense=1 --pro", ["--profile"]),
    ],
)
def test_a_shell_completes_settings_and_profiles(profiles: Path, words: str, found: list[str]) -> None:
    (profiles / "staging.properties").write_text("")
    environment = {
        "_KBROKER_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    result = CliRunner().invoke(cli, [], prog_name="kbroker", env=environment)
    assert [line.partition(",")[2] for line in result.stdout.splitlines()] == found
