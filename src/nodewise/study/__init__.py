"""What is measured, what is asked, and what was recorded; the files it is stored in."""
