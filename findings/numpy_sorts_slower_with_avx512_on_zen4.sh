#!/usr/bin/env bash
# NumPy 2.4.6: on a processor of AMD's Zen 4, sorting with AVX-512 takes three to seven times as long as without it.
#
# One expects: NumPy chooses the widest instructions of a processor, as these are the fastest: `sort` and `argsort` with
#     AVX-512 are about twice as fast as with AVX2 on other processors.
# What happens: Zen 4 writes the elements that a comparison selects to memory much more slowly than Zen 5 and Intel's
#     processors do, and the sort of AVX-512 consists of such writes. `np.sort` of 50,000 float32 takes 1.5 ms, and 0.2 ms
#     if AVX-512 is switched off by NPY_DISABLE_CPU_FEATURES; `np.argsort` 2.9 ms and 0.8 ms.
# Why it matters: evaluators sort each row of a matrix of distances by `np.argsort`. Their time on a server of Zen 4
#     (EPYC 9004) is three times what a variable of the environment makes of it, and a comparison of evaluators there says
#     nothing of other servers. Ranks of tied scores change with the instructions, too.
#
# On other processors the script measures the same and asserts nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet numpy==2.4.6
cat > "$folder/measure.py" <<'PYTHON'
import json
import time

import numpy as np

scores = np.random.default_rng(0).normal(size=50_000).astype("float32")
milliseconds = {}
for name, sort in {"sort": np.sort, "argsort": np.argsort}.items():
    seconds = []
    for _ in range(100):
        start = time.process_time_ns()
        sort(scores)
        seconds.append(time.process_time_ns() - start)
    milliseconds[name] = sorted(seconds)[50] / 1e6
print(json.dumps(milliseconds))
PYTHON
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

cpu = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
family, model = (int((re.findall(rf"^{name}\s*: (\d+)", cpu, re.MULTILINE) or [0])[0]) for name in ("cpu family", "model"))
is_zen_4 = "AuthenticAMD" in cpu and family == 25 and (16 <= model <= 31 or 96 <= model <= 127 or 160 <= model <= 175)
is_zen_4 = is_zen_4 and "avx512f" in cpu
print("NumPy", np.__version__, f"on family {family}, model {model}: {'' if is_zen_4 else 'not '}Zen 4 with AVX-512")


def measure(switched_off):
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": switched_off}
    output = subprocess.run([sys.executable, "measure.py"], env=environment, stdout=subprocess.PIPE, check=True).stdout
    return json.loads(output)


found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
avx_512 = [name for name in found if name == "X86_V4" or name.startswith("AVX512")]
with_it, without = measure(""), measure(" ".join(avx_512))
for name in with_it:
    print(f"np.{name} of 50,000 float32: {with_it[name]:.2f} ms; without {avx_512}: {without[name]:.2f} ms")
if is_zen_4:
    assert with_it["sort"] > 2 * without["sort"]
    assert with_it["argsort"] > 1.5 * without["argsort"]
    print("as described")
PYTHON
