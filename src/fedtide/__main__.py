"""`python -m fedtide` is `fedtide`."""

from fedtide.cli import main

main()
