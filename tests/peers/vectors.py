"""The rows `vectors_*` of the command `bench` in JAX and numpy: pip install jax numpy scipy, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json vectors` does; times are medians. JAX uses all cores of
a machine, and tapeloom one: run this file with `taskset -c 0`. Rows of numpy are named `numpy_..`, and measure single
functions only.
"""

import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import scipy.special
from jax import nn

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


def layer_norm(x):
    off = x - x.mean(-1, keepdims=True)
    return off * jax.lax.rsqrt((off * off).mean(-1, keepdims=True) + 1e-5)


PROGRAMS = [
    ("exp", FEW, flat, jnp.exp, np.exp),
    ("log", FEW, flat, jnp.log, np.log),
    ("sin", FEW, flat, jnp.sin, np.sin),
    ("cos", FEW, flat, jnp.cos, np.cos),
    ("tanh", FEW, flat, jnp.tanh, np.tanh),
    ("logistic", FEW, flat, nn.sigmoid, scipy.special.expit),
    ("erf", FEW, flat, jax.scipy.special.erf, scipy.special.erf),
    ("exp2", FEW, flat, jnp.exp2, np.exp2),
    ("tan", FEW, flat, jnp.tan, np.tan),
    ("atan", FEW, flat, jnp.arctan, np.arctan),
    ("lgamma", FEW, flat, jax.scipy.special.gammaln, scipy.special.gammaln),
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


for name, sizes, shape, in_jax, in_numpy in PROGRAMS:
    for dtype in ["f64", "f32"]:
        for n in sizes:
            x = (np.sin(0.7 * np.arange(n) + 0.1) + 1.1).astype({"f64": "f8", "f32": "f4"}[dtype]).reshape(shape(n))
            given = jnp.asarray(x)
            f = jax.jit(in_jax).lower(given).compile()
            show(f"vectors_{name}_{dtype}_{n}_us", median(lambda: jax.block_until_ready(f(given))))
            if in_numpy is not None:
                show(f"numpy_{name}_{dtype}_{n}_us", median(lambda: in_numpy(x)))
