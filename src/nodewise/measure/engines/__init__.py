"""One small file an engine: how K workers of a command are started, watched and ended."""
