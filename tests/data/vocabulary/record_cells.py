#!/usr/bin/env python3
"""Records cells.jsonl: steps of recurrent cells by the formulas in PyTorch's documentation of LSTMCell and GRUCell.

Run `python3 record_cells.py > cells.jsonl` with jax 0.10.2. `cases.py` describes a line. The weights are those of
PyTorch, `[gates hidden, inputs]`, and are recorded transposed.
"""

import jax
import jax.numpy as jnp

from cases import case, header, normal

header()
sigmoid = jax.nn.sigmoid


def lstm(x, h, c, w, u, b, d):
    gates = x @ w + b + h @ u + d
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
    return [sigmoid(o) * jnp.tanh(c), c]


def gru(x, h, w, u, b, d):
    wr, wz, wn = jnp.split(x @ w + b, 3, axis=-1)
    ur, uz, un = jnp.split(h @ u + d, 3, axis=-1)
    r, z = sigmoid(wr + ur), sigmoid(wz + uz)
    n = jnp.tanh(wn + r * un)
    return (1 - z) * n + z * h


for batch in [(), (4,)]:
    x, h, c = normal(*batch, 2), normal(*batch, 3), normal(*batch, 3)
    case("lstm_cell", lstm, x, h, c, normal(12, 2).T, normal(12, 3).T, normal(12), normal(12))
    case("gru_cell", gru, x, h, normal(9, 2).T, normal(9, 3).T, normal(9), normal(9))
