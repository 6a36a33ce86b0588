"""The round loop: order, warm-up, gate, collection, contention, provenance, resume."""
