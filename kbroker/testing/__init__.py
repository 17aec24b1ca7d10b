"""What users' tests import: ``Broker``, a broker of their own inside the test's process.

Nothing of the host process is touched: no signal, no logging handler, no environment variable, no event loop policy.
"""

from kbroker.testing.broker import Broker

__all__ = ["Broker"]
