#!/usr/bin/env bash
# webdataset 1.0.2: images whose names differ behind a dot are one sample: of 40 frames 10 samples are left.
#
# One expects: "cam1_12.25.jpg" and "cam1_12.50.jpg" are two images, each a sample with the extension "jpg".
# What happens: a name ends at its first dot. Both are the sample "cam1_12", with the extensions "25.jpg" and "50.jpg".
#     Files that follow each other and have one key become one sample, and its number of entries tells nobody.
# Why it matters: times in seconds, versions and scales are written with a dot. A pipeline that asks for any image, by
#     `decode` or by an extension with a wildcard, takes one of each second: a gallery of a quarter of its images, without a
#     message. A dot in the name of a folder does no harm.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet webdataset==1.0.2 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import io
import tarfile
from importlib.metadata import version

import webdataset

print("webdataset", version("webdataset"))


def samples(name):
    """Return the samples of a file with 40 frames, four of each second."""
    with tarfile.open("frames.tar", "w") as file:
        for frame in range(40):
            content = str(frame).encode()
            entry = tarfile.TarInfo(name(frame // 4, 25 * (frame % 4)))
            entry.size = len(content)
            file.addfile(entry, io.BytesIO(content))
    return list(webdataset.WebDataset("frames.tar", shardshuffle=False))


with_dot = samples(lambda second, hundredth: f"cam1_{second:02}.{hundredth:02}.jpg")
without = samples(lambda second, hundredth: f"cam1_{second:02}_{hundredth:02}.jpg")
in_folder = samples(lambda second, hundredth: f"cam.1/{second:02}_{hundredth:02}.jpg")
print("names with a dot:", len(with_dot), "samples; the first:", [key for key in with_dot[0] if key[0] != "_"])
print("names without:", len(without), "samples; the first:", [key for key in without[0] if key[0] != "_"])
print("a dot in the folder:", len(in_folder), "samples")

assert len(with_dot) == 10 and {"00.jpg", "25.jpg", "50.jpg", "75.jpg"} <= set(with_dot[0])
assert len(without) == len(in_folder) == 40 and "jpg" in without[0]
print("as described")
PYTHON
