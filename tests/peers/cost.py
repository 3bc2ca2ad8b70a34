"""The rows `cost_*` of the command `bench` in JAX: pip install jax, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json cost` does; times are medians. Words on the command
line choose rows by a part of their names. `--beside COMMAND` runs `COMMAND --json cost ROW` before each row, and prints the
time of tapeloom divided by the time of JAX: `taskset -c 0 python tests/peers/cost.py --beside target/release/bench`. JAX uses
one thread.
"""

import json
import os
import subprocess
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import jax.numpy as jnp
import numpy as np
from beside import arguments as options
from beside import ours
from jax import lax

jax.config.update("jax_enable_x64", True)


def numbers(shape, dtype):
    k = np.arange(np.prod(shape), dtype=np.int64)
    return jnp.asarray((((k * 7919) % 10_007) / 10_007.0 - 0.5).reshape(shape).astype(dtype))


def f64s(*shape):
    return numbers(shape, np.float64)


def f32s(*shape):
    return numbers(shape, np.float32)


def indices(n, below):
    return jnp.asarray((np.arange(n, dtype=np.int64) * 7919) % below)


def recur(n, h, step):
    return lax.fori_loop(0, n, lambda i, h: jnp.tanh(h * 0.9 + step(i)), h)


def while_sine(e, h):
    more, step = lambda s: s[0] < 4000, lambda s: (s[0] + 1, jnp.tanh(s[1] * 0.9 + jnp.sin(e)[s[0]]))
    return lax.while_loop(more, step, (0, h))[1]


def loop_in_loop(h, w):
    return lax.fori_loop(0, 60, lambda _, h: recur(60, h, lambda j: jnp.tanh(w @ w)[j]), h)


def loop_expm(w, h):
    return lax.fori_loop(0, 1000, lambda _, h: jnp.tanh(jax.scipy.linalg.expm(w - w.T) @ h), h)


def loop_descent(m, h):
    return lax.fori_loop(0, 1000, lambda _, h: h - 0.001 * (m @ m.T) @ h, h)


def map_solve(m, b):
    m = m + 200.0 * jnp.eye(200)
    return lax.map(lambda b: jnp.linalg.solve(m, b), b)


def row_in_branch(e, h):
    def step(i, h):
        t = jnp.sin(e * h)
        return lax.cond(h[0] > -2.0, lambda h: h * 0.9 + t[i], lambda h: h + 0.5, h)
    return lax.fori_loop(0, 100, step, h)


def conv(x, w, stride, padding):
    spatial = x.ndim - 2
    names = ("NCHW", "OIHW", "NCHW") if spatial == 2 else ("NCW", "OIW", "NCW")
    return lax.conv_general_dilated(x, w, (stride,) * spatial, [(padding, padding)] * spatial, dimension_numbers=names)


def conv_transpose(x, w, stride):
    # VALID padding, as in the tapeloom program.
    return lax.conv_transpose(x, w, (stride, stride), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))


def pool(x, start, f, sizes, strides):
    return lax.reduce_window(x, np.asarray(start, x.dtype), f, sizes, strides, "VALID")


def search(table, x):
    return jnp.searchsorted(jnp.sort(table), x)


def iterated(n, step, x):
    return lax.fori_loop(0, n, lambda _, x: step(x), x)


def carry_sine(x):
    return iterated(1000, jnp.sin, x)


def carry_markov(x, rates):
    rates = jnp.exp(rates)

    def step(x):
        largest = x.max()
        return jnp.log(jnp.exp(x - largest) @ rates) + 0.1 * largest
    return iterated(1000, step, x)


def carry_runge_kutta(x):
    slope = lambda x: 0.3 * jnp.cos(x) - x
    return iterated(1000, lambda x: x + 0.01 * slope(x + 0.005 * slope(x)), x)


def body_of_400(x):
    for i in range(400):
        x = jnp.sin(x * (1.0 + 0.001 * i))
    return x


def decay(x):
    def step(h, x):
        h = 0.7 * h + x
        return h, h
    return lax.scan(step, 0.0, x)[1][-1]


def haar(x):
    a, b = x.reshape(-1, 2).T
    return jnp.stack([a + b, a - b], 1).reshape(-1)


def long_while(x):
    step = lambda carry: (carry[0] + 1, jnp.sin(0.9 * carry[1] + 0.1))
    return lax.while_loop(lambda carry: carry[0] < 3000, step, (0, x))[1]


def heston_barrier(parameters, seed):
    start, rate, level, volatility, correlation = parameters
    paths, dt = 20_000, 0.01

    def step(i, carry):
        price, variance, alive = carry
        z, other = jax.random.normal(jax.random.fold_in(jax.random.key(seed), i), (2, paths))
        for_variance = correlation * z + jnp.sqrt(1.0 - correlation**2) * other
        positive = jnp.maximum(variance, 1e-8)
        spread = jnp.sqrt(positive * dt)
        price = price * jnp.exp((0.02 - 0.5 * positive) * dt + spread * z)
        variance = variance + rate * (level - positive) * dt + volatility * spread * for_variance
        return price, variance, alive & (price > 85.0)

    begin = jnp.full(paths, 100.0), jnp.broadcast_to(start, paths), jnp.full(paths, True)
    price, _, alive = lax.fori_loop(0, 100, step, begin)
    return jnp.where(alive, jnp.maximum(price - 100.0, 0.0), 0.0).mean() * jnp.exp(-0.02)


def particle_filter(parameters, observed, seed):
    coefficient, deviation = parameters
    n = 10_000

    def step(i, carry):
        x, likelihood = carry
        noise, offset = jax.random.split(jax.random.fold_in(jax.random.key(seed), i))
        x = coefficient * x + deviation * jax.random.normal(noise, (n,))
        log_weight = -0.5 * (observed[i] - x) ** 2
        total = jax.scipy.special.logsumexp(log_weight)
        sums = jnp.exp(log_weight - total).cumsum()
        places = jnp.searchsorted(sums, (jnp.arange(n) + jax.random.uniform(offset)) / n)
        return x[jnp.minimum(places, n - 1)], likelihood + total - jnp.log(n)

    return lax.fori_loop(0, 100, step, (jnp.zeros(n), 0.0))[1]


ROWS = {
    "loop_sine": (1, lambda: [f64s(4000, 64), f64s(64)], lambda e, h: recur(4000, h, lambda i: jnp.sin(e)[i])),
    "loop_sine_outside": (1, lambda: [f64s(4000, 64), f64s(64)], lambda e, h: (lambda e: recur(4000, h, lambda i: e[i]))(jnp.sin(e))),
    "while_sine": (0, lambda: [f64s(4000, 64), f64s(64)], while_sine),
    "loop_product": (1, lambda: [f64s(4000, 64), f64s(64), f64s(64, 64)], lambda e, h, w: recur(4000, h, lambda i: (e @ w)[i])),
    "loop_product_outside": (1, lambda: [f64s(4000, 64), f64s(64), f64s(64, 64)], lambda e, h, w: (lambda e: recur(4000, h, lambda i: e[i]))(e @ w)),
    "loop_softmax": (1, lambda: [f64s(4000, 64), f64s(64)], lambda e, h: recur(4000, h, lambda i: jax.nn.softmax(e, 0)[i])),
    "loop_mean": (1, lambda: [f64s(4000, 64), f64s(64)], lambda e, h: recur(4000, h, lambda i: e.mean(0))),
    "map_sine": (1, lambda: [f64s(4000), f64s(4000)], lambda x, e: lax.map(lambda x: x * jnp.sin(e).sum(), x)),
    "loop_in_loop_product": (1, lambda: [f64s(64), f64s(64, 64)], loop_in_loop),
    "loop_expm": (1, lambda: [f64s(64, 64), f64s(64)], loop_expm),
    "loop_descent": (1, lambda: [f64s(200, 200), f64s(200)], loop_descent),
    "map_solve": (2, lambda: [f64s(200, 200), f64s(200, 200)], map_solve),
    "slice_sine": (1, lambda: [f64s(1_000_000)], lambda x: jnp.sin(x)[:16]),
    "last_sine": (1, lambda: [f64s(1_000_000)], lambda x: jnp.sin(x)[-1]),
    "dynamic_slice_sine": (1, lambda: [f64s(1_000_000), jnp.asarray(1)], lambda x, i: lax.dynamic_slice(jnp.sin(x), (i,), (16,))),
    "take_sine": (1, lambda: [f64s(1_000_000), indices(16, 1_000_000)], lambda x, i: jnp.sin(x)[i]),
    "row_of_product": (1, lambda: [f64s(1000, 500), f64s(500, 500), jnp.asarray(1)], lambda x, w, i: (x @ w)[i]),
    "row_in_branch": (1, lambda: [f64s(4000, 64), f64s(64)], row_in_branch),
    "einsum_chain": (1, lambda: [f64s(600, 600), f64s(600, 600), f64s(600, 600), f64s(600)], lambda *x: jnp.einsum("ij,jk,kl,l->i", *x)),
    "patches_16": (2, lambda: [f32s(4, 3, 224, 224), f32s(192, 3, 16, 16)], lambda x, w: conv(x, w, 16, 0)),
    "stem_7_stride_2": (2, lambda: [f32s(4, 3, 224, 224), f32s(64, 3, 7, 7)], lambda x, w: conv(x, w, 2, 3)),
    "residual_3_stride_2": (2, lambda: [f32s(4, 64, 56, 56), f32s(128, 64, 3, 3)], lambda x, w: conv(x, w, 2, 1)),
    "few_channels_7": (2, lambda: [f32s(1, 64, 56, 56), f32s(3, 64, 7, 7)], lambda x, w: conv(x, w, 1, 3)),
    "taps_301_stride_7": (2, lambda: [f32s(1, 1, 40_000), f32s(8, 1, 301)], lambda x, w: conv(x, w, 7, 0)),
    "transpose_4_stride_2": (2, lambda: [f32s(1, 64, 56, 56), f32s(3, 64, 4, 4)], lambda x, w: conv_transpose(x, w, 2)),
    "transpose_16_stride_16": (2, lambda: [f32s(1, 192, 7, 7), f32s(3, 192, 16, 16)], lambda x, w: conv_transpose(x, w, 16)),
    "max_pool_100_stride_50": (1, lambda: [f32s(100_000)], lambda x: pool(x, -np.inf, lax.max, (100,), (50,))),
    "max_pool_2": (1, lambda: [f32s(64, 128, 128)], lambda x: pool(x, -np.inf, lax.max, (1, 2, 2), (1, 2, 2))),
    "max_pool_3_stride_2": (1, lambda: [f32s(64, 128, 128)], lambda x: pool(x, -np.inf, lax.max, (1, 3, 3), (1, 2, 2))),
    "avg_pool_2": (1, lambda: [f32s(64, 128, 128)], lambda x: pool(x, 0, lax.add, (1, 2, 2), (1, 2, 2)) / 4),
    "avg_pool_global": (1, lambda: [f32s(64, 128, 128)], lambda x: pool(x, 0, lax.add, (1, 128, 128), (1, 1, 1)) / 16384),
    "interleave": (2, lambda: [f64s(100_000), f64s(100_000)], lambda a, b: jnp.stack([a**2, b + 1], 1).reshape(-1)),
    "repeat_3": (1, lambda: [f64s(100_000)], lambda x: jnp.broadcast_to(x[:, None], (100_000, 3)).reshape(-1)),
    "pixel_shuffle": (1, lambda: [f32s(64, 4, 64, 64)], lambda x: x.reshape(64, 2, 2, 64, 64).transpose(0, 3, 1, 4, 2).reshape(64, 128, 128)),
    "haar": (1, lambda: [f64s(200_000)], haar),
    "search_1000": (0, lambda: [f64s(1000), f64s(100_000)], search),
    "search_10000": (0, lambda: [f64s(10_000), f64s(100_000)], search),
    "search_10000_f32": (0, lambda: [f32s(10_000), f32s(100_000)], search),
    "sort": (1, lambda: [f64s(100_000)], jnp.sort),
    "sort_f32": (1, lambda: [f32s(100_000)], jnp.sort),
    "top_10": (1, lambda: [f64s(1_000_000)], lambda x: lax.top_k(x, 10)[0]),
    "top_10_f32": (1, lambda: [f32s(1_000_000)], lambda x: lax.top_k(x, 10)[0]),
    "multiply_at": (2, lambda: [f64s(100_000), f64s(100_000), indices(100_000, 100_000)], lambda x, u, i: x.at[i].mul(u, unique_indices=False)),
    "scan_add": (1, lambda: [f64s(100_000)], lambda x: lax.associative_scan(jnp.add, x)),
    "scan_add_f32": (1, lambda: [f32s(100_000)], lambda x: lax.associative_scan(jnp.add, x)),
    "scan_max": (1, lambda: [f64s(100_000)], lambda x: lax.associative_scan(jnp.maximum, x)),
    "scan_affine": (2, lambda: [f64s(100_000), f64s(100_000)], lambda a, b: lax.associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b))[1]),
    "scan_2x2": (1, lambda: [f64s(100_000, 2, 2)], lambda x: lax.associative_scan(jnp.matmul, x)),
    "carry_sine_4": (1, lambda: [f64s(4)], carry_sine),
    "carry_sine_8": (1, lambda: [f64s(8)], carry_sine),
    "carry_sine_16": (1, lambda: [f64s(16)], carry_sine),
    "carry_recurrent_8": (2, lambda: [f64s(8), f64s(8, 8)], lambda x, w: iterated(1000, lambda h: jnp.tanh(w @ h + 0.1), x)),
    "carry_markov_6": (2, lambda: [f64s(6), f64s(6, 6)], carry_markov),
    "carry_runge_kutta_6": (1, lambda: [f64s(6)], carry_runge_kutta),
    "carry_body_of_400": (1, lambda: [f64s(8)], lambda x: iterated(100, body_of_400, x)),
    "decay": (1, lambda: [f64s(100_000)], decay),
    "vmap_while": (0, lambda: [f64s(1000)], jax.vmap(long_while)),
    "qr_200": (1, lambda: [f64s(200, 200)], lambda a: jnp.linalg.qr(a)[1]),
    "small_3_stride_2": (2, lambda: [f32s(8, 32, 32, 32), f32s(64, 32, 3, 3)], lambda x, w: conv(x, w, 2, 1)),
    "heston_barrier": (1, lambda: [jnp.array([0.04, 1.5, 0.05, 0.5, -0.7]), 7], heston_barrier),
    "particle_filter": (1, lambda: [jnp.array([0.9, 0.5]), f64s(100), 7], particle_filter),
}


def median(call):
    jax.block_until_ready(call())
    start = time.perf_counter()
    jax.block_until_ready(call())
    rough = time.perf_counter() - start
    times = []
    for _ in range(min(max(int(1.0 / rough), 3), 50)):
        start = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2] * 1e6


def show(name, value, beside):
    print(json.dumps({"name": name, "value": value, "unit": "us"}), flush=True)
    if name in beside:
        print(f"    {name[5:-3]}: {beside[name]:.1f} us beside {value:.1f} us, ratio {beside[name] / value:.2f}", flush=True)


def main():
    words, command = options()
    for name, (differentiated, arguments, f) in ROWS.items():
        if words and not any(word in name for word in words):
            continue
        beside = ours(command, "cost", name)
        x = arguments()
        value = jax.jit(f)
        show(f"cost_{name}_us", median(lambda: value(*x)), beside)
        if differentiated:
            loss = lambda *x: 0.5 * (f(*x) ** 2).sum()
            gradient = jax.jit(jax.grad(loss, tuple(range(differentiated))))
            try:
                show(f"cost_{name}_grad_us", median(lambda: gradient(*x)), beside)
            except (NotImplementedError, TypeError) as error:
                print(f"    {name}: JAX has no gradient: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
