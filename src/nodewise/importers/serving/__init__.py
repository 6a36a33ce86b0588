"""Readers of load-test results."""
