"""The page: one HTML file with the study inside."""
