"""What the command `protocols` prints, of the protocols themselves: `python -m tests.command.protocol_words` writes it.

The command reads the file, and so needs no torch; a test compares both.
"""

import json
from pathlib import Path

import reid_torchmetrics
from reid_torchmetrics.functional.model_tables import aligned, in_prose, split_conventions
from reid_torchmetrics.functional.retrieval import PROTOCOLS, Protocol
from reid_torchmetrics.functional.retrieval.evaluation import Setup, describe

FILE = Path(reid_torchmetrics.__file__).parent / "command" / "protocols.json"


def in_words(protocol: Protocol) -> str:
    """The source of a protocol, and the convention of each number that it reports."""
    setup = Setup("pessimistic", "cosine", cameras=True, lists=protocol.needs_lists, groups=protocol.needs_groups)
    conventions = {name: in_prose(describe(name, protocol, setup)) for name in protocol.reports}
    alone, shared = split_conventions(conventions) if len(conventions) > 1 else (conventions, "")
    rows = [f"  {name:<12} {words}" for name, words in alone.items()]
    return "\n".join([protocol.name, f"  {protocol.source}", *rows, *([f"  {shared}"] if shared else [])])


def contents() -> str:
    """The text of the file."""
    short = aligned([(name, protocol.source) for name, protocol in PROTOCOLS.items()], num_left=2)
    table = {"list": "\n".join(short), "protocols": {name: in_words(each) for name, each in PROTOCOLS.items()}}
    return json.dumps(table, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(contents(), encoding="utf-8")
