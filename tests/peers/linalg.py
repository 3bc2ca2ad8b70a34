"""The rows `linalg_*` of the command `bench` in JAX, and values in numpy: pip install jax, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json linalg` does; times are medians. JAX uses all cores of
a machine, and tapeloom one: run this file with `taskset -c 0`. Rows of numpy are named `numpy_ROUTINE_SIZE_us`, and measure
the factorization without the scalar function.
"""

import json
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

jax.config.update("jax_enable_x64", True)


def cubed(x):
    return ((x * x + 1.0) * x).sum()


def both(*results):
    return sum(cubed(x) for x in results)


routines = {
    "cholesky": lambda a: cubed(jnp.linalg.cholesky(a)),
    "solve": lambda a: cubed(jnp.linalg.solve(a, a[..., :, :1])),
    "qr": lambda a: both(*jnp.linalg.qr(a)),
    "eigh": lambda a: both(*jnp.linalg.eigh(a)),
    "svd": lambda a: both(*jnp.linalg.svd(a, full_matrices=False)),
}

in_numpy = {
    "cholesky": np.linalg.cholesky,
    "solve": lambda a: np.linalg.solve(a, a[..., :, :1]),
    "qr": np.linalg.qr,
    "eigh": np.linalg.eigh,
    "svd": lambda a: np.linalg.svd(a, full_matrices=False),
}


def matrices(batch, n):
    shape = ((batch,) if batch else ()) + (n, n)
    i, j = np.arange(n)[:, None], np.arange(n)
    member = np.arange(batch)[:, None, None] if batch else 0
    spread = np.broadcast_to(np.cos(i * j + member) / n, shape)
    return (spread + np.swapaxes(spread, -1, -2)) / 2 + np.eye(n) * (i + 2.0)


def gaussian_process(length, noise, x, y):
    distance = (x[:, None] - x) / jnp.exp(length)
    k = jnp.exp(-0.5 * distance**2) + jnp.exp(noise) ** 2 * jnp.eye(len(x))
    l = jnp.linalg.cholesky(k)
    white = solve_triangular(l, y, lower=True)
    return 0.5 * (white**2).sum() + jnp.log(jnp.diag(l)).sum()


def kalman(f, h, observations):
    def step(state, y):
        x, p = state
        x, p = f @ x, f @ p @ f.T + 0.1 * jnp.eye(4)
        seen = h @ p
        l = jnp.linalg.cholesky(seen @ h.T + 0.5 * jnp.eye(2))
        off = y - h @ x
        gain = cho_solve((l, True), seen).T
        white = solve_triangular(l, off, lower=True)
        loss = 0.5 * (white**2).sum() + jnp.log(jnp.diag(l)).sum()
        return (x + gain @ off, p - gain @ seen), loss

    return jax.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), observations)[1].sum()


def seconds(run):
    """Returns the median time of calls over a second, at least three; short calls are timed in samples of a hundred."""
    run()
    start = time.perf_counter()
    run()
    rough = time.perf_counter() - start
    batch = 100 if rough < 1e-4 else 1
    samples = min(max(int(1.0 / (rough * batch)), 3), 15)
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(batch):
            run()
        times.append((time.perf_counter() - start) / batch)
    return sorted(times)[len(times) // 2]


def row(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


for name, f in routines.items():
    for batch, n in [(None, 4), (None, 16), (None, 64), (None, 256), (None, 1024), (1000, 4), (1000, 16)]:
        a, size = matrices(batch, n), f"{batch}x{n}" if batch else str(n)
        value, gradient, on = jax.jit(f), jax.jit(jax.grad(f)), jnp.asarray(a)
        row(f"linalg_{name}_{size}_us", seconds(lambda: value(on).block_until_ready()) * 1e6, "us")
        row(f"linalg_{name}_{size}_grad_us", seconds(lambda: gradient(on).block_until_ready()) * 1e6, "us")
        row(f"numpy_{name}_{size}_us", seconds(lambda: in_numpy[name](a)) * 1e6, "us")

for n in [200, 1000]:
    x = 10.0 * jnp.arange(n) / n
    process = jax.jit(jax.value_and_grad(gaussian_process, (0, 1, 2, 3)))
    run = lambda: process(0.0, -1.0, x, jnp.sin(x))[1][3].block_until_ready()
    row(f"linalg_gp_{n}_grad_ms", seconds(run) * 1e3, "ms")

f = 0.9 * jnp.eye(4) + 0.05 * jnp.sin(jnp.arange(4)[:, None] * 3.0 + jnp.arange(4))
h = jnp.cos(jnp.arange(2)[:, None] * 4.0 + jnp.arange(4))
y = jnp.sin(jnp.arange(10_000)[:, None] * 0.1 + jnp.arange(2))
likelihood = jax.jit(jax.value_and_grad(kalman, (0, 1, 2)))
row("linalg_kalman_grad_ms", seconds(lambda: likelihood(f, h, y)[1][2].block_until_ready()) * 1e3, "ms")

for n in [1 << 10, 1 << 16, 1_000_000]:
    x = np.sin(np.arange(n, dtype=float))
    z = x + 1j * x
    for name, data in [("fft", z), ("rfft", x)]:
        transform, on, own = jax.jit(getattr(jnp.fft, name)), jnp.asarray(data), getattr(np.fft, name)
        row(f"{name}_{n}_us", seconds(lambda: transform(on).block_until_ready()) * 1e6, "us")
        row(f"numpy_{name}_{n}_us", seconds(lambda: own(data)) * 1e6, "us")
x = np.sin(np.arange(512 * 512, dtype=float)).reshape(512, 512)
z = x + 1j * x
plane, on = jax.jit(jnp.fft.fft2), jnp.asarray(z)
row("fft2_512_us", seconds(lambda: plane(on).block_until_ready()) * 1e6, "us")
row("numpy_fft2_512_us", seconds(lambda: np.fft.fft2(z)) * 1e6, "us")
