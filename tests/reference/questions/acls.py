"""The ACL APIs of a broker without an authorizer."""

from __future__ import annotations

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
