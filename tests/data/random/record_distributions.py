#!/usr/bin/env python3
"""Records distributions.jsonl: samples that JAX draws by rejection, for `tests/tests/programs/distributions.rs`.

    pip install jax==0.10.2
    python3 record_distributions.py            # writes distributions.jsonl beside this file

Each line is one case: the function, the seed of its key, its parameters, the dtype and shape of the sample, and the
sample's numbers.
"""

import json, os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import numpy as np

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_threefry_partitionable", True)
from jax import random

LINES = []


def case(f, seed, out, *params):
    out = np.asarray(out)
    LINES.append({"f": f, "seed": seed, "params": [np.asarray(p).tolist() for p in params],
                  "dtype": {"float64": "f64", "float32": "f32"}[out.dtype.name],
                  "shape": list(out.shape), "data": out.flatten().tolist()})


SHAPES = np.array([1e-3, 0.05, 0.7, 1.0, 1.5, 3.0, 40.0, 1e4])
for seed in [0, 42]:
    key = random.key(seed)
    for d in [np.float64, np.float32]:
        a = SHAPES.astype(d)
        case("gamma", seed, random.gamma(key, a, (5, 8), d), a)
        case("loggamma", seed, random.loggamma(key, a, (5, 8), d), a)
        case("student_t", seed, random.t(key, a[3:], (5, 5), d), a[3:])
        case("beta", seed, random.beta(key, a, a[::-1], (5, 8), d), a, a[::-1])
        case("dirichlet", seed, random.dirichlet(key, a[:5], (5,), d), a[:5])
        case("cauchy", seed, random.cauchy(key, (30,), d))
        case("logistic", seed, random.logistic(key, (30,), d))
    x = np.arange(12.0) ** 2
    w = np.abs(np.sin(np.arange(12.0)))
    case("ball", seed, random.ball(key, 3, 2.0, (6,), np.float64), 2.0)
    case("ball", seed, random.ball(key, 3, 1.0, (6,), np.float64), 1.0)
    case("choice_without_replacement", seed, random.choice(key, x, (5,), replace=False), x)
    case("weighted_choice", seed, random.choice(key, x, (30,), p=w), x, w)
    case("weighted_choice_without_replacement", seed, random.choice(key, x, (5,), replace=False, p=w), x, w)

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "distributions.jsonl")
with open(path, "w") as file:
    for line in LINES:
        file.write(json.dumps(line) + "\n")
