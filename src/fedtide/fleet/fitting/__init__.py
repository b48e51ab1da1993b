"""From rounds to a model of the fleet."""
