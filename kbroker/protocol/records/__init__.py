"""Records as bytes: read, build, patch, compress, validate and convert batches. No I/O, no state.

A log holds batches of format version 2 (KIP-98): ``batch`` knows their header and records, ``control`` the records that
brokers write for themselves, ``compression`` the codecs, ``validation`` what Kafka checks before a leader appends, and
``sieve`` makes what compaction leaves of a batch. Old clients' formats, magic 0 and 1, are ``legacy``; ``conversion``
goes from them to version 2 and back. Whatever the bytes are, only the exceptions of ``errors`` come out, and each
carries the code that Kafka answers.
"""
