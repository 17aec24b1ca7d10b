"""Generated declarations of the records and files that Kafka keeps."""
