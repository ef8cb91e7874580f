"""From embeddings, or scores, and labels to the ranks of positives, by counting."""
