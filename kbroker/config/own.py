"""kbroker's own keys. They begin with ``kbroker.`` and stand beside Kafka's in every file, variable and description."""

from __future__ import annotations

from kbroker.config.keys import Row

KEYS: tuple[Row, ...] = (
    ("kbroker.cluster.id", "STRING", None, "", "MEDIUM", "read-only", "", ""),
    ("kbroker.fsync", "BOOLEAN", "true", "", "HIGH", "read-only", "", ""),
    ("kbroker.internal.topics.clamp.replication", "BOOLEAN", "false", "", "MEDIUM", "read-only", "", ""),
    ("kbroker.log.level", "STRING", "INFO", "[DEBUG, INFO, WARNING, ERROR]", "MEDIUM", "read-only", "", ""),
    ("kbroker.open.files.max", "INT", "0", "[0,...]", "LOW", "read-only", "", ""),
    ("kbroker.record.validation", "STRING", "header", "[header, full]", "MEDIUM", "read-only", "", ""),
    ("kbroker.topics", "LIST", "", "", "MEDIUM", "read-only", "", "list"),
    ("kbroker.worker.threads", "INT", "4", "[1,...,64]", "LOW", "read-only", "", ""),
)
