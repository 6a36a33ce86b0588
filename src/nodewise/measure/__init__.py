"""Run a job at several scales: rounds, engines, collection, energy, provenance.

Warm-up steps are counted by the workload itself, in `nodewise.probe`.
"""
