"""A server app for the problem that the configuration names (`problem.name = "synthetic_leaf"`): nothing to write."""

from fedtide.adapters.flower.servers import server_of

app = server_of()
