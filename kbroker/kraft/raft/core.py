"""The Raft core: a pure machine without clock, socket or disk."""
