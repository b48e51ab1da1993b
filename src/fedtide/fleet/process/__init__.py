"""Availability processes of fitted fleets; importing this package adds `fleet` to the catalogue."""

from fedtide.availability.catalogue import CATALOGUE, ProcessEntry
from fedtide.fleet.process.fleet import Fleet, fleet

__all__ = ["Fleet", "fleet"]

CATALOGUE.add(
    ProcessEntry(
        "fleet",
        fleet,
        {
            "availability": [0.1, 0.5, 0.3, 0.4, 0.6, 0.9],
            "hours": [2.0, 6.0, 4.0, 2.0, 3.0, 1.5],
            "profile": [0.2] * 8 + [-0.3] * 8 + [0.1] * 8,
            "membership": [-1, -1, 0, 0, 1, 1],
            "coupling": [0.5, 0.3],
            "cluster_hours": [2.0, 1.0],
            "stays": [[0.5, 1.0, 4.0, 12.0], [0.4, 0.4, 0.2]],
            "absences": [[0.5, 2.0, 8.0, 24.0], [0.3, 0.4, 0.3]],
            "round_seconds": 3600,
        },
    )
)
