"""The load generator: clients, arrivals, replicas, windows."""
