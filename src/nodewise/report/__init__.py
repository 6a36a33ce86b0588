"""Findings and their views: text, tables, charts, the page. Views compute nothing."""
