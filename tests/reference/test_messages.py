"""Declarations and bytes against Apache Kafka itself: the schemas inside its jars, and its generated Java classes.

Versions that Kafka 4 dropped are held against Kafka 3.9.
"""

from __future__ import annotations

import base64
import functools
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from kbroker.protocol.codec import encode
from kbroker.protocol.declarations import NEW, Field, Message, Struct, Versions
from kbroker.types import uuid_to_string
from tests.toolchains import require
from tests.unit.protocol.values import MESSAGES, messages
from tools import reference_kafka
from tools.generate_messages import merge_definitions, read_definitions, snake_case

pytestmark = pytest.mark.all

ROOT = Path(__file__).parents[2]
OLDER = "3.9.2"
INTEGERS = {"int8", "int16", "uint16", "int32", "uint32", "int64"}


class Definitions(NamedTuple):
    directories: list[Path]
    newest: dict[str, Any]
    older: dict[str, Any]

    def of(self, cls: type[Message], version: int) -> dict[str, Any]:
        """The definition in force for a version of a message."""
        newest = self.newest.get(cls.__name__)
        if newest is not None and Versions.parse(newest["validVersions"]).includes(version):
            return dict(newest)
        return dict(self.older[cls.__name__])

    def is_dropped(self, cls: type[Message], version: int) -> bool:
        return self.of(cls, version) != self.newest.get(cls.__name__)


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> Definitions:
    require("java")
    newest, older = tmp_path_factory.mktemp("newest"), tmp_path_factory.mktemp("older")
    reference_kafka.schemas(newest)
    reference_kafka.schemas(older, OLDER)
    directories = [newest, older / "kafka-clients"]
    return Definitions(directories, *map(read_definitions, directories))


def test_the_generated_modules_are_those_that_apaches_definitions_give(
    definitions: Definitions, tmp_path: Path
) -> None:
    generator = [sys.executable, "-m", "tools.generate_messages", *map(str, definitions.directories)]
    subprocess.run([*generator, "--output", str(tmp_path)], check=True, cwd=ROOT)
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.py")}
    package = ROOT / "kbroker" / "protocol"
    present = [package / "api_table.py", *(package / "messages").rglob("*.py")]
    assert written == {path.relative_to(package): path.read_text() for path in present}


def test_every_message_of_apaches_is_declared_in_all_its_versions(definitions: Definitions) -> None:
    declared = {cls.__name__: set(cls.valid_versions.numbers()) for cls in MESSAGES}
    for definition in (*definitions.newest.values(), *definitions.older.values()):
        versions = set(Versions.parse(definition["validVersions"]).numbers())
        renamed = definition["name"].startswith("ListClientMetricsResources")
        assert versions <= declared.get(definition["name"], set()) or renamed, definition["name"]
    assert set(merge_definitions(definitions.newest, definitions.older)) >= set(declared)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_a_declaration_is_apaches_in_every_version(definitions: Definitions, cls: type[Message]) -> None:
    for version in cls.valid_versions.numbers():
        definition = definitions.of(cls, version)
        assert cls.api_key == definition.get("apiKey", -1)
        flexible = definition.get("flexibleVersions", "none")
        assert cls.flexible_versions.includes(version) == Versions.parse(flexible).includes(version)
        common = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
        compare_struct(cls, definition.get("fields", []), common, version)


def compare_struct(cls: type[Struct], fields: list[Any], common: dict[str, Any], version: int) -> None:
    """The fields that are on the wire in this version: the same, in the same order, with the same properties."""
    theirs = [each for each in fields if includes(each.get("versions") or each["taggedVersions"], version)]
    ours = [each for each in cls.fields.values() if each.versions.includes(version)]
    assert [each.name for each in ours] == [snake_case(each["name"]) for each in theirs]
    for mine, their in zip(ours, theirs, strict=True):
        assert mine.kind == their["type"]
        assert mine.nullable.includes(version) == includes(their.get("nullableVersions", "none"), version)
        assert mine.tagged.includes(version) == includes(their.get("taggedVersions", "none"), version)
        if mine.tagged.includes(version):
            assert mine.tag == int(their["tag"])
        assert mine.default == default_of(their) or (mine.default is NEW and default_of(their) is NEW)
        if "flexibleVersions" in their:
            assert mine.flexible is not None
            assert mine.flexible.includes(version) == includes(their["flexibleVersions"], version)
        else:
            assert mine.flexible is None
        if mine.element[0].isupper():
            struct = cls.struct(mine.element)
            compare_struct(struct, common.get(mine.element) or their["fields"], common, version)


def includes(versions: str, version: int) -> bool:
    return Versions.parse(versions).includes(version)


def default_of(field: dict[str, Any]) -> object:
    kind, text = field["type"], field.get("default")
    if text == "null" or kind == "records":
        return None
    if kind in INTEGERS:
        return int(str(text or "0"), 0)
    blank = {"string": text or "", "bytes": b"", "uuid": bytes(16), "float64": 0.0, "bool": str(text).lower() == "true"}
    return blank.get(kind, NEW)


@pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)
def test_what_may_be_dropped_is_what_apache_drops(definitions: Definitions, cls: type[Message]) -> None:
    definition = definitions.of(cls, cls.valid_versions.highest)
    for name, fields in structs_of(definition).items():
        struct = cls if name == definition["name"] else cls.struct(name)
        for each in fields:
            ignorable = str(each.get("ignorable", False)).lower() == "true"
            assert struct.fields[snake_case(each["name"])].ignorable == ignorable


def structs_of(definition: dict[str, Any]) -> dict[str, list[Any]]:
    structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", ())}
    structs[definition["name"]] = definition.get("fields", [])
    waiting = list(structs.values())
    while waiting:
        for each in waiting.pop():
            if each.get("fields"):
                structs[each["type"].removeprefix("[]")] = each["fields"]
                waiting.append(each["fields"])
    return structs


@functools.cache
def java_classes(version: str) -> dict[str, str]:
    """Kafka's generated classes by message name: those that have a converter to JSON."""
    classes = {}
    for jar in reference_kafka.jars(version).glob(f"kafka-*-{version}.jar"):
        with zipfile.ZipFile(jar) as archive:
            for entry in archive.namelist():
                if found := re.fullmatch(r"((?:\w+/)+(\w+?)(?:Data)?)JsonConverter\.class", entry):
                    classes[found[2]] = found[1].replace("/", ".")
    return classes


def sample(cls: type[Message], version: int) -> list[Message]:
    """Some random messages, the same ones in every run."""
    made: list[Message] = []

    @settings(
        max_examples=4,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(cls, version))
    def collect(message: Message) -> None:
        made.append(message)

    collect()
    return made


@pytest.mark.parametrize("kafka", [reference_kafka.VERSION, OLDER])
def test_kafkas_own_classes_read_and_write_the_same_bytes(definitions: Definitions, kafka: str) -> None:
    """Each message is read by Kafka, written again, and shown as JSON: bytes and values must be ours."""
    is_older = kafka == OLDER
    classes = java_classes(kafka)
    cases: list[tuple[Message, int, bytes]] = []
    lines = []
    for cls in MESSAGES:
        for version in cls.valid_versions.numbers():
            if definitions.is_dropped(cls, version) != is_older:
                continue
            for message in sample(cls, version):
                data = encode(message, version)
                cases.append((message, version, data))
                name = cls.__name__.removesuffix("Data")
                lines.append(f"{classes[name]} {version} {data.hex()}\n")
    assert len(cases) > (100 if is_older else 1500)
    program = reference_kafka.java(str(Path(__file__).with_name("MessageEcho.java")), version=kafka)
    done = subprocess.run(program, input="".join(lines), capture_output=True, text=True, check=True)
    answers = done.stdout.removesuffix("\n").split("\n")
    assert len(answers) == len(cases)
    for (message, version, data), answer in zip(cases, answers, strict=True):
        shown, _, values = answer.partition("\t")
        assert shown == data.hex(), f"{message} in version {version}"
        assert as_snake_case(json.loads(values)) == as_json(message, version), f"{message} in version {version}"


def as_json(message: Struct, version: int) -> dict[str, Any]:
    """A message as Kafka's JSON converters show it: what the version has, without tagged fields that are default."""
    shown: dict[str, Any] = {}
    blank = type(message)()
    for name, declared in message.fields.items():
        value = getattr(message, name)
        if not declared.versions.includes(version):
            continue
        if declared.tagged.includes(version) and value == getattr(blank, name):
            continue
        if declared.kind == "records" and value is not None:
            shown[f"{name}_size_in_bytes"] = len(value)
        elif isinstance(value, list):
            shown[name] = [value_as_json(each, declared, version) for each in value]
        else:
            shown[name] = value_as_json(value, declared, version)
    return shown


def value_as_json(value: Any, declared: Field, version: int) -> Any:
    if isinstance(value, Struct):
        return as_json(value, version)
    if isinstance(value, bytes):
        return uuid_to_string(value) if declared.element == "uuid" else base64.b64encode(value).decode()
    return value


def as_snake_case(value: Any) -> Any:
    if isinstance(value, dict):
        return {snake_case(key[0].upper() + key[1:]): as_snake_case(each) for key, each in value.items()}
    return [as_snake_case(each) for each in value] if isinstance(value, list) else value
