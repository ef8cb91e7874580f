"""The table of results: one row for each claim, the newest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from harness import claims


def test_a_claim_that_is_seen_again_takes_the_place_of_its_row(tmp_path):
    table = tmp_path / "RESULTS.md"
    table.write_text("# Results\n\n" + f"| {' | '.join(claims.COLUMNS)} |\n" + "| --- " * 8 + "|\n", encoding="utf-8")
    seen = "1.3", "yes", "2 cores", "abc"
    for script, text, value, day in [
        ("b.py", "times", "1.0", "Monday"),
        ("a.py", "MB", "9.0", "Monday"),
        ("b.py", "times", "1.2", "Tuesday"),
    ]:
        claims.record(table, script, text, value, *seen, day)
    assert table.read_text(encoding="utf-8").splitlines()[4:] == [
        "| `a.py` | MB | 9.0 | 1.3 | yes | 2 cores | abc | Monday |",
        "| `b.py` | times | 1.2 | 1.3 | yes | 2 cores | abc | Tuesday |",
    ]
