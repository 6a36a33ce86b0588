"""Readers of what other tools wrote: one file a format, bytes in, records out."""
