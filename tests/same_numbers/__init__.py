"""A comparison of all numbers with those of an earlier commit: `python -m tests.same_numbers REVISION`.

A problem is plain data: the name of a public function or class, its arguments, and questions to its result. Two
processes draw the same problems from their seeds with this code, and each solves them with the package of one checkout.
A name that only one checkout has is a difference like any other.
"""
