"""The page of a recommendation."""
