"""Charts as Vega-Lite definitions."""
