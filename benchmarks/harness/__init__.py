"""What the claims are measured with: problems, other evaluators, processes, clocks and memory."""
