"""The controller: pure functions from a request to metadata records."""
