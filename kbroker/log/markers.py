"""Reading the control records that end transactions (KIP-98): key (version, type), value (version, coordinator epoch)."""

from __future__ import annotations

import struct

from kbroker.log.producer_state import EndMarker
from kbroker.protocol.records.batch import ReadableBuffer, read_records

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT, _COMMIT = 0, 1
_CONTROL_BATCH_MAX = 1024 * 1024


def read_marker(batch: ReadableBuffer) -> EndMarker | None:
    """The marker in a control batch; None when it holds another control record, or none."""
    record = next(read_records(batch, max_decompressed=_CONTROL_BATCH_MAX), None)
    if record is None or record.key is None or len(record.key) < _KEY.size:
        return None
    _, kind = _KEY.unpack_from(record.key)
    if kind not in {_ABORT, _COMMIT} or record.value is None or len(record.value) < _VALUE.size:
        return None
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndMarker(kind == _COMMIT, coordinator_epoch, record.timestamp)
