"""A server app for the problem in the configuration, such as `problem.name = "synthetic_leaf"`."""

from fedtide.adapters.flower.servers import server_of

app = server_of()
