"""What a test needs beyond Python, and the one rule about it.

In CI a missing toolchain is a failure; elsewhere the test is skipped and says what it lacks.
"""

from __future__ import annotations

import os
import shutil

import pytest

from tools import reference_kafka

EXECUTABLES = {
    "go": "Go",
    "node": "Node.js",
    "npm": "npm, Node's package manager",
    "kcat": "kcat",
    "cargo": "Rust",
    "mvn": "Maven",
}


def missing(toolchain: str) -> str | None:
    """What this machine lacks for ``toolchain`` (``java`` is the reference Kafka's), in words; None when nothing."""
    if toolchain == "java":
        return reference_kafka.missing_toolchain()
    if shutil.which(toolchain) is None:
        return f"{EXECUTABLES[toolchain]} (no `{toolchain}` on the PATH)"
    return None


def require(*toolchains: str) -> None:
    """Go on only where all of them are here."""
    lacking = [lack for lack in map(missing, toolchains) if lack]
    if not lacking:
        return
    message = f"needs {'; '.join(lacking)}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
