"""What a row of a registry lacks, told at once."""

from collections.abc import Mapping


def assert_nothing_missing(name: str, found: Mapping[str, bool]) -> None:
    """Raise an AssertionError that lists what a row lacks, each with what to add; the keys say it of the row."""
    missing = [f"{name!r} {words}" for words, is_there in found.items() if not is_there]
    assert not missing, "\n".join(["", *missing])
