"""What every room uses: errors, units, intervals, statistics."""
