"""The command line: arguments to configuration to a running broker."""
