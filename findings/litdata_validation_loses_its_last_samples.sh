#!/usr/bin/env bash
# litdata 0.2.76: on several processes a `StreamingDataset` drops the samples that do not fill a batch on each of them.
#
# One expects: a data set without `drop_last` has all samples, also under DDP, perhaps some of them twice, as the
#     `DistributedSampler` of torch pads by default, and as `StreamingDataset` itself has all of them on one process.
# What happens: `drop_last=None` becomes True as soon as there is more than one process. Each process then has a whole
#     number of batches, so that up to a batch per process is missing: of 1,000 samples 512 are left on four processes
#     with batches of 128. Lengths agree with it, and nothing says so.
# Why it matters: a validation on more processes, or with larger batches, is another validation: the last identities of a
#     gallery have no samples. With `drop_last=False` all 1,000 are there.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install --quiet torch==2.13.0
"$folder/env/bin/pip" install --quiet litdata==0.2.76 numpy==2.4.6
cd "$folder"
cat > count.py <<'PYTHON'
import os
from importlib.metadata import version

import torch.distributed as dist
import torch.multiprocessing as mp
from litdata import StreamingDataLoader, StreamingDataset, optimize

BATCH_SIZE = 128


def sample_of(number):
    return {"index": number}


def read(process, num_processes, port, drop_last, queue):
    """Put the length of the data set on a process, and the samples that it yields."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=process, world_size=num_processes)
    data_set = StreamingDataset("samples", shuffle=False, drop_last=drop_last)
    batches = StreamingDataLoader(data_set, batch_size=BATCH_SIZE)
    queue.put((len(data_set), [int(number) for batch in batches for number in batch["index"]]))
    dist.destroy_process_group()


def samples_on(num_processes, port, drop_last=None):
    """Return the sum of the lengths, and the different samples of all processes."""
    context = mp.get_context("spawn")
    queue = context.Queue()
    arguments = [(process, num_processes, port, drop_last, queue) for process in range(num_processes)]
    processes = [context.Process(target=read, args=args) for args in arguments]
    for process in processes:
        process.start()
    results = [queue.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    return sum(length for length, _ in results), len({number for _, numbers in results for number in numbers})


if __name__ == "__main__":
    print("litdata", version("litdata"))
    optimize(fn=sample_of, inputs=list(range(1000)), output_dir="samples", num_workers=1, chunk_size=50)
    found = {}
    for place, num_processes in enumerate((1, 2, 4)):
        found[num_processes] = samples_on(num_processes, 29610 + place)
        print(f"{num_processes} process(es): {found[num_processes][1]} of 1000 samples")
    complete = samples_on(4, 29620, drop_last=False)
    print(f"4 processes, drop_last=False: {complete[1]} of 1000 samples")

    assert found == {1: (1000, 1000), 2: (768, 768), 4: (512, 512)}
    assert complete == (1000, 1000)
    print("as described")
PYTHON
"$folder/env/bin/python" count.py 2> errors.txt | grep -E "^(litdata|[124] process|as described)" || { cat errors.txt; exit 1; }
