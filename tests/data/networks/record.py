#!/usr/bin/env python3
"""Records values.jsonl: steps of optax and initial weights of JAX, for `tests/tests/programs/networks.rs`.

    pip install jax==0.10.2 optax==0.2.8
    python3 record.py            # writes values.jsonl beside this file

Each line is one case. An optimiser: its name, and the parameters (two leaves as one list) after each of six steps from
the start below, with gradients `(i + 1) x³` of element i. A schedule: its name, and its values at counts 0 to 12.
Initial weights: the function's name, and the weights for key 7, shape [2, 3, 4] and f64.
"""

import json, os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_threefry_partitionable", True)
import jax.numpy as jnp
import optax
from jax.nn import initializers

START = (jnp.array([1.0, -2.0, 0.5]), jnp.array([[0.25, 3.0]]))
OPTIMISERS = {
    "sgd": optax.sgd(0.01),
    "momentum": optax.sgd(0.01, momentum=0.9),
    "nesterov": optax.sgd(0.01, momentum=0.9, nesterov=True),
    "adam": optax.adam(0.1, b1=0.8, b2=0.95, eps=1e-6),
    "adamw": optax.adamw(0.1, weight_decay=0.01),
    "nadam": optax.nadam(0.1),
    "lamb": optax.lamb(0.1, weight_decay=0.01),
    "rmsprop": optax.rmsprop(0.01, decay=0.8, eps=1e-6),
    "rmsprop momentum": optax.rmsprop(0.01, momentum=0.5),
    "adagrad": optax.adagrad(0.1),
    "lion": optax.lion(0.01, weight_decay=0.1),
    "chain": optax.chain(optax.clip_by_global_norm(5.0), optax.clip(2.0), optax.add_decayed_weights(0.1),
                         optax.adam(optax.cosine_decay_schedule(0.1, 4))),
    "ema": optax.chain(optax.ema(0.8), optax.sgd(0.01)),
    "accumulate": optax.MultiSteps(optax.sgd(0.01, momentum=0.9), 2),
}
SCHEDULES = {
    "linear": optax.linear_schedule(1.0, 0.25, 8),
    "cosine": optax.cosine_decay_schedule(2.0, 8),
    "exponential": optax.exponential_decay(1.0, 4, 0.5),
    "piecewise": optax.piecewise_constant_schedule(1.0, {3: 0.5, 7: 0.1}),
    "warm up": optax.warmup_cosine_decay_schedule(0.0, 1.0, 4, 12),
    "joined": optax.join_schedules([optax.linear_schedule(0.0, 1.0, 5), optax.constant_schedule(0.5)], [5]),
}
WEIGHTS = {name: getattr(initializers, name)() for name in
           ["glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_uniform", "lecun_normal"]}


def gradient(p):
    x = jnp.concatenate([p[0], p[1].ravel()])
    g = (jnp.arange(5) + 1.0) * x**3
    return g[:3], g[3:].reshape(1, 2)


def steps(optimiser):
    p, state, out = START, optimiser.init(START), []
    for _ in range(6):
        updates, state = optimiser.update(gradient(p), state, p)
        p = optax.apply_updates(p, updates)
        out.append([float(x) for leaf in p for x in leaf.ravel()])
    return out


with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "values.jsonl"), "w") as f:
    for name, optimiser in OPTIMISERS.items():
        f.write(json.dumps({"optimiser": name, "steps": steps(optimiser)}) + "\n")
    for name, schedule in SCHEDULES.items():
        f.write(json.dumps({"schedule": name, "numbers": [float(schedule(t)) for t in range(13)]}) + "\n")
    for name, weights in WEIGHTS.items():
        w = weights(jax.random.key(7), (2, 3, 4), jnp.float64)
        f.write(json.dumps({"weights": name, "numbers": [float(x) for x in w.ravel()]}) + "\n")
