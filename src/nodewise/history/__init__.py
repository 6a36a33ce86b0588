"""Studies of one job over time: a file of them, and whether the newest one is slower."""
