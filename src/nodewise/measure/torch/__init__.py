"""Watch a torch training from inside its process, without a change to its script."""
