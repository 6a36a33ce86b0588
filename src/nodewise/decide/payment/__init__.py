"""Ways to pay: on demand, spot, owned, committed."""
