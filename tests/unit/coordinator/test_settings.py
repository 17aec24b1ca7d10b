"""Each key of groups and transactions reaches the setting that stands for it."""

from __future__ import annotations

import pytest

from kbroker.config import BrokerConfig
from kbroker.groups.settings import GroupSettings
from kbroker.txn.settings import TransactionSettings

GROUPS = {
    "group.min.session.timeout.ms": ("min_session_timeout_ms", 71),
    "group.max.session.timeout.ms": ("max_session_timeout_ms", 72),
    "group.initial.rebalance.delay.ms": ("initial_rebalance_delay_ms", 73),
    "group.max.size": ("max_size", 74),
    "offset.metadata.max.bytes": ("offset_metadata_max", 75),
    "offsets.retention.minutes": ("offsets_retention_ms", 76 * 60_000),
    "offsets.retention.check.interval.ms": ("retention_check_interval_ms", 77),
}
TRANSACTIONS = {
    "transaction.max.timeout.ms": ("max_timeout_ms", 71),
    "transactional.id.expiration.ms": ("id_expiration_ms", 72),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": ("abort_interval_ms", 73),
    "transaction.remove.expired.transaction.cleanup.interval.ms": ("expiry_interval_ms", 74),
}


@pytest.mark.parametrize("key", GROUPS)
def test_a_key_of_groups_is_one_setting(key: str) -> None:
    name, value = GROUPS[key]
    given = value // 60_000 if key.endswith("minutes") else value
    settings = GroupSettings.of(BrokerConfig({key: str(given)}))
    assert settings == GroupSettings()._replace(**{name: value})


@pytest.mark.parametrize("key", TRANSACTIONS)
def test_a_key_of_transactions_is_one_setting(key: str) -> None:
    name, value = TRANSACTIONS[key]
    settings = TransactionSettings.of(BrokerConfig({key: str(value)}), 2)
    assert settings == TransactionSettings()._replace(**{name: value})
