#!/usr/bin/env bash
# accelerate 1.15.0: with two data loaders side by side, `gather_for_metrics` cuts the batches of both by one of them.
#
# One expects: `gather_for_metrics` removes the samples that fill up the last batches, so that every sample comes once.
# What happens: it does not know from which loader a batch is. It cuts by the loader whose iteration began last, at the end
#     of that one. Of `zip(queries, gallery)` the queries are cut as the gallery is: with two processes and batches of 8, of
#     110 queries beside a gallery of 100 ten are lost, and of 100 queries beside a gallery of 110 ten come twice.
# Why it matters: pairs of loaders, for queries and gallery or for texts and images, are common in a validation of
#     retrieval. The numbers are those of other samples, without a message. Read one loader after the other, or gather the
#     positions of the samples, too, and keep each position once.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet accelerate==1.15.0 numpy==2.4.6
cd "$folder"
cat > gather.py <<'PYTHON'
import os
from importlib.metadata import version

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from accelerate import Accelerator
from torch.utils.data import DataLoader


def gather_each(process, port, sizes, side_by_side, queue):
    """Put the number of gathered and of different samples of each of two loaders, by the first of two processes."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"RANK": str(process), "LOCAL_RANK": str(process), "WORLD_SIZE": "2"}
    accelerator = Accelerator(cpu=True)
    loaders = [accelerator.prepare(DataLoader(list(range(size)), batch_size=8)) for size in sizes]
    gathered = [[], []]
    if side_by_side:
        for pair in zip(*loaders):
            for batches, batch in zip(gathered, pair):
                batches.append(accelerator.gather_for_metrics(batch))
    else:
        for batches, loader in zip(gathered, loaders):
            batches += [accelerator.gather_for_metrics(batch) for batch in loader]
    if process == 0:
        samples = [torch.cat(batches).tolist() for batches in gathered]
        queue.put([(len(numbers), len(set(numbers))) for numbers in samples])
    dist.barrier()
    dist.destroy_process_group()


def gathered_of(port, *sizes, side_by_side=True):
    context = mp.get_context("spawn")
    queue = context.Queue()
    arguments = [(process, port, sizes, side_by_side, queue) for process in range(2)]
    processes = [context.Process(target=gather_each, args=args) for args in arguments]
    for process in processes:
        process.start()
    found = queue.get(timeout=300)
    for process in processes:
        process.join()
    return found


if __name__ == "__main__":
    print("accelerate", version("accelerate"))
    in_turn = gathered_of(29630, 110, 100, side_by_side=False)
    lost = gathered_of(29631, 110, 100)
    repeated = gathered_of(29632, 100, 110)
    text = "{}: {} of {} queries gathered, {} of them different; {} of {} gallery items gathered, {} of them different"
    for title, sizes, found in (
        ("in turn", (110, 100), in_turn),
        ("side by side", (110, 100), lost),
        ("side by side", (100, 110), repeated),
    ):
        (queries, gallery) = found
        print(text.format(title, queries[0], sizes[0], queries[1], gallery[0], sizes[1], gallery[1]))

    assert in_turn == [(110, 110), (100, 100)]
    assert lost == [(100, 100), (100, 100)]
    assert repeated == [(110, 100), (110, 110)]
    print("as described")
PYTHON
"$folder/env/bin/python" gather.py 2> errors.txt || { cat errors.txt; exit 1; }
