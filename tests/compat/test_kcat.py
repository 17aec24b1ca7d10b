"""Debian's kcat (on an old librdkafka) against the broker."""

from __future__ import annotations

import subprocess

import pytest

from tests.compat import corpus
from tests.toolchains import require

pytestmark = pytest.mark.all


def kcat(bootstrap: str, *arguments: str, standard_input: bytes = b"") -> bytes:
    require("kcat")
    done = subprocess.run(
        ["kcat", "-b", bootstrap, *arguments], input=standard_input, capture_output=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_a_hundred_thousand_lines_go_in_and_come_out_byte_for_byte(bootstrap: str, topic: str, codec: str) -> None:
    text = b"".join(line + b"\n" for line in corpus.lines())
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, standard_input=text)
    assert kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == text


def test_keys_headers_and_null_values_are_shown(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-K", ":", "-H", "a=1", "-Z", standard_input=b"k1:v1\nk2:\n")
    shown = kcat(bootstrap, "-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%k %s %S %h %o\n")
    assert shown == b"k1 v1 2 a=1 0\nk2  -1 a=1 1\n"


def test_the_cluster_is_listed(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, standard_input=b"x\n")
    listed = kcat(bootstrap, "-L", "-t", topic).decode()
    assert "1 brokers" in listed
    assert f'topic "{topic}" with 1 partitions' in listed
    assert "leader" in listed


def test_offsets_are_asked_by_time(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", standard_input=b"a\nb\n")
    assert kcat(bootstrap, "-Q", "-t", f"{topic}:0:0").decode().strip() == f"{topic} [0] offset 0"
