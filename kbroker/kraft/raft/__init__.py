"""Raft: a pure core and the driver that gives it disk, clock and peers."""
