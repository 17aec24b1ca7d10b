"""Every example of docs/testing.md runs as it stands, but for those that show how it was before."""

from __future__ import annotations

import re

import pytest

from tests.unit.testing.plugin_runs import ARGUMENTS, PYTHONPATH, ROOT

pytest_plugins = ["pytester"]

BEFORE = "# before\n"


def test_the_examples_of_the_documentation_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    pytester.makeini(
        f"[pytest]\naddopts = {ARGUMENTS} -p no:cacheprovider -p no:xdist\nfilterwarnings =\n  error\n"
        "  ignore:(read_text|open_text|contents) is deprecated:DeprecationWarning\n"
    )
    text = (ROOT / "docs" / "testing.md").read_text()
    examples = [each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if not each.startswith(BEFORE)]
    count = 0
    for number, example in enumerate(examples, 1):
        tests = len(re.findall(r"^def test_", example, re.MULTILINE))
        assert tests, f"an example without a test: {example}"
        count += tests
        (pytester.path / f"test_example_{number:02}.py").write_text(example)
    pytester.runpytest_subprocess("--timeout=120", timeout=270).assert_outcomes(passed=count)
