"""How fast, how light, how flat: kbroker beside Apache Kafka and any other broker, measured in one interleaved run.

``python -m benchmarks`` (``make bench``); how to read its figures is in ``docs/performance.md``.
"""
