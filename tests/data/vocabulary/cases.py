"""Writes recorded cases: shared by the scripts in this folder.

Each line is one case: the function's name, its arguments, the results ("out"), and for float arguments the derivative
of the sum of the float results, weighted by cos(1), cos(2), .. ("grad"). Values are computed by "ref" if it is given
(scipy or numpy, which are more exact), otherwise by JAX; derivatives by "slopes" if it is given (where JAX's lose
digits), otherwise by JAX. The arguments of cases with "edge" are points where a function has a kink, a pole or an
end of its domain.
"""

import json

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
import scipy.special as sp

jax.config.update("jax_enable_x64", True)
VERSION = 1
RNG = np.random.default_rng(5)
INF, NAN = float("inf"), float("nan")


def write(x):
    x = np.asarray(x)
    names = {"float64": "f64", "float32": "f32", "int64": "i64", "int32": "i32", "uint64": "u64",
             "uint32": "u32", "bool": "bool"}
    def one(v):
        if isinstance(v, float) and not np.isfinite(v):
            return "nan" if v != v else ("inf" if v > 0 else "-inf")
        return v
    return {"dtype": names[x.dtype.name], "shape": list(x.shape), "data": [one(v) for v in x.flatten().tolist()]}


def listed(y):
    return list(y) if isinstance(y, (list, tuple)) else [y]


def case(name, f, *args, ref=None, edge=False, grad=True, slopes=None):
    args = [np.asarray(a) for a in args]
    with np.errstate(all="ignore"):
        out = [np.asarray(y) for y in listed((ref or f)(*args))]
    line = {"f": name, "edge": edge, "args": [write(a) for a in args], "out": [write(y) for y in out]}
    floats = [i for i, a in enumerate(args) if a.dtype.kind == "f"]
    if grad and floats and all(y.dtype.kind == "f" for y in out):
        def weighted(*x):
            all = list(args)
            for i, v in zip(floats, x):
                all[i] = v
            total = 0.0
            for y in listed(f(*all)):
                y = jnp.ravel(y)
                total = total + jnp.sum(y * jnp.cos(1.0 + jnp.arange(y.size)))
            return total
        if slopes is None:
            grads = jax.grad(weighted, argnums=tuple(range(len(floats))))(*[args[i] for i in floats])
        else:
            with np.errstate(all="ignore"):
                given = slopes(*args)
            weights = np.cos(1.0 + np.arange(out[0].size)).reshape(out[0].shape)
            grads = [g * weights for g in given]
            grads = [g if g.shape == a.shape else g.sum(axis=0) for g, a in zip(grads, args)]
        line["grad"] = [write(g) for g in grads]
    print(json.dumps(line))


def normal(*shape):
    return RNG.normal(size=shape)


def uniform(low, high, *shape):
    return RNG.uniform(low, high, size=shape)


ENDS = [-INF, -1e300, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.5, 1e300, INF, NAN]


def one(name, f, ref=None, x=None, edges=ENDS, grad=True):
    case(name, f, normal(7) * 2 if x is None else x, ref=ref, grad=grad)
    if edges:
        case(name, f, np.array(edges), ref=ref, edge=True, grad=grad)


def two(name, f, ref=None, x=None, y=None, edges=None, grad=True, slopes=None):
    case(name, f, normal(2, 3) * 2 if x is None else x, normal(3) * 2 if y is None else y, ref=ref, grad=grad, slopes=slopes)
    if edges:
        pairs = np.array([(a, b) for a in edges for b in edges])
        case(name, f, pairs[:, 0], pairs[:, 1], ref=ref, edge=True, grad=grad, slopes=slopes)


def header():
    print(json.dumps({"version": VERSION, "jax": jax.__version__, "numpy": np.__version__}))
