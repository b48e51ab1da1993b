"""Bounds of the papers, term by term, as printed and repaired."""
