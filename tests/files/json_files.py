"""Files of JSON."""

import json
from pathlib import Path


def write_json(folder: Path, **contents: object) -> list[str]:
    """The paths of files with some names and contents."""
    paths = [folder / f"{name}.json" for name in contents]
    for path, content in zip(paths, contents.values(), strict=True):
        path.write_text(json.dumps(content), encoding="utf-8")
    return [*map(str, paths)]
