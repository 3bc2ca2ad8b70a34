#!/usr/bin/env python3
"""Records interpolation.jsonl: `map_coordinates` of SciPy.

Run `python3 record_interpolation.py > interpolation.jsonl` with jax 0.10.2 and scipy 1.16 or newer.

`cases.py` describes a line. Derivatives are those of JAX for orders 0 and 1; for order 3 they are those of the sum of
B-splines over a long piece of the continued array.
"""

from functools import partial

import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from scipy import ndimage

from cases import case, header, normal, uniform

header()
VALUE = 0.7
BORDERS = {"constant": "constant", "grid_constant": "grid-constant", "nearest": "nearest", "mirror": "mirror",
           "reflect": "reflect", "wrap": "grid-wrap"}


def source(i, n, border):
    """Returns the index of the element at point i of the continued array, or n for the constant."""
    if border == "grid_constant":
        return i if 0 <= i < n else n
    if border == "nearest":
        return min(max(i, 0), n - 1)
    if border == "reflect":
        i = i % (2 * n)
        return min(i, 2 * n - 1 - i)
    if border == "wrap":
        return i % n
    i = i % max(2 * (n - 1), 1)
    return min(i, 2 * (n - 1) - i)


def bspline(t):
    t = jnp.abs(t)
    return jnp.where(t < 1, 2 / 3 - t**2 * (1 - t / 2), jnp.where(t < 2, jnp.maximum(2 - t, 0) ** 3 / 6, 0))


def weights(c, n, border):
    """Returns the weights [.., n + 1] of the elements and of the constant at coordinates along an axis."""
    margin = 12 if border in ["nearest", "grid_constant"] else 0
    ends = {"nearest": "reflect", "constant": "mirror", "grid_constant": "mirror"}.get(border, border)
    m = n + 2 * margin
    matrix = np.zeros((m, m))
    for i in range(m):
        for offset, w in [(-1, 1 / 6), (0, 4 / 6), (1, 1 / 6)]:
            matrix[i, source(i + offset, m, ends)] += w
    take = np.zeros((m, n + 1))
    for i in range(m):
        take[i, source(i - margin, n, border)] = 1
    coefficients = np.concatenate([np.linalg.solve(matrix, take), np.eye(n + 1)[n:]])
    if border == "nearest":
        c = jnp.clip(c, -margin, n - 1 + margin)
    points = np.arange(-40, m + 40)
    rows = coefficients[[source(i, m, border) for i in points]]
    return bspline((c + margin)[..., None] - points) @ rows


def cubic(x, *c, border):
    n = x.shape
    y = jnp.pad(x, [(0, 1)] * x.ndim, constant_values=VALUE)
    w = [weights(c, n, border) for c, n in zip(c, n)]
    y = jnp.einsum("pi,pj,ij->p", *w, y) if len(c) == 2 else jnp.einsum("pi,i->p", *w, y)
    if border == "constant":
        inside = jnp.all(jnp.stack([(c >= 0) & (c <= n - 1) for c, n in zip(c, n)]), 0)
        y = jnp.where(inside, y, VALUE)
    return y


def linear(x, *c, border, order):
    y = map_coordinates(x, list(c), order, mode="constant" if "constant" in border else border, cval=VALUE)
    if border == "constant":
        inside = jnp.all(jnp.stack([(c >= 0) & (c <= n - 1) for c, n in zip(c, x.shape)]), 0)
        y = jnp.where(inside, y, VALUE)
    return y


def scipy(x, *c, border, order):
    return ndimage.map_coordinates(x, np.broadcast_arrays(*c), order=order, mode=BORDERS[border], cval=VALUE)


IMAGE = normal(4, 5)
for border in BORDERS:
    for order in [0, 1, 3]:
        f = partial(cubic, border=border) if order == 3 else partial(linear, border=border, order=order)
        name = f"map_coordinates.{order}.{border}"
        ref = partial(scipy, border=border, order=order)
        if (order, border) == (3, "reflect"):
            ref = f  # SciPy's spline misses the elements of this continuation by 1e-9 for 7 points, by 1e-4 for 2.
        case(name, f, IMAGE, uniform(-3, 7, 6), uniform(-4, 8, 6), ref=ref)
        case(name, f, normal(7), np.append(uniform(-9, 16, 4), 2.4), ref=ref)
        case(name, f, normal(7), np.array([0.0, 2.0, 6.0]), ref=ref, edge=True, grad=False)
        case(name, f, normal(2), np.append(uniform(-3, 4, 4), 0.4), ref=ref)
        case(name, f, normal(1), uniform(-3, 4, 5), ref=ref, edge=True, grad=False)
