"""Applications for computing time: what a centre asks for, and what a study says to it."""
