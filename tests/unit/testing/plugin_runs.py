"""What runs of pytest within a test need to find the plugin: nothing where kbroker is installed."""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from pathlib import Path

ARGUMENTS = "" if entry_points(group="pytest11", name="kbroker") else "-p kbroker.testing.plugin"

ROOT = Path(__file__).parents[3]
PYTHONPATH = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
