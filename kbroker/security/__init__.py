"""Principals, ACLs, SCRAM, quotas."""
