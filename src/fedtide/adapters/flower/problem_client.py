"""A client app for the problem that the configuration names (`problem.name = "synthetic_leaf"`): nothing to write."""

from fedtide.adapters.flower.clients import client_of

app = client_of()
