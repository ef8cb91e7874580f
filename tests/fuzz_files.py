"""Damaged files of every form but COCO's: `python -m tests.fuzz_files [documents of each form] [first seed]`.

Each document is a correct file, or a pair of them, that was damaged in one drawn way: a word is another one, is
missing, comes twice or changes places, a line is repeated, or the file ends early; in .npz, bytes are other ones; in
.npz and Parquet, an array is missing, or has another name, dtype or shape. The reader must return what a strict reading
of the damaged file gives, or raise an error that names it. `fuzz_coco_files` does so for COCO's files.

Not a part of the test suite, which runs some documents of it. It exits with 1 if a reader does something else.
"""

import argparse
import re
import sys
import tempfile
import warnings
from pathlib import Path
from random import Random
from typing import Any

from tests import file_forms
from tests.array_forms import ARRAY_FORMS
from tests.file_forms import Form, InvalidFileError, Texts

FORMS = {**file_forms.FORMS, **ARRAY_FORMS}
WORDS = (
    "",
    "nan",
    "inf",
    "-inf",
    "cat7",
    "-5",
    "1e400",
    "0x10",
    "1_0",
    "\u0661",
    "1,5",
    "True",
    "None",
    "0.5",
    "7",
    "-0",
    "1e3",
)


def damaged(texts: Texts, draw: Random, separator: str | None) -> tuple[Texts, str]:
    """The files with one change, and the path of the changed one."""
    path = draw.choice([path for path, text in texts.items() if text])
    change = draw.choice((with_other_words, with_other_words, with_other_lines, with_other_characters))
    return texts | {path: change(texts[path], draw, separator)}, path


def with_other_words(text: str, draw: Random, separator: str | None) -> str:
    """A word of a line is another one, is missing, is followed by another one or changes places."""
    rows = text.splitlines()
    place = draw.randrange(len(rows))
    words = rows[place].split(separator) if separator else re.split(r"(\s+|(?<=>)(?=\w)|(?=</))", rows[place])
    at, other = draw.choices([position for position, word in enumerate(words) if word.strip()], k=2)
    word = draw.choice(WORDS)
    changes = [
        {at: word},
        {at: ""},
        {at: f"{words[at]}{separator or ' '}{word}"},
        {at: words[at].replace(".", ",")},
        {at: words[other], other: words[at]},
    ]
    for position, changed in draw.choice([changes[0], *changes]).items():
        words[position] = changed
    rows[place] = (separator or "").join(words)
    return "".join(f"{row}\n" for row in rows)


def with_other_lines(text: str, draw: Random, _: str | None) -> str:
    """A line comes twice, is missing, or is joined by a blank one or a remark."""
    rows = text.splitlines()
    place = draw.randrange(len(rows))
    added = draw.choice((rows[place], rows[place], None, "   ", "# a remark", "x", "1 2 3", "{}"))
    if added is None:
        del rows[place]
    else:
        rows.insert(place, added)
    return "".join(f"{row}\n" for row in rows)


def with_other_characters(text: str, draw: Random, _: str | None) -> str:
    """The text ends early, has other breaks or blanks, or a character that no text has."""
    at = draw.randrange(len(text))
    changes = [f"{text[:at]}{added}{text[at:]}" for added in ("\0", "\n", "\u00a0", "\ufeff")]
    changes += [f"\ufeff{text}", text.replace(" ", "\t"), text.replace("\n", "\r\n")]
    return draw.choice([text[:at]] * 4 + changes)


def fault(form: Form, folder: Path, texts: Texts, path: str) -> str | None:
    """What is wrong with the outcome for damaged files; None for the right values or an error that names the file."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    try:
        expected = form.expect(texts)
    except InvalidFileError:
        expected = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values = form.read(folder)
    except (ValueError, TypeError) as error:
        message = str(error)
        names = (Path(path).name, Path(path).stem, str(folder), "`retrieved`", "`positives`")
        is_named = any(name in message for name in names)  # the last two by the evaluation
        return None if is_named and "\n" not in message else f"{type(error).__name__}: {message}"
    except Exception as error:  # noqa: BLE001 - what is looked for
        return f"{type(error).__name__}: {error}"
    if expected is None:
        return f"no error, but {values}"
    return None if agree(values, expected) else f"{values} for {expected}"


def agree(values: Any, expected: Any) -> bool:
    """Whether values are those that are expected, a mean up to its rounding."""
    return bool(abs(values - expected) < 1e-12 if isinstance(expected, float) else values == expected)


def run(name: str, number: int, seed: int, folder: Path) -> list[str]:
    """The faults of some documents of a form."""
    draw, form = Random(f"{name} {seed}"), FORMS[name]  # noqa: S311 - no secret
    faults = []
    for document in range(number):
        texts = form.write(draw)
        place = folder / f"{name}{document}"
        if document == 0:  # without damage
            found = fault(form, place / "whole", texts, next(iter(texts)))
            if found is not None or not agree(form.read(place / "whole"), form.expect(texts)):
                faults.append(f"{name}: {found or 'an error without damage'}")
        changed, path = damaged(texts, draw, form.separator) if form.damage is None else form.damage(texts, draw)
        found = fault(form, place, changed, path)
        if found is not None and form.damage is not None:
            faults.append(f"{name} {document} of seed {seed}: {found}"[:700])
        elif found is not None:
            lines_of_change = [f"{line!r}" for line in changed[path].split("\n") if line not in texts[path].split("\n")]
            faults.append(f"{name} {path} {' '.join(lines_of_change)[:200]}: {found}"[:700])
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("documents", nargs="?", type=int, default=100)
    parser.add_argument("seed", nargs="?", type=int, default=0)
    asked = parser.parse_args()
    faults = []
    for name in FORMS:
        with tempfile.TemporaryDirectory() as folder:
            faults += run(name, asked.documents, asked.seed, Path(folder))
    sys.stdout.write(f"{asked.documents:,} documents of {len(FORMS)} forms, {len(faults):,} faults\n")
    sys.stdout.write("".join(f"{line}\n" for line in faults[:60]))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
