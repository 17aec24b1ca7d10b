"""Reading the control records that end transactions (KIP-98)."""

from __future__ import annotations

from kbroker.log.producer_state import EndMarker
from kbroker.protocol.records.batch import read_records
from kbroker.protocol.records.compression import ReadableBuffer
from kbroker.protocol.records.control import ControlRecordType, read_end_transaction_marker

_CONTROL_BATCH_MAX = 1024 * 1024


def read_marker(batch: ReadableBuffer) -> EndMarker | None:
    """The marker in a control batch; None when it holds another control record, or none."""
    record = next(read_records(batch, max_decompressed=_CONTROL_BATCH_MAX), None)
    marker = None if record is None else read_end_transaction_marker(record)
    if record is None or marker is None:
        return None
    return EndMarker(marker.type is ControlRecordType.COMMIT, marker.coordinator_epoch, record.timestamp)
