"""Emulated nodes on one machine."""
