"""Rules for a scaling claim, and what a study answers to them."""
