"""What an append tells its caller."""

from __future__ import annotations

from typing import NamedTuple


class AppendInfo(NamedTuple):
    """What became of an append. A duplicate has the offsets and the time of the batch it repeats."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool = False
