"""Stateful metrics: the only part that knows TorchMetrics and process groups."""
