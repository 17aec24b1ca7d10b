"""``python -m kbroker`` and the ``kbroker`` command."""
