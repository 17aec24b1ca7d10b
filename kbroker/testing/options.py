"""What a broker is asked to be. Travels to the process that runs it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple


class Options(NamedTuple):
    """``log_level`` is that of the process that runs the broker, if that is its own."""

    topics: Mapping[str, int]
    configs: Mapping[str, str]
    data_dir: str | None = None
    port: int = 0
    log_level: int = logging.WARNING
