"""The rows `vectors_*` of the command `bench` in JAX and numpy: pip install jax numpy scipy, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json vectors` does; times are medians. Words on the command
line choose programs by their names. JAX uses all cores of a machine, and tapeloom one: run this file with `taskset -c 0`.
Rows of numpy are named `numpy_..`, and measure single functions only.

`--beside COMMAND` runs `COMMAND --json vectors NAME` before each program, and prints the time of tapeloom divided by that of
JAX or numpy, whichever is faster: `taskset -c 0 python tests/peers/vectors.py --beside target/release/bench`.
"""

import json
import os
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special as sp
from beside import arguments, ours
from jax import nn
from jax.scipy import special as jsp

jax.config.update("jax_enable_x64", True)

FEW = [1000, 100_000]


def flat(n):
    return (n,)


def rows(n):
    return (n // 100, 100)


def columns(n):
    return (100, n // 100)


def chain(x):
    y = jnp.sqrt(x * 1.5 + 0.25)
    z = jnp.abs(y - x) * y
    return jnp.maximum(z / (y + 1.0), x * 0.5) - y * z


def softmax_grad(axis):
    return jax.grad(lambda x: (nn.softmax(x, axis) * x).sum())


def gradient(f):
    return jax.grad(lambda x: f(x).sum())


def layer_norm(x):
    off = x - x.mean(-1, keepdims=True)
    return off * jax.lax.rsqrt((off * off).mean(-1, keepdims=True) + 1e-5)


PROGRAMS = [
    ("exp", FEW, flat, jnp.exp, np.exp),
    ("log", FEW, flat, jnp.log, np.log),
    ("sin", FEW, flat, jnp.sin, np.sin),
    ("cos", FEW, flat, jnp.cos, np.cos),
    ("tanh", FEW, flat, jnp.tanh, np.tanh),
    ("logistic", FEW, flat, nn.sigmoid, sp.expit),
    ("erf", FEW, flat, jsp.erf, sp.erf),
    ("exp2", FEW, flat, jnp.exp2, np.exp2),
    ("tan", FEW, flat, jnp.tan, np.tan),
    ("atan", FEW, flat, jnp.arctan, np.arctan),
    ("lgamma", FEW, flat, jsp.gammaln, sp.gammaln),
    ("digamma", FEW, flat, jsp.digamma, sp.digamma),
    ("erfc", FEW, flat, jsp.erfc, sp.erfc),
    ("erf_inv", FEW, flat, lambda x: jsp.erfinv(x * 0.45), lambda x: sp.erfinv(x * 0.45)),
    ("ndtr", FEW, flat, jsp.ndtr, sp.ndtr),
    ("log_ndtr", FEW, flat, jsp.log_ndtr, sp.log_ndtr),
    ("ndtri", FEW, flat, lambda x: jsp.ndtri(x * 0.45), lambda x: sp.ndtri(x * 0.45)),
    ("round", FEW, flat, lambda x: jax.lax.round(x * 10.0), None),
    ("round_ties_even", FEW, flat, lambda x: jnp.rint(x * 10.0), lambda x: np.rint(x * 10.0)),
    ("cbrt", FEW, flat, jnp.cbrt, np.cbrt),
    ("pow", FEW, flat, lambda x: x**x, lambda x: x**x),
    ("powf_1.5", FEW, flat, lambda x: x**1.5, lambda x: x**1.5),
    ("powf_3", FEW, flat, lambda x: x**3.0, lambda x: x**3.0),
    ("hypot", FEW, flat, lambda x: jnp.hypot(x, 1.3 - x), lambda x: np.hypot(x, 1.3 - x)),
    ("atan2", FEW, flat, lambda x: jnp.arctan2(x, 1.3 - x), lambda x: np.arctan2(x, 1.3 - x)),
    ("logaddexp", FEW, flat, lambda x: jnp.logaddexp(x, 1.3 - x), lambda x: np.logaddexp(x, 1.3 - x)),
    ("i0e", FEW, flat, jsp.i0e, sp.i0e),
    ("gelu", FEW, flat, lambda x: nn.gelu(x - 1.0, approximate=False), None),
    ("normal", FEW, flat, lambda x: jax.random.normal(jax.random.key(7), x.shape, x.dtype) + x, None),
    ("tanh_grad", FEW, flat, gradient(jnp.tanh), None),
    ("silu_grad", FEW, flat, gradient(nn.silu), None),
    ("gelu_tanh_grad", FEW, flat, gradient(nn.gelu), None),
    ("gelu_grad", FEW, flat, gradient(lambda x: nn.gelu(x, approximate=False)), None),
    ("powf_1.5_grad", FEW, flat, gradient(lambda x: x**1.5), None),
    ("chain", [10_000, 1_000_000], flat, chain, None),
    ("sum", FEW, flat, jnp.sum, np.sum),
    ("max", FEW, flat, jnp.max, np.max),
    ("sum_columns", [100_000], rows, lambda x: x.sum(0), lambda x: x.sum(0)),
    ("max_columns", [100_000], rows, lambda x: x.max(0), lambda x: x.max(0)),
    ("softmax_rows", FEW, rows, lambda x: nn.softmax(x, -1), None),
    ("softmax_rows_grad", FEW, rows, softmax_grad(-1), None),
    ("softmax_columns", FEW, columns, lambda x: nn.softmax(x, 0), None),
    ("softmax_columns_grad", FEW, columns, softmax_grad(0), None),
    ("logsumexp_grad", [100_000, 1_000_000], flat, jax.grad(nn.logsumexp), None),
    ("layer_norm", [100_000], rows, layer_norm, None),
    ("cumsum", [100_000], flat, jnp.cumsum, np.cumsum),
    ("argmax", [100_000], flat, jnp.argmax, np.argmax),
]


def show(name, value):
    print(json.dumps({"name": name, "value": value, "unit": "us"}), flush=True)


def median(call):
    call()
    start = time.perf_counter()
    call()
    rough = max(time.perf_counter() - start, 1e-6)
    batch = max(int(2e-3 / rough), 1)
    times = []
    for _ in range(15):
        start = time.perf_counter()
        for _ in range(batch):
            call()
        times.append((time.perf_counter() - start) / batch)
    return sorted(times)[len(times) // 2] * 1e6


def measure(program, command):
    name, sizes, shape, in_jax, in_numpy = program
    beside = ours(command, "vectors", name)
    for dtype in ["f64", "f32"]:
        for n in sizes:
            x = (np.sin(0.7 * np.arange(n) + 0.1) + 1.1).astype({"f64": "f8", "f32": "f4"}[dtype]).reshape(shape(n))
            given = jnp.asarray(x)
            f = jax.jit(in_jax).lower(given).compile()
            row = f"{name}_{dtype}_{n}_us"
            times = [median(lambda: jax.block_until_ready(f(given)))]
            show(f"vectors_{row}", times[0])
            if in_numpy is not None:
                times.append(median(lambda: in_numpy(x)))
                show(f"numpy_{row}", times[1])
            if (own := beside.get(f"vectors_{row}")) is not None:
                print(f"    {row[:-3]}: {own:.1f} us, ratio {own / min(times):.2f}", flush=True)


def main():
    words, command = arguments()
    for program in PROGRAMS:
        if not words or program[0] in words:
            measure(program, command)


if __name__ == "__main__":
    main()
