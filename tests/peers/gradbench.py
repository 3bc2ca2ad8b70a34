"""The rows `gradbench_*` of the command `bench` in JAX, programs with loops included: pip install jax, then run this file.

Prints one object {"name", "value", "unit"} per line, as `bench --json` does; times are medians. JAX uses all cores of a
machine, and tapeloom one: run this file with `taskset -c 0`.

JAX has no reverse mode through `while_loop`, so `saddle` and `particle` are computed by forward mode in forward mode.
The determinant computes all minors of a size as one batch, since JAX's nested loops are slower.
"""

import json
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
random = np.random.default_rng(31337)


def ode(s, x):
    h = 2 / s
    slope = lambda y: x * jnp.concatenate([jnp.ones(1), y[:-1]])

    def step(_, y):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    return jax.lax.fori_loop(0, s, step, jnp.zeros_like(x))


def lstm(main, extra, state, sequence):
    layers, b = main.shape[0] // 2, sequence.shape[1]
    main = main.reshape(2 * layers, 4, b)

    def step(state, x):
        signal, after = x * extra[0], []
        for i, (hidden, cell) in enumerate(state):
            gate = lambda k, v: v * main[2 * i][k] + main[2 * i + 1][k]
            forget, ingate = jax.nn.sigmoid(gate(0, signal)), jax.nn.sigmoid(gate(1, hidden))
            outgate, change = jax.nn.sigmoid(gate(2, signal)), jnp.tanh(gate(3, hidden))
            cell = cell * forget + ingate * change
            signal = outgate * jnp.tanh(cell)
            after.append((signal, cell))
        return after, signal * extra[1] + extra[2]

    start = [(state[2 * i], state[2 * i + 1]) for i in range(layers)]
    _, predicted = jax.lax.scan(step, start, sequence[:-1])
    normaliser = jnp.log(jnp.exp(predicted).sum(1) + 2)
    return -(sequence[1:] * (predicted - normaliser[:, None])).mean()


def det(a):
    n = a.shape[0]
    if n == 1:
        return a[0, 0]
    others = np.array([[c for c in range(n) if c != j] for j in range(n)])
    minors = jax.vmap(lambda columns: det(a[1:, columns]))(others)
    return (a[0] * minors * (-1.0) ** np.arange(n)).sum()


def joint(x, z):
    sx, cx, sz, cz = jnp.sin(x), jnp.cos(x), jnp.sin(z), jnp.cos(z)
    return jnp.array([[cz, -sz * cx, sz * sx, 0], [sz, cz * cx, -cz * sx, 0], [0, sx, cx, 0], [0, 0, 0, 1]])


def rotation(r):
    squared = (r * r).sum()
    angle = jnp.sqrt(jnp.where(squared > 1e-8, squared, 1))
    x, y, z = axis = r / angle
    cross = jnp.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    turned = jnp.cos(angle) * jnp.eye(3) + jnp.sin(angle) * cross + (1 - jnp.cos(angle)) * jnp.outer(axis, axis)
    return jnp.where(squared > 1e-8, turned, jnp.eye(3))


def ht(hand, theta, us):
    fingers = theta[6:].reshape(5, 4)
    x = jnp.zeros((5, 4)).at[:, 1:].set(fingers[:, np.array([0, 2, 3])])
    z = jnp.zeros((5, 4)).at[:, 1].set(fingers[:, 1])
    x, z = (jnp.pad(angles.reshape(20), 1) for angles in (x, z))
    posed = hand["relative"] @ jax.vmap(joint)(x, z)
    absolute = []
    for bone, parent in enumerate(hand["parents"]):
        absolute.append(posed[bone] if parent < 0 else absolute[parent] @ posed[bone])
    turns = (jnp.stack(absolute) @ hand["inverse"])[:, :3]
    skin = jnp.einsum("vij,vj->vi", jnp.einsum("vb,bij->vij", hand["weights"], turns), hand["rest"])
    at = (skin @ rotation(theta[:3]).T + theta[3:6])[hand["corners"]]
    u, v = us[:, :1], us[:, 1:]
    return (hand["points"] - (u * at[0] + v * at[1] + (1 - u - v) * at[2])).ravel()


def recorded_hand():
    path = Path(__file__).parents[1] / "data/gradbench/ht_c.jsonl"
    messages = (json.loads(line).get("message", {}) for line in path.open())
    given = next(m for m in messages if m.get("kind") == "evaluate")["input"]
    data, model = given["data"], given["data"]["model"]
    hand = {
        "relative": model["base_relatives"],
        "inverse": model["inverse_base_absolutes"],
        "rest": model["base_positions"],
        "weights": model["weights"],
        "points": data["points"],
    }
    hand = {name: jnp.array(table) for name, table in hand.items()}
    corners = np.array([model["triangles"][i] for i in data["correspondences"]]).T
    hand |= {"parents": model["parents"], "corners": corners}
    return hand, jnp.array(given["theta"]), jnp.array(given["us"])


def argmin(f, start):
    slope = jax.jacfwd(f)
    norm = lambda v: jnp.sqrt((v * v).sum())

    def goes_on(at):
        x, _, g, rate, good = at
        return (norm(g) > 1e-5) & ((good == 10) | (norm(x - (x - rate * g)) > 1e-5))

    def step(at):
        x, y, g, rate, good = at
        after = x - rate * g
        below = f(after)
        down = lambda: (after, below, slope(after), rate, good + 1)
        return jax.lax.cond(below < y, down, lambda: (x, y, g, rate / 2, 0))

    def turn(at):
        x, y, g, rate, good = at
        return jax.lax.cond(good == 10, lambda: (x, y, g, 2 * rate, 0), lambda: step(at))

    return jax.lax.while_loop(goes_on, turn, (start, f(start), slope(start), 1e-5, 0))[0]


def saddle(start):
    height = lambda x, y: (x * x).sum() - (y * y).sum()
    highest = lambda x: argmin(lambda y: -height(x, y), start)
    x = argmin(lambda x: height(x, highest(x)), start)
    return jnp.concatenate([x, highest(x)])


def miss(w):
    charges = [jnp.array([10.0, 10.0]) - jnp.array([0.0, 1.0]) * w[0], jnp.array([10.0, 0.0])]
    potential = lambda x: sum(1 / jnp.sqrt(((x - c) ** 2).sum()) for c in charges)

    def fall(at):
        x, after, v = at
        v = v - 0.1 * jax.jacfwd(potential)(x)
        return after, after + 0.1 * v, v

    x, v = jnp.array([0.0, 8.0]), jnp.array([0.75, 0.0])
    _, x, v = jax.lax.while_loop(lambda at: at[1][1] > 0, fall, (x, x + 0.1 * v, v))
    return (x[0] - x[1] / v[1] * v[0]) ** 2


def kmeans(points, centroids):
    squares = (points * points).sum(1)[:, None] + (centroids * centroids).sum(1)
    return (squares - 2 * points @ centroids.T).min(1).sum()


def direction(points, centroids):
    gradient = jax.grad(lambda c: kmeans(points, c))
    g, h = jax.jvp(gradient, (centroids,), (jnp.ones_like(centroids),))
    return g / h


def llsq(x, n):
    t = jnp.linspace(-1.0, 1.0, n)
    return 0.5 * jnp.sum((jnp.sign(t) - jnp.vander(t, len(x), increasing=True) @ x) ** 2)


def median(f, args, seconds=0.2, least=15):
    jax.block_until_ready(f(*args))
    times = []
    while len(times) < least or sum(times) < seconds:
        start = time.perf_counter()
        jax.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def report(name, gradient, objective, *args):
    slope, of = median(jax.jit(gradient), args), median(jax.jit(objective), args)
    print(json.dumps({"name": f"gradbench_{name}_ratio", "value": slope / of, "unit": "1"}))
    print(json.dumps({"name": f"gradbench_{name}_ms", "value": slope * 1e3, "unit": "ms"}), flush=True)


report("lse", jax.grad(jax.nn.logsumexp), jax.nn.logsumexp, jnp.array(random.random(100_000)))
polynomial = partial(llsq, n=4096)
report("llsq", jax.grad(polynomial), polynomial, jnp.array(random.random(128)))
points = jnp.array(random.random((10_000, 8)))
report("kmeans", direction, kmeans, points, points[:100])
hand, theta, us = recorded_hand()
posed = lambda theta, us: ht(hand, theta, us)
moved = lambda shift, theta, us: posed(theta, us + shift)
columns = lambda theta, us: jax.jacfwd(moved, (0, 1))(jnp.zeros(2), theta, us)
report("ht", columns, posed, theta, us)
# Computed by forward mode in forward mode: JAX has no counterpart of tapeloom's rows `rr`.
for name, f, start in [("saddle", saddle, jnp.ones(2)), ("particle", lambda w: argmin(miss, w), jnp.zeros(1))]:
    print(json.dumps({"name": f"gradbench_{name}_ff_ms", "value": median(jax.jit(f), (start,)) * 1e3, "unit": "ms"}))
for i, (n, s) in enumerate([(1000, 100), (100, 100), (10_000, 100), (1000, 1000)]):
    f = partial(ode, s)
    report("ode" if i == 0 else f"ode_{n}x{s}", jax.grad(lambda x: f(x)[-1]), f, jnp.array(random.random(n)))
for i, (l, c) in enumerate([(2, 1024), (1, 100), (4, 1024), (2, 4096)]):
    tables = [(2 * l, 56), (3, 14), (2 * l, 14)]
    args = [jnp.array(random.random(shape)) for shape in tables] + [jnp.array(random.random((c, 14)).round())]
    report("lstm" if i == 0 else f"lstm_{l}x{c}", jax.grad(lstm, (0, 1)), lstm, *args)
for i, n in enumerate([9, 5, 7]):
    report("det" if i == 0 else f"det_{n}", jax.grad(det), det, jnp.array(random.random((n, n))))
