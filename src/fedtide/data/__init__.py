"""Real data sets: found on this machine by name, validated when read, downloaded on request."""

from fedtide.data.base import DataSet
from fedtide.data.catalogue import CATALOGUE, DataSpec
from fedtide.data.fetching import fetch
from fedtide.data.loading import load
from fedtide.data.places import places, user_cache

__all__ = ["CATALOGUE", "DataSet", "DataSpec", "fetch", "load", "places", "user_cache"]
