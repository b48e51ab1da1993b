"""The page of a fitted fleet."""
