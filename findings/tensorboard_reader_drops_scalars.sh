#!/usr/bin/env bash
# tensorboard 2.21.0: `EventAccumulator` returns 10,000 of the 20,000 values of a scalar, so that the best may be missing.
#
# One expects: `Scalars("val/mAP")` returns all values that were written, as the file has them, so that their maximum is
#     the best validation.
# What happens: the reader keeps a random 10,000 of each tag, of images 4 and of histograms 1. The last value is always
#     among them. Of ten tags with 20,000 values, one of which is the best, three are read without their best.
# Why it matters: tables of "the best epoch" and figures of papers are made from event files by this class, and by
#     packages that call it. `size_guidance={"scalars": 0}` keeps all; it must be given when the reader is made.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet tensorboard==2.21.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON' 2>/dev/null
import tensorboard
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

print("tensorboard", tensorboard.__version__)
STEPS, TAGS = 20_000, 10
best_steps = {f"run {tag}/mAP": 1 + 997 * tag for tag in range(TAGS)}
with SummaryWriter("log") as writer:
    for step in range(STEPS):
        for tag, best in best_steps.items():
            writer.add_scalar(tag, 0.75 if step == best else 0.5, step)


def read(**options):
    """Return the number of values of one tag, and in how many tags the best value is among them."""
    reader = EventAccumulator("log", **options)
    reader.Reload()
    values = {tag: [event.value for event in reader.Scalars(tag)] for tag in best_steps}
    assert all(reader.Scalars(tag)[-1].step == STEPS - 1 for tag in best_steps)
    return len(values["run 0/mAP"]), sum(max(row) == 0.75 for row in values.values())


default, everything = read(), read(size_guidance={"scalars": 0})
print(f"by default: {default[0]} of {STEPS} values, the best in {default[1]} of {TAGS} tags")
print(f"size_guidance={{'scalars': 0}}: {everything[0]} values, the best in {everything[1]} of {TAGS} tags")

assert default[0] == 10_000 and default[1] < TAGS
assert everything == (STEPS, TAGS)
print("as described")
PYTHON
