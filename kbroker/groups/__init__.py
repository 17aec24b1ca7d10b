"""Pure shards of groups and committed offsets: requests and timers in, records and replies out."""
