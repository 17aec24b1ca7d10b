"""``kbroker`` as a person types it, in this process."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner, Result

from kbroker.cli import cli


class Shell:
    """``kbroker`` with the broker's address."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.environment: dict[str, str] = {}

    def __call__(self, *arguments: str, text: str = "", status: int = 0) -> Result:
        # Whatever profiles the person has who runs the tests.
        environment = {"KBROKER_BROKERS": self.bootstrap, "XDG_CONFIG_HOME": "/nowhere", **self.environment}
        result = CliRunner().invoke(cli, arguments, input=text, env=environment)
        assert result.exit_code == status, (result.output, result.exception)
        return result

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--format", "json").stdout)
