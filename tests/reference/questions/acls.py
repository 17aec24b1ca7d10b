"""The ACL APIs of a broker without an authorizer."""

from __future__ import annotations

from typing import Any

from kbroker.protocol.messages.create_acls import CreateAclsRequest
from kbroker.protocol.messages.delete_acls import DeleteAclsRequest
from kbroker.protocol.messages.describe_acls import DescribeAclsRequest
from tests.reference.conversation import Conversation, question

SERVED = range(1, 4)
ANY, MATCH, LITERAL, ALL, TOPIC = 1, 2, 3, 2, 2


@question(SERVED)
def acls_without_an_authorizer(c: Conversation, version: int) -> None:
    creation = CreateAclsRequest.AclCreation(
        resource_type=TOPIC, resource_name="t", principal="User:x", host="*", operation=ALL, permission_type=3
    )
    c.ask(CreateAclsRequest(creations=[creation]), version)
    c.ask(CreateAclsRequest(creations=[creation, creation]), version)
    c.ask(CreateAclsRequest(creations=[]), version)
    everything = {"resource_type": ANY, "operation": ANY, "permission_type": ANY}
    described = DescribeAclsRequest(
        resource_type_filter=everything["resource_type"],
        resource_name_filter=None,
        pattern_type_filter=MATCH,
        principal_filter=None,
        host_filter=None,
        operation=everything["operation"],
        permission_type=everything["permission_type"],
    )
    c.ask(described, version)
    filters = DeleteAclsRequest.DeleteAclsFilter(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=MATCH,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    c.ask(DeleteAclsRequest(filters=[filters]), version)
    c.ask(DeleteAclsRequest(filters=[filters, filters]), version)
    c.ask(DeleteAclsRequest(filters=[]), version)


@question(SERVED)
def acls_of_unknown_types(c: Conversation, version: int) -> None:
    """What is unknown (0) is not even read; other numbers that nobody knows are."""
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        for number in (0, 1, 99):
            wanted: dict[str, Any] = {
                "resource_type": TOPIC,
                "resource_pattern_type": LITERAL,
                "operation": ALL,
                "permission_type": 3,
            }
            wanted[field] = number
            creation = CreateAclsRequest.AclCreation(resource_name="t", principal="User:x", host="*", **wanted)
            c.ask(CreateAclsRequest(creations=[creation]), version, label=f"create, {field} {number}")
            filtered: dict[str, Any] = {
                "resource_type_filter": wanted["resource_type"],
                "pattern_type_filter": wanted["resource_pattern_type"],
                "operation": wanted["operation"],
                "permission_type": wanted["permission_type"],
            }
            described = DescribeAclsRequest(resource_name_filter=None, **filtered)
            c.ask(described, version, label=f"describe, {field} {number}")
            deleted = DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**filtered)])
            c.ask(deleted, version, label=f"delete, {field} {number}")
