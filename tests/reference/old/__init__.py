"""The versions that Apache Kafka 4 dropped and kbroker serves, held against Apache Kafka 3.9."""
