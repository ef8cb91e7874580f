"""Re-ranking and query expansion."""
