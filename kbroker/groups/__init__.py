"""Pure shards: consumer groups and their offsets."""
