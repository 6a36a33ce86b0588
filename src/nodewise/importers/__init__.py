"""Readers of what other tools wrote: one registry, each format detected by its content."""
