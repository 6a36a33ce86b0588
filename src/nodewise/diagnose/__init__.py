"""What limits one program on one node."""
