#!/usr/bin/env python3
"""Records values.jsonl: the results and gradients that JAX computes for convolutions and windows.

Run `python3 record.py > values.jsonl` with jax 0.10.2.

Each line is one case: the function's name, the movement of windows ("how"), the arguments, the result ("out"), and the
derivative of the sum of the result's elements, weighted by cos(1), cos(2), .. ("grad"). Elements of arguments are small
numbers that all differ, so that the largest element of a window is unique.
"""

import itertools
import json

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

jax.config.update("jax_enable_x64", True)
VERSION = 1
rng = np.random.default_rng(7)


def write(x):
    x = np.asarray(x)
    names = {"float64": "f64", "float32": "f32"}
    data = ["-inf" if v == -np.inf else "inf" if v == np.inf else v for v in x.flatten().tolist()]
    return {"dtype": names[x.dtype.name], "shape": list(x.shape), "data": data}


def numbers(shape):
    n = int(np.prod(shape))
    return (rng.permutation(n).reshape(shape) - n // 2) / 8.0


def case(name, how, f, *args, grad=True):
    out = f(*args)

    def weighted(*x):
        y = jnp.ravel(f(*x))
        return jnp.sum(y * jnp.cos(1.0 + jnp.arange(y.size, dtype=y.dtype)))

    grads = jax.grad(weighted, argnums=tuple(range(len(args))))(*args) if grad else None
    line = {
        "f": name,
        "how": how,
        "args": [write(a) for a in args],
        "out": [write(out)],
        "grad": [write(g) for g in grads] if grad else None,
    }
    print(json.dumps(line, separators=(",", ":")))


def conv(x, w, dtype=np.float64, strides=None, padding="VALID", dilation=None, input_dilation=None, groups=1, layout=None):
    d = len(x) - 2
    how = {"strides": strides or [], "padding": padding, "dilation": dilation or [], "input_dilation": input_dilation or [],
           "groups": groups, "layout": layout}
    numbers_of = tuple(layout) if layout else None

    def f(x, w):
        return lax.conv_general_dilated(
            x, w, strides or [1] * d, padding, lhs_dilation=input_dilation, rhs_dilation=dilation,
            dimension_numbers=numbers_of, feature_group_count=groups)

    case("conv", how, f, numbers(x).astype(dtype), numbers(w).astype(dtype))


def pool(name, x, sizes, axes, strides=None, padding="VALID", dilation=None, input_dilation=None):
    how = {"sizes": sizes, "axes": axes, "strides": strides or [], "padding": padding, "dilation": dilation or [],
           "input_dilation": input_dilation or []}
    rank = len(x)

    def spread(of, other):
        full = [other] * rank
        for axis, n in zip(axes, of or [other] * len(axes)):
            full[axis] = n
        return full

    pads = padding
    if not isinstance(padding, str):
        pads = spread([tuple(p) for p in padding], (0, 0))
    init, op = {"max_pool": (-np.inf, lax.max), "min_pool": (np.inf, lax.min), "sum_pool": (0.0, lax.add)}[name]

    def f(x):
        return lax.reduce_window(x, np.float64(init), op, spread(sizes, 1), spread(strides, 1), pads,
                                 base_dilation=spread(input_dilation, 1), window_dilation=spread(dilation, 1))

    # JAX does not implement the transpose of extrema over windows of a dilated array.
    grad = name == "sum_pool" or not (dilation or input_dilation)
    case(name, how, f, numbers(x), grad=grad)


def some(*lists):
    """Returns every fourth combination: 4 has no factor in common with 3 and 5, the lengths of the lists, so all pairs of entries occur."""
    return itertools.islice(itertools.product(*lists), 0, None, 4)


def main():
    print(json.dumps({"version": VERSION, "jax": jax.__version__}))
    # Convolutions along one axis: with remainders, with kernels larger than the array, and with empty arrays.
    for padding, n, k, stride, dilation, spread in some(
            ["VALID", "SAME", "SAME_LOWER", [[2, 1]], [[-1, 0]]], [0, 1, 5], [1, 3, 4], [1, 2, 3], [2, 1, 1], [1, 1, 2]):
        if n == 0 and (padding == [[-1, 0]] or spread == 2):
            continue
        try:
            conv([1, 2, n], [2, 2, k], strides=[stride], padding=padding, dilation=[dilation], input_dilation=[spread])
        except ValueError:
            pass  # a negative extent
    # Convolutions along two axes: groups, layouts and dtypes.
    for dtype, groups, strides, padding in itertools.product(
            [np.float64, np.float32], [1, 2, 4], [[1, 1], [2, 3]], ["VALID", "SAME"]):
        conv([2, 4, 5, 4], [4, 4 // groups, 3, 2], dtype, strides, padding, groups=groups)
    conv([1, 4, 6, 5], [8, 1, 3, 3], padding=[[2, 1], [0, 3]], groups=4, dilation=[2, 1], strides=[1, 2], input_dilation=[1, 2])
    conv([2, 3, 4, 4], [5, 3, 1, 1])
    conv([0, 3, 4, 4], [5, 3, 2, 2])
    conv([2, 3, 4, 4], [0, 3, 2, 2])
    for layout, x, w in [
            (["NHWC", "HWIO", "NHWC"], [2, 5, 4, 2], [3, 2, 2, 3]),
            (["NHWC", "OIHW", "NCHW"], [2, 5, 4, 2], [3, 2, 3, 2]),
            (["HWNC", "HWIO", "CNWH"], [5, 4, 2, 2], [3, 2, 2, 3]),
            (["CHWN", "IHWO", "HWNC"], [2, 5, 4, 2], [2, 3, 2, 3])]:
        conv(x, w, layout=layout, strides=[2, 1], padding=[[1, 0], [0, 2]])
    conv([1, 2, 3, 4, 3], [2, 2, 2, 2, 2], strides=[1, 2, 1], padding="SAME")
    conv([2, 3], [4, 3])
    for n, k, stride, padding, dilation in some([1, 4, 3], [1, 2, 3, 4, 5], [1, 2, 3], ["VALID", "SAME", [[1, 2]]], [1, 2, 1]):
        how = {"strides": [stride], "padding": padding, "dilation": [dilation]}

        def f(x, w):
            return lax.conv_transpose(x, w, [stride], padding, rhs_dilation=[dilation],
                                      dimension_numbers=("NCW", "OIW", "NCW"))

        case("conv_transpose", how, f, numbers([1, 2, n]), numbers([3, 2, k]))
    # Sums and extrema over windows.
    for name, k, stride, padding in itertools.product(
            ["max_pool", "min_pool", "sum_pool"], [1, 2, 3, 6], [1, 2], ["VALID", "SAME", [[1, 2]]]):
        pool(name, [5], [k], [0], [stride], padding)
    for name in ["max_pool", "sum_pool"]:
        pool(name, [2, 5, 6, 2], [2, 3], [1, 2], [2, 2], "SAME")
        pool(name, [3, 4], [2, 2], [1, 0], [1, 2])
        pool(name, [7], [3], [0], [2], [[2, 3]], dilation=[2])
        pool(name, [4], [3], [0], [1], [[1, 1]], input_dilation=[3])
    # `convolve` and `correlate` of sequences.
    for name, n, m, mode in itertools.product(["convolve", "correlate"], [1, 4, 5], [1, 2, 3, 6], ["full", "same", "valid"]):
        f = {"convolve": jnp.convolve, "correlate": jnp.correlate}[name]
        case(name, {"mode": mode}, lambda a, v: f(a, v, mode=mode), numbers([n]), numbers([m]))


main()
