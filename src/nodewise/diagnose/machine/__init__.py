"""Probes of a node's ceilings: arithmetic, memory, disk, links, devices; and watching a program."""
