#!/usr/bin/env python3
"""Records values.jsonl: samples of JAX, for `tests/tests/programs/randomness.rs`.

    pip install jax==0.10.2 mpmath==1.4.1
    python3 record.py            # writes values.jsonl beside this file

Each line is one case: the function, the seed of its key, its arguments, the dtype and shape of the sample, and the
sample's numbers, printed such that they parse to the same bits. Where JAX's functions have errors of dozens of units in
the last place (its logarithms near 1/2, its inverse error function), the sample is computed by mpmath from JAX's uniform
numbers. A key is JAX's pair of 32-bit words as one number, the first word high.
"""

import json, os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
import jax
import mpmath
import numpy as np
from mpmath import mp, mpf

mp.dps = 40

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_threefry_partitionable", True)
import jax.numpy as jnp
from jax import random

NAMES = {"float64": "f64", "float32": "f32", "int64": "i64", "int32": "i32", "uint64": "u64",
         "uint32": "u32", "bool": "bool"}
DTYPES = {v: k for k, v in NAMES.items()}
LINES = []


def words(keys):
    pairs = np.asarray(random.key_data(keys)).astype(np.uint64)
    return (pairs[..., 0] << np.uint64(32)) | pairs[..., 1]


def case(f, seed, out, **args):
    out = np.asarray(out)
    LINES.append({"f": f, "seed": seed, "args": args, "dtype": NAMES[out.dtype.name],
                  "shape": list(out.shape), "data": out.flatten().tolist()})


def exact(f, dtype, u):
    return np.asarray([float(f(mpf(float(x)))) for x in u], dtype)


for seed in [0, 1, -1, 42, 2**32, 123456789012345]:
    key = random.key(seed)
    case("key", seed, words(key))
    case("split_n", seed, words(random.split(key, 5)), n=5)
    for data in [0, 1, -1, 2**31, 2**32 - 1]:
        case("fold_in", seed, words(random.fold_in(key, np.uint32(data % 2**32))), data=data)

for seed in [0, 7, 123456789012345]:
    key = random.key(seed)
    for shape in [(), (9,), (3, 4), (2, 0), (2, 3, 5)]:
        for dtype in ["u32", "u64"]:
            case("bits", seed, random.bits(key, shape, DTYPES[dtype]))
    for dtype in ["f32", "f64"]:
        d = DTYPES[dtype]
        case("uniform", seed, random.uniform(key, (101,), d))
        case("uniform_between", seed, random.uniform(key, (5, 7), d, -1.5, 2.25), low=-1.5, high=2.25)
        tiny, above = np.finfo(d).tiny, np.nextafter(np.asarray(-1, d), np.asarray(0, d))
        of = lambda f, n, *bounds: exact(f, d, random.uniform(key, (n,), d, *bounds))
        case("normal", seed, of(lambda u: mp.sqrt(2) * mp.erfinv(u), 1001, above, 1))
        case("gumbel", seed, of(lambda u: -mp.log(-mp.log(u)), 301, tiny, 1))
        case("exponential", seed, of(lambda u: -mp.log1p(-u), 301))
        case("laplace", seed, of(lambda u: mp.sign(u) * mp.log1p(-abs(u)), 301, above, 1))
        case("truncated_normal", seed, random.truncated_normal(key, -0.5, 2.0, (301,), d), low=-0.5, high=2.0)
        case("bernoulli", seed, random.bernoulli(key, np.asarray(0.3, d), (101,)), p=0.3, of=dtype)
        logits = jnp.asarray(np.cos(np.arange(600.0)).reshape(100, 6), d)
        case("categorical", seed, random.categorical(key, logits), of=dtype)
    for n in [0, 1, 2, 3, 100, 2000]:
        case("permutation", seed, random.permutation(key, n), n=n)
    rows = jnp.arange(12.0).reshape(4, 3)
    case("shuffle", seed, random.permutation(key, rows, axis=1), axis=1)
    case("choice", seed, random.choice(key, rows, (2, 5)))
    for dtype in ["i32", "i64", "u32", "u64"]:
        for low, high in [(0, 7), (3, 3), (5, 2), (0, 2**31 - 1), (10, 1000)]:
            case("randint", seed, random.randint(key, (33,), low, high, DTYPES[dtype]), low=low, high=high)
    for low, high in [(-5, 6), (-2**31, 2**31 - 1)]:
        case("randint", seed, random.randint(key, (33,), low, high, "int32"), low=low, high=high)
    case("randint", seed, random.randint(key, (33,), -2**63, 2**63 - 1, "int64"), low=-2**63, high=2**63 - 1)
    case("rademacher", seed, random.rademacher(key, (50,), "int32"))

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values.jsonl")
with open(path, "w") as file:
    file.write(json.dumps({"jax": jax.__version__, "script": 1}) + "\n")
    for line in LINES:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")
