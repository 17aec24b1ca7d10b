"""The metadata quorum: Raft, the controller, the metadata image."""
