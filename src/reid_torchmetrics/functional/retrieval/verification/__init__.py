"""Verification: all pairs of query and gallery item together."""
