"""A client app for the problem in the configuration, such as `problem.name = "synthetic_leaf"`."""

from fedtide.adapters.flower.clients import client_of

app = client_of()
