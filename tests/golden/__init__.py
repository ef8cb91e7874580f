"""Recorded outputs of other evaluators and labels of benchmarks; `README.md` says where each comes from."""
