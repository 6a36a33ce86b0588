"""Logs, job records and results that programs write anyway: one module for each family."""
