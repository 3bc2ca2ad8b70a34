"""The rows `threads_*` of the command `bench`, in JAX: pip install jax, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json` does; `value` is a median. JAX uses all cores that
it may use: run this file with `taskset -c 0` for rows of one thread, and with `taskset -c 0,1` for two.
"""

import json
import os
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

import networks
import transformer
from cost import f64s, heston_barrier

jax.config.update("jax_enable_x64", True)


def likelihood(alpha, mu, q, l, x):
    k, d = mu.shape
    rows, columns = np.tril_indices(d, -1)
    order = np.lexsort((rows, columns))
    lower = jnp.zeros((k, d, d)).at[:, rows[order], columns[order]].set(l)
    matrices = lower + jnp.exp(q)[:, :, None] * jnp.eye(d)
    scaled = jnp.einsum("kij,nkj->nki", matrices, x[:, None, :] - mu)
    beta = alpha + q.sum(1) - 0.5 * (scaled * scaled).sum(2)
    n = x.shape[0]
    value = jax.nn.logsumexp(beta, axis=1).sum() - n * jax.nn.logsumexp(alpha)
    return value - 0.5 * (jnp.exp(2 * q).sum() + (l * l).sum())


def stencil(u):
    def step(_, u):
        centre = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + (u[1:-1, :-2] + u[1:-1, 2:])
        return jnp.pad(centre + 0.2 * (around - 4 * centre), 1)

    return jax.lax.fori_loop(0, 50, step, u)


def oscillators(y):
    def slope(y):
        return jnp.stack([y[1], -9.81 * jnp.sin(y[0]) - 0.1 * y[1]])

    def step(_, y, h=0.01):
        k1 = slope(y)
        k2 = slope(y + 0.5 * h * k1)
        k3 = slope(y + 0.5 * h * k2)
        k4 = slope(y + h * k3)
        return y + h * (k1 + 2 * k2 + 2 * k3 + k4) / 6

    return jax.vmap(lambda y: jax.lax.fori_loop(0, 200, step, y))(y)


def uneven(n, least, most, step):
    return jnp.array(least + (most - least) * np.modf(np.arange(n) * step)[0])


# The method of Dormand and Prince: nodes, weights of the stages, weights of the step, weights of the error.
NODES = [0.2, 0.3, 0.8, 8 / 9, 1.0]
STAGES = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
]
STEP = [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84]
ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]


def adaptive_oscillators(stiffness, start, rtol=1e-5, atol=1e-7, end=5.0):
    """Van der Pol's oscillators by Dormand and Prince's method, with the step control of Hairer's book."""

    def member(mu, x):
        def slope(y):
            return jnp.stack([y[1], mu * (1.0 - y[0] * y[0]) * y[1] - y[0]])

        def combine(weights, slopes):
            return sum(w * k for w, k in zip(weights, slopes) if w != 0)

        def step(state):
            t, y, k, h = state
            h = jnp.minimum(h, end - t)
            slopes = [k]
            for weights in STAGES:
                slopes.append(slope(y + h * combine(weights, slopes)))
            new = y + h * combine(STEP, slopes)
            slopes.append(slope(new))
            scale = atol + rtol * jnp.maximum(jnp.abs(y), jnp.abs(new))
            error = jnp.sqrt(jnp.mean((h * combine(ERROR, slopes) / scale) ** 2))
            grow = jnp.clip(0.9 * jnp.maximum(error, 1e-10) ** -0.2, 0.2, 10.0)
            accept = error <= 1.0
            pick = lambda a, b: jnp.where(accept, a, b)
            return pick(t + h, t), pick(new, y), pick(slopes[-1], k), h * grow

        y = jnp.stack([x, 0.0 * x])
        start = (0.0 * mu, y, slope(y), 0.0 * mu + 1e-3)
        return jax.lax.while_loop(lambda s: s[0] < end, step, start)[1][0]

    return jax.vmap(member)(stiffness, start)


def orbits(eccentricity, mean):
    def member(e, m):
        def newton(state):
            x, _, n = state
            change = (x - e * jnp.sin(x) - m) / (1.0 - e * jnp.cos(x))
            return x - change, change, n + 1

        go_on = lambda s: (jnp.abs(s[1]) > 1e-12) & (s[2] < 50)
        return jax.lax.while_loop(go_on, newton, (m + 0.85 * e, jnp.ones_like(m), 0))[0]

    return jax.vmap(member)(eccentricity, mean)


def chains(start, data):
    def energy(q):
        return jax.nn.softplus(data @ q).sum() + 0.5 * (q * q).sum()

    def chain(seed, q):
        def propose(i, q):
            momentum, accept = jax.random.split(jax.random.fold_in(jax.random.key(seed), i))
            p = jax.random.normal(momentum, (50,))

            def leap(_, qp):
                q, p = qp
                p = p - 0.01 * jax.grad(energy)(q)
                q = q + 0.02 * p
                return q, p - 0.01 * jax.grad(energy)(q)

            new, end = jax.lax.fori_loop(0, 10, leap, (q, p))
            rise = energy(new) + 0.5 * (end * end).sum() - energy(q) - 0.5 * (p * p).sum()
            return jnp.where(jnp.log(jax.random.uniform(accept)) < -rise, new, q)

        return jax.lax.fori_loop(0, 20, propose, q)

    return jax.vmap(chain)(jnp.arange(64), start)


def programs():
    mixture = [f64s(*shape) for shape in [(25,), (25, 10), (25, 10), (25, 45), (10000, 10)]]
    yield "gmm_10000", likelihood, mixture
    yield "gmm_10000_gradient", jax.value_and_grad(likelihood, (0, 1, 2, 3)), mixture
    yield "stencil_1024", stencil, [f64s(1024, 1024)]
    model, x = transformer.data(4, 128, 256, 1, np.float64)
    yield "transformer_block", jax.value_and_grad(lambda m, x: transformer.loss(8, m, x)), (model, x)
    weights, x = networks.arguments("resnet_block")
    block = networks.losses_in_jax()["resnet_block"]
    yield "resnet_block", jax.value_and_grad(block), ([jnp.asarray(w) for w in weights], jnp.asarray(x))
    yield "odes_10000", oscillators, [f64s(10000, 2)]
    stiffness = uneven(10000, 0.1, 20.0, 0.618034)
    yield "adaptive_odes_10000", adaptive_oscillators, (stiffness, uneven(10000, 1.0, 2.0, 0.414214))
    eccentricity = uneven(100000, 0.0, 0.99, 0.618034)
    yield "newton_100000", orbits, (eccentricity, uneven(100000, 0.0, 3.0, 0.414214))
    yield "hmc_64", chains, [f64s(64, 50), f64s(500, 50)]
    parameters = jnp.array([0.04, 1.5, 0.05, 0.5, -0.7])
    yield "heston_20000", lambda p: heston_barrier(p, 7), [parameters]


def main():
    threads = len(os.sched_getaffinity(0))
    words = sys.argv[1:]
    for name, f, args in programs():
        if words and not any(word in name for word in words):
            continue
        f = jax.jit(f)
        jax.block_until_ready(f(*args))
        times = []
        for _ in range(11):
            start = time.perf_counter()
            jax.block_until_ready(f(*args))
            times.append(time.perf_counter() - start)
        value = 1e3 * sorted(times)[len(times) // 2]
        print(json.dumps({"name": f"threads_{name}_{threads}_ms", "value": value, "unit": "ms"}), flush=True)


if __name__ == "__main__":
    main()
