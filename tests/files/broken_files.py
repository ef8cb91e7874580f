"""Files of results, and files that were made of them by hand."""

import json
import zipfile
from io import BytesIO

import numpy as np
import pytest

from reid_torchmetrics.functional.detection import DetectionResults


def reloaded(results, folder):
    return type(results).load(results.save(folder / "results.npz"))


def contents_of(results, folder) -> bytes:
    return results.save(folder / "whole").read_bytes()


def refused(contents: bytes, folder, kind=DetectionResults) -> str:
    """What is said of a file with these contents."""
    path = folder / "broken.npz"
    path.write_bytes(contents)
    with pytest.raises(ValueError, match=r"^`path` must be that of a file of ") as caught:
        kind.load(path)
    assert repr(str(path)) in str(caught.value)
    return str(caught.value)


def with_header(contents: bytes, change) -> bytes:
    """The file with another header."""
    file = BytesIO()
    with zipfile.ZipFile(BytesIO(contents)) as old, zipfile.ZipFile(file, "w") as new:
        for name in old.namelist():
            each = old.read(name)
            new.writestr(name, json.dumps(change(json.loads(each))) if name == "header.json" else each)
    return file.getvalue()


def parts_of(contents: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """The header and the arrays of a file."""
    with np.load(BytesIO(contents), allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "header.json"}
        return json.loads(archive["header.json"]), arrays


def file_of(header: dict, arrays: dict[str, np.ndarray]) -> bytes:
    file = BytesIO()
    np.savez(file, **arrays)
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("header.json", json.dumps(header))
    return file.getvalue()
