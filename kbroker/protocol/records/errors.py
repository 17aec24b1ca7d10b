"""What may be wrong with record batches, each with the code that Kafka answers."""

from __future__ import annotations

from collections.abc import Sequence

from kbroker.protocol.errors import ApiError, ErrorCode


class CorruptRecordError(ApiError):
    """Bytes that are no batch, or whose CRC is wrong (Kafka's ``CorruptRecordException``)."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class InvalidRecordError(ApiError):
    """A whole batch that breaks a rule (Kafka's ``InvalidRecordException``)."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, message)


class PrematureEndError(InvalidRecordError):
    """The data ends inside of a record."""


class DecompressionError(ApiError):
    """An unknown codec, or data that its codec does not accept. Kafka has no code of its own for it.

    ``before`` is what a reader has read when it comes to what is wrong, where only the end of the data is.
    """

    def __init__(self, message: str, before: bytes = b"") -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, message)
        self.before = before


class DecompressedTooLargeError(InvalidRecordError):
    """The data would grow past the limit: ``max.decompressed.message.bytes``, or the one that a caller set."""


class RecordValidationError(ApiError):
    """Some records of a batch are refused, each with its index in the batch and a reason (KIP-467)."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str | None]]) -> None:
        super().__init__(code, message)
        self.record_errors = list(record_errors)
