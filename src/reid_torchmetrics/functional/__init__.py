"""The functional layer: torch and arithmetic only, no state, no process groups."""
