"""From explained timings and a question to the scale that pays."""
