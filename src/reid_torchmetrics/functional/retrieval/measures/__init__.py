"""From the ranks of positives to measures."""
