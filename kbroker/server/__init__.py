"""Sockets: listeners, connections, framing, back-pressure, dispatch."""
