"""The composition root: builds, starts and stops every part of a broker. Wiring, no logic."""
