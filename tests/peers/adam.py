"""The rows `adam_*` of the command `bench`, in JAX: pip install jax, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json` does; `value` is a median. JAX uses all cores that
it may use: run this file with `taskset -c 0` for one core.
"""

import json
import time

import jax
import jax.numpy as jnp


def step(state, x):
    w, t, m, v = state
    g = jax.grad(lambda w: jnp.square(w * x - 1.0).mean())(w)
    t = t + 1
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    at = t.astype(w.dtype)
    mean, square = m / (1 - 0.9**at), v / (1 - 0.999**at)
    return w - 1e-3 * mean / (jnp.sqrt(square) + 1e-8), t, m, v


def main():
    programs = {"call": jax.jit(step), "donating": jax.jit(step, donate_argnums=0)}
    for n in [10_000, 100_000, 1_000_000, 10_000_000]:
        x = jnp.full((n,), 2.0, jnp.float32)
        zero = lambda: (jnp.zeros(n), jnp.int32(0), jnp.zeros(n), jnp.zeros(n))
        states = {name: f(zero(), x) for name, f in programs.items()}
        times = {name: [] for name in programs}
        batch = max(1, 3_000_000 // n)
        for _ in range(9):
            for name, f in programs.items():
                state = jax.block_until_ready(f(states[name], x))
                start = time.perf_counter()
                for _ in range(batch):
                    state = f(state, x)
                states[name] = jax.block_until_ready(state)
                times[name].append((time.perf_counter() - start) / batch)
        for name, all in times.items():
            value = 1e9 * sorted(all)[len(all) // 2] / n
            print(json.dumps({"name": f"adam_{n}_{name}_ns", "unit": "ns", "value": value}), flush=True)


if __name__ == "__main__":
    main()
