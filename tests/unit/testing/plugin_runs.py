"""What runs of pytest within a test need to find the plugin: nothing where kbroker is installed."""

from __future__ import annotations

from importlib.metadata import entry_points

ARGUMENTS = "" if entry_points(group="pytest11", name="kbroker") else "-p kbroker.testing.plugin"
