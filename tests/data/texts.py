"""Texts in files."""

from pathlib import Path


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8", newline="")
    return path


def write(folder: Path, name: str, *lines: str) -> None:
    written(folder / name, "\n".join(lines))
