"""Federations to try out and to run: processes, keys, app folders."""
