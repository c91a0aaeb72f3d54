"""Long runs."""
