"""The rows `rnn_*` of the command `bench`, in JAX: pip install jax, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json` does; `value` is a median. JAX uses all cores of a
machine, and tapeloom one: run this file with `taskset -c 0`.
"""

import json
import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)


def numbers(shape, scale):
    i = np.arange(np.prod(shape), dtype=np.float64)
    return jnp.asarray((scale * np.sin(i * 0.7 + np.sqrt(i))).reshape(shape))


def loss(w, xs):
    h, _ = jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), jnp.zeros(32), xs)
    return (h * h).mean()


def little(w, xs):
    """Computes `loss` in blocks of about the square root of the number of steps; the reverse pass recomputes each block."""
    steps = xs.shape[0]
    block = next(n for n in range(int(steps**0.5), 0, -1) if steps % n == 0)

    @jax.checkpoint
    def rounds(h, xs):
        return jax.lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), h, xs)[0]

    blocks = xs.reshape(steps // block, block, 32)
    h, _ = jax.lax.scan(lambda h, xs: (rounds(h, xs), None), jnp.zeros(32), blocks)
    return (h * h).mean()


def median(f, args, samples=11):
    jax.block_until_ready(f(*args))
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        jax.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return sorted(times)[samples // 2]


for steps in [1_000, 100_000]:
    args = numbers((32, 32), 0.2), numbers((steps, 32), 1.0)
    start = time.perf_counter()
    gradient = jax.jit(jax.grad(loss, (0, 1))).lower(*args).compile()
    compiled = time.perf_counter() - start
    rows = {"value": median(jax.jit(loss), args), "grad": median(gradient, args), "compile": compiled}
    rows["little"] = median(jax.jit(jax.grad(little, (0, 1))), args)
    for name, seconds in rows.items():
        print(json.dumps({"name": f"rnn_{steps}_{name}_ms", "value": seconds * 1e3, "unit": "ms"}))
