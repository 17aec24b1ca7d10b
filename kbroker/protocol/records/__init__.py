"""Record batches of format version 2 (KIP-98): read, build, patch, compress, validate. No I/O, no state.

``batch`` knows the 61-byte header, ``record`` what lies behind it, ``control`` the records that brokers write for
themselves, ``compression`` the codecs, ``validation`` what Kafka checks before a leader appends. Older formats (magic 0
and 1) are not read: Kafka 4 dropped them. Whatever the bytes are, only the exceptions of ``errors`` come out, and each
carries the code that Kafka answers.
"""
