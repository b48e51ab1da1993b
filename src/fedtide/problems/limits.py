"""How large generated problems may be."""

MOST_CLIENTS = 1_000_000  # their data are drawn one client after the other
