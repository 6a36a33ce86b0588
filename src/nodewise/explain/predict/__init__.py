"""Fitted curves of time against node count, and what they predict."""
