"""Where the time of one traced job went."""
