"""`duplicates`: near duplicates of embeddings in files, by `find_duplicates`, as a table of pairs (CSV)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from reid_torchmetrics import _arrays
from reid_torchmetrics.functional.retrieval import find_duplicates

from . import say
from .evaluate import name_bad_rows, read_sides
from .options import parsed


def run(words: Sequence[str]) -> int:
    """Print the pairs that the words of the command line ask for; return the exit status."""
    arguments, options = parsed("duplicates", words, labels=(), file_names=None, captions=None, stream=False)
    sides = read_sides(arguments)
    files = [file for side in sides.values() for file in side.files]
    if files[0].kind != "embeddings":
        raise ValueError(f"{files[0].path}: `query` must be embeddings; got {files[0].kind}.")
    of_sides = ([*_arrays.as_tensors(*(file.embeddings[:] for file in side.files))] for side in sides.values())
    given = [torch.cat(blocks) if len(blocks) > 1 else blocks[0] for blocks in of_sides]  # of one file stays mapped
    if len(given) == 1 and "roles" in (columns := sides["query"].columns):
        given = [given[0][torch.from_numpy(columns["roles"] == is_query)] for is_query in (True, False)]
    try:
        found = find_duplicates(*given, **options)
    except ValueError:
        name_bad_rows(files)
        raise
    pairs = zip(found.query.tolist(), found.gallery.tolist(), found.score.tolist(), strict=True)
    print("query,gallery,score", *(f"{query},{item},{score:.9g}" for query, item, score in pairs), sep="\n")  # noqa: T201
    groups, what = found.groups(), "items" if found.within else "queries"
    num_copied = sum(len(members) for members, _ in groups)
    say(f"pairs: {len(found)}, groups: {len(groups)}, {what} with a near copy: {num_copied} of {len(given[0])}")
    return 0
