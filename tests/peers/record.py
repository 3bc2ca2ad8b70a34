"""The rows `record_*` of the command `bench`, in PyTorch's eager mode: pip install torch, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json` does; times are medians. Arrays are f64, and PyTorch
uses one thread.
"""

import json
import resource
import time

import torch

torch.set_num_threads(1)


def walk(x):
    y = x
    for _ in range(250_000):
        y = (y * x).sin() + y * 0.5
    return y


run, pull = [], []
for _ in range(5):
    x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    start = time.perf_counter()
    y = walk(x)
    run.append(time.perf_counter() - start)
    start = time.perf_counter()
    y.backward()
    pull.append(time.perf_counter() - start)
run, pull = sorted(run)[2], sorted(pull)[2]
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
rows = {"s": run + pull, "run_s": run, "pull_s": pull, "peak_mib": peak}
for name, value in rows.items():
    unit = "MiB" if name == "peak_mib" else "s"
    print(json.dumps({"name": f"record_1e6_{name}", "value": value, "unit": unit}))
