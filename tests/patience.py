"""How long tests wait for what will surely come: far longer than any machine needs, however slow and busy it is.

Only a test that fails waits so long: there is nothing to be won by less. A test that wants to see that something does
not come, or takes its time, says itself how long it looks.
"""

from __future__ import annotations

PATIENCE_S = 60.0
