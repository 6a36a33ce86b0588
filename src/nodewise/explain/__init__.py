"""From timings to speedup, laws and the causes of lost speedup."""
