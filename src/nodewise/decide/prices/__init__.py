"""Bills, price records, and the lists they come from."""
