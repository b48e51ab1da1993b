"""Reports: the records of a run as a table, and as one self-contained HTML page."""

from fedtide.report.page import render, write
from fedtide.summaries import summary

__all__ = ["render", "summary", "write"]
