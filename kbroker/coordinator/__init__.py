"""The runtime that hosts coordinator shards."""
