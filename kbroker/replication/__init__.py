"""Partitions as replicas: leader and follower roles, ISR, high watermark."""
