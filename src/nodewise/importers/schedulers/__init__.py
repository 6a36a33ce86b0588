"""Readers of task records and scheduler logs."""
