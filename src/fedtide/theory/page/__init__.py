"""The page of what theory predicts."""
