"""Kafka's wire protocol: declarations, codec, errors, record batches. No I/O, no state."""
