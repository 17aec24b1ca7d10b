"""One registry of every configuration key."""
