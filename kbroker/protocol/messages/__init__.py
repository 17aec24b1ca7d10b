"""Generated declarations of every Kafka message, one module per API."""
