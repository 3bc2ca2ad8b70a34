#!/usr/bin/env python3
"""Records segments.jsonl: reductions over segments, of JAX.

Run `python3 record_segments.py > segments.jsonl` with jax 0.10.2. `cases.py` describes a line.
"""

import jax
import jax.numpy as jnp
import numpy as np

from cases import INF, NAN, case, header, normal

header()
N = 3
IDS = np.array([2, 0, 2, 0, 1, 2])
LOST = np.array([2, -1, 2, 0, 3, 100])  # Segment 1 has no elements.
# JAX has no derivative of `segment_prod`.
each = lambda x, i, n: jnp.stack([jnp.prod(x, 0, where=(i == k).reshape([-1] + [1] * (x.ndim - 1))) for k in range(n)])
KINDS = {"sum": jax.ops.segment_sum, "prod": each, "max": jax.ops.segment_max, "min": jax.ops.segment_min}
for name, f in KINDS.items():
    for ids in [IDS, LOST]:
        shape = (6,) if ids is IDS else (6, 2)
        edge = ids is LOST and name in ["max", "min"]  # Differences of infinities are nan.
        case("segment_" + name, lambda x, i, f=f: f(x, i, N), normal(*shape), ids, edge=edge)
    case("segment_" + name, lambda x, i, f=f: f(x, i, N), np.array([5, -2, 7, 0, 3, 1]), IDS)
    case("segment_" + name, lambda x, i, f=f: f(x, i, N), np.array([1.0, 2.0, 1.0, NAN, INF, 1.0]), IDS, edge=True, grad=False)
    case("segment_" + name, lambda x, i, f=f: f(x, i, N), np.array([1.0, 2.0, 1.0, 2.0, 3.0, 1.0]), IDS, edge=True)


def mean(x, ids):
    count = jax.ops.segment_sum(jnp.ones(6), ids, N)
    return jax.ops.segment_sum(x, ids, N) / jnp.maximum(count, 1.0).reshape([-1] + [1] * (x.ndim - 1))


def softmax(x, ids):
    e = jnp.exp(x)
    inside = ((ids >= 0) & (ids < N)).reshape([-1] + [1] * (x.ndim - 1))
    total = jax.ops.segment_sum(e, ids, N)[jnp.clip(ids, 0, N - 1)]
    return jnp.where(inside, e / jnp.where(inside, total, 1.0), 0.0)


for ids in [IDS, LOST]:
    for shape in [(6,), (6, 2)]:
        case("segment_mean", mean, normal(*shape), ids)
        case("segment_softmax", softmax, normal(*shape), ids)
case("segment_softmax", None, np.array([1000.0, 0.0, 1000.0, -INF, 5.0, 0.0]), IDS, edge=True, grad=False,
     ref=lambda x, i: np.array([0.5, 1.0, 0.5, 0.0, 1.0, 0.0]))
