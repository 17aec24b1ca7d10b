"""The metadata image: the immutable fold of the metadata log, and what changed between two of them."""
