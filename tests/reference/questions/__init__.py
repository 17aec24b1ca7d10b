"""Every question of the comparison, by API. Importing a module registers its questions."""

from __future__ import annotations

from importlib import import_module

from tests.reference.conversation import QUESTIONS

for module in (
    "acls",
    "api_versions",
    "broker_configs",
    "compressed_payloads",
    "configs",
    "create_partitions",
    "create_topics",
    "delete_records",
    "delete_topics",
    "describe_cluster",
    "describe_configs",
    "describe_producers",
    "describe_topic_partitions",
    "elect_leaders",
    "ending_transactions",
    "fetch",
    "find_coordinator",
    "group_admin",
    "group_offsets",
    "group_states",
    "groups",
    "static_members",
    "incremental_alter_configs",
    "init_producer_id",
    "late_members",
    "list_offsets",
    "log_dirs",
    "metadata",
    "no_security",
    "offset_for_leader_epoch",
    "produce",
    "quorum",
    "record_structures",
    "records",
    "reassignments",
    "socket",
    "strange_configs",
    "strange_groups",
    "strange_transactions",
    "transactional_offsets",
    "transactional_writes",
    "transactions",
    "transaction_versions",
):
    import_module(f"{__name__}.{module}")

__all__ = ["QUESTIONS"]
