"""SASL and delegation tokens on a listener that has neither; ACLs without an authorizer are in ``acls``."""

from __future__ import annotations

from kbroker.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kbroker.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from kbroker.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kbroker.protocol.messages.list_groups import ListGroupsRequest
from kbroker.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from kbroker.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kbroker.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.reference.conversation import Conversation, question


@question(range(3))
def authentication_where_there_is_none(c: Conversation, version: int) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "", "nonsense"):
        c.ask(SaslHandshakeRequest(mechanism=mechanism), min(version, 1), label=mechanism)
    for token in (b"", b"\0user\0password"):
        c.ask(SaslAuthenticateRequest(auth_bytes=token), version)
    answer = c.ask(ListGroupsRequest(), 4, note=False)
    c.note("the connection goes on", answer.error_code)


@question(range(1, 4))
def delegation_tokens_of_nobody(c: Conversation, version: int) -> None:
    renewer = CreateDelegationTokenRequest.CreatableRenewers(principal_type="User", principal_name="ann")
    for lifetime_ms in (-1, 1000):
        c.ask(CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=lifetime_ms), version)
    if version >= 3:
        for kind, name in (("User", "bob"), ("User", ""), ("Group", "bob"), ("User", None), (None, None)):
            owned = CreateDelegationTokenRequest(owner_principal_type=kind, owner_principal_name=name)
            c.ask(owned, version, label=f"owner {kind} {name}")
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(principal_type="User", principal_name="ann")
    for owners in (None, [], [owner]):
        c.ask(DescribeDelegationTokenRequest(owners=owners), version)
    if version <= 2:
        for hmac in (b"", b"x"):
            c.ask(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=1000), version)
            c.ask(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1), version)
