"""Reports: the records as a table of numbers, and as one self-contained page."""

from fedtide.report.page import render, write
from fedtide.report.statistics import summary

__all__ = ["render", "summary", "write"]
