"""The local page: every study below a folder, live while it is measured."""
