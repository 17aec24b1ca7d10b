"""One partition on disk, in Apache Kafka's formats."""
