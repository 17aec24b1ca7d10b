"""A deterministic world for whole brokers: one seed, one run.

``loop`` (virtual time), ``network``, ``disk``, ``workers`` and ``host`` are the world; ``process`` is what can be
killed in it. ``client`` and ``actors`` are the workload, ``checkers`` the invariants, ``faults`` what the world does
to the broker, ``scenario`` a run of all of them. ``python -m tests.sim`` runs seeds.
"""
