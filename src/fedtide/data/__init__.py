"""Real data sets, offline first: found on this machine by name, read without trust, fetched on demand."""

from fedtide.data.base import DataSet
from fedtide.data.catalogue import CATALOGUE, Entry
from fedtide.data.fetching import fetch
from fedtide.data.loading import load
from fedtide.data.places import places, user_cache

__all__ = ["CATALOGUE", "DataSet", "Entry", "fetch", "load", "places", "user_cache"]
