"""A training job on paper: cost and time before any run."""
