"""The commands: each reads, computes and writes. No arithmetic here."""
