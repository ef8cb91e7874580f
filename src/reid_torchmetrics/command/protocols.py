"""`protocols`: what the name of a protocol means, in words; they are in a file, so that no torch is needed.

`python -m tests.command.protocol_words` writes the file, and a test compares it with the protocols.
"""

from __future__ import annotations

import json
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from reid_torchmetrics import _hints

_FILE = "protocols.json"


def run(arguments: SimpleNamespace, _options: dict[str, Any]) -> int:
    """Print all names with their sources, or the conventions of some; return the exit status.

    Raises:
        ValueError: There is no protocol of a name.
    """
    table = json.loads(files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))
    words: dict[str, str] = table["protocols"]
    for name in arguments.names:
        if name not in words:
            names = ", ".join(map(repr, words))
            likely = _hints.value_meant(name, words)
            raise ValueError(f"`protocol` must be one of {names}; got {name!r}{likely}.")
    texts = [words[name] for name in arguments.names] if arguments.names else [table["list"]]
    print("\n\n".join(texts))  # noqa: T201
    return 0
