"""Applications for computing time: what a centre requires, and how a study meets it."""
