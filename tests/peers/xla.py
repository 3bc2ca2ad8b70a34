"""The rows `xla_*` of the command `bench` in JAX, on the same plugin of XLA: pip install jax, set TAPELOOM_PJRT_PLUGIN to
the library of a plugin for CPUs, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json xla` does; times are medians. Words on the command line
choose rows by a part of their names. `--beside COMMAND` runs `COMMAND --json xla ROW` between two measurements of each row,
and prints the time of tapeloom's program divided by the mean time of JAX's, which runs in this process:

    taskset -c 0 python tests/peers/xla.py --beside target/release/bench

Both compile for a client with one device, and the library sees one core.
"""

import json
import os
import sys
import time

PLUGIN = os.environ.get("TAPELOOM_PJRT_PLUGIN")
if not PLUGIN:
    sys.exit("no rows, because TAPELOOM_PJRT_PLUGIN is not set")
os.environ["JAX_PLATFORMS"] = "plugin"

from jax._src import xla_bridge

xla_bridge.register_plugin("plugin", library_path=PLUGIN, options={"cpu_device_count": 1})

import jax
import jax.numpy as jnp
import numpy as np
from beside import arguments as options
from beside import ours
from jax import lax

import transformer
from threads import likelihood, stencil

jax.config.update("jax_enable_x64", True)


def f64s(*shape):
    k = np.arange(np.prod(shape), dtype=np.int64)
    return jnp.asarray((((k * 7919) % 10_007) / 10_007.0 - 0.5).reshape(shape))


def mixture(n, d, k):
    return [f64s(*shape) for shape in [(k,), (k, d), (k, d), (k, d * (d - 1) // 2), (n, d)]]


def heat_gradient(u, conductivity):
    def after(u, conductivity):
        def step(_, u):
            centre = u[1:-1, 1:-1]
            around = u[:-2, 1:-1] + u[2:, 1:-1] + (u[1:-1, :-2] + u[1:-1, 2:])
            return jnp.pad(centre + conductivity * (around - 4 * centre), 1)

        return (lax.fori_loop(0, 50, step, u) ** 2).mean()

    return jax.value_and_grad(after, (0, 1))(u, conductivity)


def convolution(x, w):
    def loss(w):
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return (y * y).mean()

    return jax.value_and_grad(loss)(w)


def rows():
    """Yields name, size, program and a function that returns the arguments."""
    for size in [(100, 2, 5), (1000, 10, 25), (1000, 32, 25), (10_000, 10, 25)]:
        yield "gmm", size, jax.value_and_grad(likelihood, (0, 1, 2, 3)), lambda size=size: mixture(*size)
    for name, dtype in [("transformer", np.float64), ("transformer_f32", np.float32)]:
        for size in [(2, 16, 32, 4, 1), (8, 32, 64, 4, 2), (4, 128, 256, 8, 1)]:
            batch, tokens, width, heads, blocks = size
            step = jax.value_and_grad(lambda b, x, heads=heads: transformer.loss(heads, b, x))
            given = (batch, tokens, width, blocks, dtype)
            yield name, size, step, lambda given=given: transformer.data(*given)
    for n in [32, 128, 512]:
        yield "heat", (n,), stencil, lambda n=n: [f64s(n, n)]
    for n in [32, 128, 256]:
        yield "heat_gradient", (n,), heat_gradient, lambda n=n: [f64s(n, n), jnp.float64(0.2)]
    for size in [(1000, 1000), (1_000_000, 1)]:
        yield "cumsum", size, lambda x: jnp.cumsum(x, 0), lambda size=size: [f64s(*size)]
    for n in [1000, 100_000]:
        at = lambda n: jnp.asarray((np.arange(n, dtype=np.int64) * 7919) % (n // 10))
        add = lambda x, v, at: x.at[at].add(v)
        yield "scatter", (n,), add, lambda n=n: [f64s(n // 10), f64s(n), at(n)]
    for n, width, channels in [(4, 16, 8), (16, 32, 16)]:
        shapes = [(n, width, width, channels), (3, 3, channels, channels)]
        yield "convolution", (n, width, channels), convolution, lambda s=shapes: [f64s(*x) for x in s]


def median(call):
    """Returns the median seconds of a call, as `time` of the command `bench` does."""
    call()
    start = time.perf_counter()
    call()
    rough = time.perf_counter() - start
    batch = 100 if rough < 1e-4 else 1
    times = []
    for _ in range(min(max(int(1 / (rough * batch)), 3), 15)):
        start = time.perf_counter()
        for _ in range(batch):
            call()
        times.append((time.perf_counter() - start) / batch)
    return sorted(times)[len(times) // 2]


def calls(n):
    """Returns a function that measures the seconds of a call that adds 1 to n numbers, and of which nothing is waited for."""
    f = jax.jit(lambda x: [x + 1.0 for x in x], donate_argnums=0)
    batch = 8000 // max(n, 8)
    x = [jnp.float64(0.0)] * n
    x = [jnp.copy(x) for x in x]

    def run():
        nonlocal x
        for _ in range(batch):
            x = f(x)
        jax.block_until_ready(x)

    return lambda: median(run) / batch


def main():
    words, command = options()
    measured = []
    for name, size, program, arguments in rows():
        label = f"xla_{name}_{'x'.join(map(str, size))}_us"
        measured.append((label, lambda p=program, a=arguments: in_jax(p, a())))
    for n in [1, 4, 40, 400]:
        measured.append((f"xla_call_{n}_us", lambda n=n: calls(n)))
    for label, measure in measured:
        if words and not any(word in label for word in words):
            continue
        seconds = measure()
        before = seconds()
        beside = ours(command, "xla", label.removesuffix("_us"))
        us = 1e6 * (before + seconds()) / 2 if beside else 1e6 * before
        row = {"name": label, "value": us, "unit": "us"}
        if label in beside:
            row |= {"tapeloom": beside[label], "ratio": beside[label] / us}
            native = beside.get(label.replace("_us", "_native_us"))
            if native is not None:
                row |= {"native": native}
        print(json.dumps(row), flush=True)


def in_jax(program, arguments):
    """Compiles a program, and returns a function that measures its seconds."""
    f = jax.jit(program)
    return lambda: median(lambda: jax.block_until_ready(f(*arguments)))


if __name__ == "__main__":
    main()
