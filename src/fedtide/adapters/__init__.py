"""Methods beyond the simulator: on real devices through Flower, on many machines through Ray."""
