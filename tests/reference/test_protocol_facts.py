"""Error codes, API versions and header versions against Kafka's own enumerations."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbroker.protocol.apis import API_BY_KEY, request_header_version, response_header_version
from kbroker.protocol.errors import ErrorCode
from tests.toolchains import require
from tools import reference_kafka

pytestmark = pytest.mark.all

OLDER = "3.9.2"


def facts(version: str) -> list[list[str]]:
    require("java")
    program = str(Path(__file__).with_name("ProtocolFacts.java"))
    return [line.split() for line in reference_kafka.tool(program, version=version).splitlines()]


def test_the_error_codes_are_kafkas() -> None:
    theirs = {(int(code), name) for kind, code, name, *_ in facts(reference_kafka.VERSION) if kind == "error"}
    assert {(code.value, code.name) for code in ErrorCode} == theirs


@pytest.mark.parametrize("kafka", [reference_kafka.VERSION, OLDER])
def test_the_apis_have_kafkas_versions_and_headers(kafka: str) -> None:
    rows = [line for line in facts(kafka) if line[0] == "api"]
    assert len(rows) > 70
    for _, key, oldest, latest, *headers in rows:
        api = API_BY_KEY[int(key)]
        if kafka == reference_kafka.VERSION:
            assert (api.oldest, api.latest_stable) == (int(oldest), int(latest))
        for version, versions in enumerate(headers, start=int(oldest)):
            ours = f"{request_header_version(api.key, version)}{response_header_version(api.key, version)}"
            assert ours == versions, f"{api.name} v{version}"
