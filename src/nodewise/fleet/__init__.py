"""Replicas of a server: load tests, latency limits, and how many replicas pay."""
