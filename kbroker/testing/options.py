"""What a broker is asked to be. Travels to the process that runs it."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import NamedTuple


class Options(NamedTuple):
    """``log_level`` is that of the process that runs the broker, if that is its own."""

    topics: Mapping[str, int]
    configs: Mapping[str, str]
    data_dir: str | None = None
    port: int = 0
    log_level: int = logging.WARNING

    def log_dirs(self, data_dir: str) -> list[str]:
        """Where the logs lie in a data directory: there itself, or where ``log.dirs`` says, seen from there."""
        named = self.configs.get("log.dirs") or self.configs.get("log.dir")
        if not named:
            return [data_dir]
        return [os.path.join(data_dir, each.strip()) for each in named.split(",")]

    @property
    def chosen_place(self) -> str | None:
        """The option that says where the data lies, when the test chose the place: a broker cannot leave it."""
        if self.data_dir is not None:
            return "data_dir"
        return "log.dirs" if any(map(os.path.isabs, self.log_dirs("."))) else None
