"""Galleries that a protocol draws at random: exact expectations, and samples."""
