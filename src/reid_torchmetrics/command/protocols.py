"""`protocols`: the conventions behind the name of a protocol, in words; a file holds them, so that no torch is needed.

`python -m tests.command.protocol_words` writes the file, and a test compares it with the protocols.
"""

from __future__ import annotations

import json
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from reid_torchmetrics import _hints

from .terminal import show

_FILE = "protocols.json"


def run(arguments: SimpleNamespace, _options: dict[str, Any]) -> int:
    """Print all names with their sources, or the conventions of some protocols; return the exit status.

    Raises:
        ValueError: There is no protocol of a name.
    """
    table = json.loads(files(__package__).joinpath(_FILE).read_text(encoding="utf-8"))
    if not arguments.names:
        show(table["list"])
        return 0
    descriptions: dict[str, str] = table["protocols"]
    for name in arguments.names:
        if name not in descriptions:
            names = _hints.listed(descriptions, near=name)
            hint = _hints.value_meant(name, descriptions)
            raise ValueError(f"`names` must be some of {names}; got {name!r}{hint}.")
    show("\n\n".join(descriptions[name] for name in arguments.names))
    return 0
