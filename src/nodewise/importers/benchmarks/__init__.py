"""Readers of benchmark results."""
