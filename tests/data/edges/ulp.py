#!/usr/bin/env python3
"""Records values of functions, with which errors are measured in units in the last place (ulp).

    pip install jax==0.10.2 mpmath==1.4.1
    python3 ulp.py        # writes ulp.jsonl beside this file

The functions are those of `record.py` with nontrivial derivatives. Each is recorded on an interval of its own
(evenly spaced and random arguments), over all magnitudes, and near its roots. Values are computed by mpmath with
additional digits and rounded once to f64.
"""

import json, math, os, random

from mpmath import mp, mpf
from record import FUNCTIONS, ONE, double, real

VERSION = 1

# The interval of arguments of a function, if it is not [-5, 5].
STRETCH = {
    "exp": (-745, 709), "exp2": (-1074, 1023), "exp_m1": (-40, 709), "sinh": (-710, 710),
    "cosh": (-710, 710), "sech": (-744, 744), "tanh": (-22, 22), "asin": (-1, 1), "acos": (-1, 1),
    "atanh": (-1, 1), "erf_inv": (-1, 1), "acosh": (1, 4), "erf": (-6, 6), "erfc": (-6, 26.5),
    "ndtr": (-38, 9), "gelu": (-38, 9), "gelu_tanh": (-20, 9), "silu": (-740, 40), "sigmoid": (-740, 40),
    "softplus": (-740, 40), "log_sigmoid": (-40, 740), "elu_with(1.5)": (-40, 3), "lgamma": (-19, 30),
    "digamma": (-19, 30), "polygamma(1)": (-10, 30), "polygamma(2)": (-10, 30), "ln": (0, 10),
    "log2": (0, 10), "log10": (0, 10), "ln_1p": (-1, 10), "sqrt": (0, 10), "rsqrt": (0, 10),
    "powf(2.5)": (0, 10), "entr": (0, 3), "logit": (0, 1), "ndtri": (0, 1), "log_ndtr": (-40, 9),
    "celu(1.5)": (-60, 3), "selu": (-40, 3), "mish": (-740, 9), "sinc": (-20, 20),
}
# The roots of each function: the nearest f64 on both sides are recorded.
ROOTS = {
    "ln": [1.0], "log2": [1.0], "log10": [1.0], "acosh": [1.0], "acos": [1.0],
    "sin": [math.pi * k for k in (1, 2, 7, 1000)], "tan": [math.pi * k for k in (1, 2, 7, 1000)],
    "cos": [math.pi * (k + 0.5) for k in (0, 1, 7, 1000)],
    "lgamma": [1.0, 2.0, -2.4570247382208006, -2.7476826467274127, -3.14358088834998,
               -3.955294284858598, -4.039361839740537, -5.0082181683225935, -5.998607480080875,
               -8.000024800270682, -9.99999972442663, -12.000000002087676, -15.999999999999952],
    "digamma": [1.4616321449683622, -0.5040830082644554, -1.5734984731623904, -2.6107208684441447,
                -3.635293366436901, -5.6671624415568855, -9.702672540001863, -19.74308167259022],
}
# The arguments with the largest errors of some hundred thousand random ones.
WORST = {
    "tanh": [-0.20775229601793577, -0.20688927975196975, 0.21142890864213038],
    "sigmoid": [-1.9778953122346055, -4.144432627650813], "silu": [-26.178881063221247],
    "lgamma": [2.7703382811669255, 1.0001009958740552, 0.99992696762835, 2.009031865818077, 3.0589941420912576],
    "digamma": [2.9999999999894738, 0.9229409937821053, 0.8963111500746969, 0.49291254198961937, 1.0539858588825535],
}
# Functions left out: those that are exact by construction, and sums, whose error is that of the largest term. `beta`
# and its logarithm are compositions of `lgamma` with cancellation, `sinc` is the sine of a rounded product,
# and `squareplus` overflows a little early.
LEFT_OUT = ("floor", "ceil", "round", "trunc", "neg", "abs", "signum", "relu", "leaky", "clamp", "is_",
            "powf(0)", "powf(1)", "powi(0)", "nan", "to_", "ldexp", "hard_", "sparse", "maximum", "minimum",
            "fmax", "fmin", "rem", "div_floor", "mod_floor", "copysign", "heaviside", "beta", "kl_div",
            "rel_entr", "sinc", "squareplus")

# The smallest normal f64; below it, a unit in the last place does not measure relative error.
SMALLEST = 2.2250738585072014e-308


def around(x):
    points = [x * (1 + s * 10.0**-k) for k in range(1, 15) for s in (1, -1)]
    up, down = x, x
    for _ in range(4):
        up, down = math.nextafter(up, math.inf), math.nextafter(down, -math.inf)
        points += [up, down]
    return points + [x]


def arguments(kind, name):
    dice = random.Random(name)
    low, high = STRETCH.get(name, (-5, 5))
    anywhere = lambda: dice.choice([-1, 1]) * 10.0 ** dice.uniform(-300, 300)
    some = lambda: dice.uniform(low, high)
    if kind == "one":
        points = [low + (high - low) * (i + 0.5) / 60 for i in range(60)]
        points += [some() for _ in range(60)] + [anywhere() for _ in range(20)]
        points += [x for x in ONE if abs(x) < math.inf and x]
        points += WORST.get(name, [])
        return [[x] for x in points + [p for r in ROOTS.get(name, []) for p in around(r)]]
    n = 2 if kind == "two" else 3
    points = [[some() for _ in range(n)] for _ in range(60)]
    points += [[anywhere() for _ in range(n)] for _ in range(20)]
    points += [[dice.uniform(-100, 100) for _ in range(n)] for _ in range(60)]
    points += [[dice.uniform(-1, 1)] + [dice.uniform(-1e3, 1e3) for _ in range(n - 1)] for _ in range(60)]
    return points


def value(f, point):
    mp.dps = 60 + int(max(abs(math.log10(abs(x))) if x else 0 for x in point)) * 2
    try:
        y = f([mpf(x) for x in point])
        y = y[0] if isinstance(y, list) else y
        return double(real(y))
    except (ValueError, ZeroDivisionError, TypeError, OverflowError):
        return None


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ulp.jsonl")
    with open(path, "w") as file:
        file.write(json.dumps({"script": VERSION}) + "\n")
        for name, (kind, order, _, f) in FUNCTIONS.items():
            if f is None or order == 0 or name.startswith(LEFT_OUT):
                continue
            if kind == "row" and name != "logsumexp":
                continue
            pairs = [(p, value(f, p)) for p in arguments(kind, name)]
            pairs = [(p, y) for p, y in pairs if y is not None and SMALLEST <= abs(y) < math.inf]
            entry = {"name": name, "x": [p for p, _ in pairs], "y": [y for _, y in pairs]}
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
