"""Transactions: the pure shard of the transaction coordinator.

``shard`` is one partition of ``__transaction_state``; ``transaction`` the fold of one transactional id's records and
its table of transitions; ``producers`` (InitProducerId), ``membership`` (partitions that join) and ``endings`` (EndTxn,
time-outs) decide; ``seeing`` describes and lists. Hosted by ``kbroker.coordinator``, which also writes the markers.
"""
