"""The report's figures."""

from fedtide.report.classes import by_class, class_accuracy, importance
from fedtide.report.curves import learning, objective
from fedtide.report.maps import available, included
from fedtide.report.picture import Picture

__all__ = ["Picture", "available", "by_class", "class_accuracy", "importance", "included", "learning", "objective"]
