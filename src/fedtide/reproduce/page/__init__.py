"""The results page of a study."""
