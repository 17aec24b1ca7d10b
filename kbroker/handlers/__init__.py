"""One module per API, named after it, and the one table that lists them.

A handler module has a function ``handle(context, request)`` that returns the response, an awaitable of it when it
must wait (``kbroker.replies``), or None when there is nothing to answer (produce with acks=0). It may raise
``ApiError``, which the module's ``error_response(context, request, error)`` turns into an answer, or
``ConnectionMustCloseError``. The request's ``records`` are views into the receive buffer and die when ``handle``
returns.

What is not in the table is not served and not advertised. Modules are imported at the first request of their API.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from kbroker.protocol.apis import ApiKey


class Served:
    """One row: the handler's module and the versions it takes."""

    __slots__ = ("_loaded", "latest", "module", "oldest")

    def __init__(self, module: str, oldest: int, latest: int) -> None:
        self.module = module
        self.oldest = oldest
        self.latest = latest
        self._loaded: ModuleType | None = None

    def load(self) -> ModuleType:
        """The handler's module, imported when first asked for."""
        if self._loaded is None:
            self._loaded = import_module(f"{__name__}.{self.module}")
        return self._loaded


SERVED: dict[int, Served] = {
    ApiKey.PRODUCE: Served("produce", 0, 13),
    ApiKey.FETCH: Served("fetch", 0, 18),
    ApiKey.LIST_OFFSETS: Served("list_offsets", 0, 11),
    ApiKey.METADATA: Served("metadata", 0, 13),
    ApiKey.OFFSET_COMMIT: Served("offset_commit", 0, 10),
    ApiKey.OFFSET_FETCH: Served("offset_fetch", 0, 10),
    ApiKey.FIND_COORDINATOR: Served("find_coordinator", 0, 6),
    ApiKey.JOIN_GROUP: Served("join_group", 0, 9),
    ApiKey.HEARTBEAT: Served("heartbeat", 0, 4),
    ApiKey.LEAVE_GROUP: Served("leave_group", 0, 5),
    ApiKey.SYNC_GROUP: Served("sync_group", 0, 5),
    ApiKey.DESCRIBE_GROUPS: Served("describe_groups", 0, 6),
    ApiKey.LIST_GROUPS: Served("list_groups", 0, 5),
    ApiKey.SASL_HANDSHAKE: Served("sasl_handshake", 0, 1),
    ApiKey.API_VERSIONS: Served("api_versions", 0, 5),
    ApiKey.CREATE_TOPICS: Served("create_topics", 0, 7),
    ApiKey.DELETE_TOPICS: Served("delete_topics", 0, 6),
    ApiKey.DELETE_RECORDS: Served("delete_records", 0, 2),
    ApiKey.INIT_PRODUCER_ID: Served("init_producer_id", 0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Served("offset_for_leader_epoch", 0, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: Served("add_partitions_to_txn", 0, 5),
    ApiKey.ADD_OFFSETS_TO_TXN: Served("add_offsets_to_txn", 0, 4),
    ApiKey.END_TXN: Served("end_txn", 0, 5),
    ApiKey.WRITE_TXN_MARKERS: Served("write_txn_markers", 1, 2),
    ApiKey.TXN_OFFSET_COMMIT: Served("txn_offset_commit", 0, 6),
    ApiKey.DESCRIBE_ACLS: Served("describe_acls", 0, 3),
    ApiKey.CREATE_ACLS: Served("create_acls", 0, 3),
    ApiKey.DELETE_ACLS: Served("delete_acls", 0, 3),
    ApiKey.DESCRIBE_CONFIGS: Served("describe_configs", 0, 4),
    ApiKey.ALTER_CONFIGS: Served("alter_configs", 0, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Served("alter_replica_log_dirs", 0, 2),
    ApiKey.DESCRIBE_LOG_DIRS: Served("describe_log_dirs", 0, 5),
    ApiKey.SASL_AUTHENTICATE: Served("sasl_authenticate", 0, 2),
    ApiKey.CREATE_PARTITIONS: Served("create_partitions", 0, 3),
    ApiKey.CREATE_DELEGATION_TOKEN: Served("create_delegation_token", 1, 3),
    ApiKey.RENEW_DELEGATION_TOKEN: Served("renew_delegation_token", 1, 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Served("expire_delegation_token", 1, 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: Served("describe_delegation_token", 1, 3),
    ApiKey.DELETE_GROUPS: Served("delete_groups", 0, 3),
    ApiKey.ELECT_LEADERS: Served("elect_leaders", 0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Served("incremental_alter_configs", 0, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Served("alter_partition_reassignments", 0, 1),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Served("list_partition_reassignments", 0, 0),
    ApiKey.OFFSET_DELETE: Served("offset_delete", 0, 0),
    ApiKey.DESCRIBE_QUORUM: Served("describe_quorum", 0, 2),
    ApiKey.UPDATE_FEATURES: Served("update_features", 0, 2),
    ApiKey.DESCRIBE_CLUSTER: Served("describe_cluster", 0, 2),
    ApiKey.DESCRIBE_PRODUCERS: Served("describe_producers", 0, 0),
    ApiKey.UNREGISTER_BROKER: Served("unregister_broker", 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: Served("describe_transactions", 0, 0),
    ApiKey.LIST_TRANSACTIONS: Served("list_transactions", 0, 2),
    ApiKey.LIST_CONFIG_RESOURCES: Served("list_config_resources", 0, 1),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: Served("describe_topic_partitions", 0, 0),
    ApiKey.ADD_RAFT_VOTER: Served("add_raft_voter", 0, 1),
    ApiKey.REMOVE_RAFT_VOTER: Served("remove_raft_voter", 0, 0),
}
"""Every API served, in the order of the keys (an ``ApiKey`` is an int: the raw key of a header finds its row)."""
