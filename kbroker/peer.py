"""The inter-broker client: the wire protocol from a broker to another node."""
