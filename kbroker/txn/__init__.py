"""Pure shards: transactions and producer ids."""
