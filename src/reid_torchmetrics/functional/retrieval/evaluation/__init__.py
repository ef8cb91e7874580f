"""Protocols, one call, and results."""
