"""Runs a program of StableHLO text on the devices of several processes, under JAX's distributed runtime.

    python processes.py PROGRAM.mlir ARGUMENTS.npz RESULTS.npz [--processes 2] [--devices 2] [--steps 1]

`jit(f).mesh(mesh).stablehlo(args)` writes the program; its mesh has as many devices as all processes together. The files
hold the leaves of the trees of arguments and results, as `save_npz(path, &tree_leaves(&args))` writes them. From step to
step, the results become the first arguments.

Processes of one host are started by this command. On several hosts, start one process on each with its `--rank`, and
name the host of rank 0 with `--coordinator`. Needs JAX; it was run with JAX 0.10.2.
"""

import argparse
import subprocess
import sys

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("program")
parser.add_argument("arguments")
parser.add_argument("results")
parser.add_argument("--processes", type=int, default=2)
parser.add_argument("--devices", type=int, default=2, help="devices of each process, on CPUs")
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--rank", type=int)
parser.add_argument("--coordinator", default="localhost:9411")
o = parser.parse_args()
if o.rank is None:
    command = [sys.executable, *sys.argv, "--rank"]
    started = [subprocess.Popen([*command, str(rank)]) for rank in range(o.processes)]
    sys.exit(max(process.wait() for process in started))

import jax
import numpy
from jax._src.lib import xla_client
from jax._src.sharding_impls import GSPMDSharding, get_num_ways_dim_sharded
from jax.experimental.multihost_utils import process_allgather

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", o.devices)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(o.coordinator, o.processes, o.rank)
devices = jax.devices()
options = xla_client.CompileOptions()
options.num_replicas, options.num_partitions = 1, len(devices)
build = options.executable_build_options
build.num_replicas, build.num_partitions = 1, len(devices)
build.use_spmd_partitioning = build.use_shardy_partitioner = True
build.device_assignment = xla_client.DeviceAssignment.create(numpy.array([[d.id for d in devices]]))
with open(o.program) as file:
    program = devices[0].client.compile_and_load(file.read(), xla_client.DeviceList(tuple(devices)), options)
place = lambda shardings: [GSPMDSharding(devices, s) for s in shardings]
given = numpy.load(o.arguments)
arrays = []
for i, sharding in enumerate(place(program.get_parameter_shardings())):
    x = given[f"[{i}]"]
    arrays.append(jax.make_array_from_callback(x.shape, sharding, lambda index, x=x: x[index]))
shardings = place(program.get_output_shardings())
for _ in range(o.steps):
    parts = program.execute_sharded(arrays).disassemble_into_single_device_arrays()
    results = []
    for of_device, sharding in zip(parts, shardings):
        tiles, _ = get_num_ways_dim_sharded(sharding._hlo_sharding)
        shape = [n * k for n, k in zip(of_device[0].shape, tiles or [1] * of_device[0].ndim)]
        results.append(jax.make_array_from_single_device_arrays(tuple(shape), sharding, of_device))
    # The results of a step are the first arguments of the next one.
    arrays[: len(results)] = results
found = {f"[{i}]": process_allgather(x, tiled=True) for i, x in enumerate(results)}
if o.rank == 0:
    numpy.savez(o.results, **found)
