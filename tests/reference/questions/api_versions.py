"""ApiVersions: every version, features, names of clients, cluster and node that are expected."""

from __future__ import annotations

from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.metadata import MetadataRequest
from tests.reference.conversation import Conversation, question

SERVED = range(6)
SOFTWARE = (("name", "1.0"), ("", ""), ("a b", "1"), ("-a", "1"), ("a", "1-"), ("a.b-c", "1.2-3"), ("ü", "1"))


@question(SERVED)
def what_is_served(c: Conversation, version: int) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = c.ask(request, version, note=False)
    served = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    for key in (0, 1, 2, 3, 18, 19, 20, 22, 23, 32, 44, 60, 75):
        c.note(f"key {key}", served.get(key))
    if version >= 3:
        c.note("supported", sorted((f.name, f.min_version, f.max_version) for f in answer.supported_features))
        finalized = answer.finalized_features
        c.note("finalized", sorted((f.name, f.max_version_level, f.min_version_level) for f in finalized))
        c.note("zk", answer.zk_migration_ready)


@question(range(3, 6))
def names_of_client_software(c: Conversation, version: int) -> None:
    for name, number in SOFTWARE:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=number)
        answer = c.ask(request, version, note=False)
        c.note(f"{name} {number}", (answer.error_code, len(answer.api_keys) > 0))


@question(range(5, 6))
def clients_that_mean_some_cluster_and_node(c: Conversation, version: int) -> None:
    own = c.ask(MetadataRequest(topics=[]), 9, note=False).cluster_id
    for label, cluster_id in (("none", None), ("empty", ""), ("another", "another"), ("this", own)):
        for node_id in (-(2**31), -2, -1, 0, 1, 2, 2**31 - 1):
            for name in ("name", ""):
                request = ApiVersionsRequest(
                    client_software_name=name, client_software_version="1", cluster_id=cluster_id, node_id=node_id
                )
                answer = c.ask(request, version, note=False)
                c.note(f"cluster {label}, node {node_id}, {name}", (answer.error_code, len(answer.api_keys) > 0))


@question(range(3, 6))
def features_stand_in_the_order_of_a_map(c: Conversation, version: int) -> None:
    answer = c.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), version, note=False)
    c.note("supported", [each.name for each in answer.supported_features])
    c.note("finalized", [each.name for each in answer.finalized_features])
