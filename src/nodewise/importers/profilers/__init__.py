"""Readers of profiler files."""
