#!/usr/bin/env python3
"""Records values.jsonl: special functions and their derivatives with respect to parameters, by mpmath.

    pip install mpmath==1.4.1 gmpy2
    python3 record.py            # writes values.jsonl beside this file; takes a quarter of an hour

Each line is one function: its name, the way in which arguments are drawn, and the values, as little-endian f64 in base64.
Arguments are drawn here and in `tests/tests/laws/special/data.rs` by the same congruential generator and by arithmetic
that rounds the same on every machine; every second row of arguments is rounded to f32, so that it serves for both
dtypes. Values that are not normal numbers are recorded as nan, and are not compared.
"""

import base64, json, math, multiprocessing, os, struct

from mpmath import mp, mpf

VERSION = 1
SMALLEST = 2.2250738585072014e-308


class Dice:
    def __init__(self, seed):
        self.state = seed

    def roll(self):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 11) * 2.0**-53


def draw(dice, piece, before):
    """Returns one argument, drawn as `piece` says from the generator and from the arguments before it."""
    kind, low, high = piece
    u = dice.roll()
    if kind == "even":
        return low + (high - low) * u
    if kind == "scale":  # (1 + u) 2ᵏ for an integer k
        k = math.floor(low + (high - low) * dice.roll())
        return math.ldexp(1.0 + u, k)
    if kind == "gamma":  # the mean plus low to high standard deviations of a gamma distribution
        a = before[0]
        return abs(a + (low + (high - low) * u) * math.sqrt(a))
    if kind == "beta":
        a, b = before
        mean = a / (a + b)
        x = mean + (low + (high - low) * u) * math.sqrt(mean * (1.0 - mean) / (a + b))
        return x if 0.0 < x < 1.0 else u
    raise ValueError(kind)


def narrow(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def arguments(seed, count, pieces):
    """Returns rows of arguments; each argument cycles through its kinds, such that all combinations of kinds occur."""
    dice, rows = Dice(seed), []
    for i in range(count):
        row, turn = [], i // 2
        for choices in pieces:
            x = draw(dice, choices[turn % len(choices)], row)
            turn //= len(choices)
            row.append(narrow(x) if i % 2 else x)
        rows.append(row)
    return rows


# -- The functions

REAL = [["even", -25, 25], ["scale", -40, 9], ["even", -700, 700]]
WIDE = [["even", -25, 25], ["scale", -100, 100], ["even", -700, 700]]
WAVES = [["even", 0, 30], ["scale", -40, 20], ["even", -1000, 1000]]
RIGHT = [["even", 0, 30], ["scale", -40, 20], ["even", 0, 1000]]
DECAY = [["even", 0, 3], ["scale", -100, 9], ["even", 0, 700]]
GAMMA = [[["scale", -12, 4], ["scale", 3, 16]], [["gamma", -6, 6], ["scale", -20, 5], ["gamma", -2, 2]]]
SIZE = [["scale", -10, 4], ["scale", 3, 10]]
BETA = [SIZE, SIZE, [["beta", -6, 6], ["even", 0, 1], ["beta", -2, 2], ["scale", -30, -1]]]
ZETA = [[["even", 1.05, 12], ["scale", 1, 6], ["even", 1.0001, 2]], [["even", 0, 3], ["scale", -8, 8], ["even", 0, 40]]]


KUMMER = [[["even", 0, 8], ["scale", -4, 3]], [["even", 0, 8], ["scale", -2, 3]], [["even", -30, 30], ["even", -600, 600]]]


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


def dawson(x):
    return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def slope(f, i, order):
    """Returns the derivative of this order with respect to argument i, by differences with additional digits."""
    def g(*x):
        h = mpf(10) ** -30
        at = lambda k: f(*[x + k * h if j == i else x for j, x in enumerate(x)])
        if order == 1:
            return (at(1) - at(-1)) / (2 * h)
        return (at(1) - 2 * at(0) + at(-1)) / h**2
    return g


def mixed(f):
    def g(a, b, x):
        h = mpf(10) ** -30
        return (f(a + h, b + h, x) - f(a + h, b - h, x) - f(a - h, b + h, x) + f(a - h, b - h, x)) / (4 * h * h)
    return g


def lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def beta(a, b, x):
    # Sum the series of positive terms from the side on which it converges fast.
    if x > 0.6:
        return 1 - beta_series(b, a, 1 - x)
    return beta_series(a, b, x)


def beta_series(a, b, x):
    term, total, k = mpf(1), mpf(1), 0
    while term > total * mp.eps / 1000:
        term *= (a + b + k) * x / (a + 1 + k)
        total += term
        k += 1
    return total * x**a * (1 - x) ** b * mp.exp(mp.loggamma(a + b) - mp.loggamma(a + 1) - mp.loggamma(b))


def dilogarithm(x):
    return mp.re(mp.polylog(2, 1 - x))


def scaled_bessel(orders, factors, odd):
    """Returns exp(-a) Σ f Iₙ(a) for a = |x|, the orders n and their factors f, times the sign of x if it is odd."""
    def g(x):
        a = abs(x)
        return mp.sign(x)**odd * mp.exp(-a) * sum(f * mp.besseli(n, a) for n, f in zip(orders, factors))
    return g


FUNCTIONS = {
    "i0": (1000, [REAL], lambda x: mp.besseli(0, x)),
    "i1": (1000, [REAL], lambda x: mp.besseli(1, x)),
    "i0e": (1000, [WIDE], lambda x: mp.besseli(0, x) * mp.exp(-abs(x))),
    "i1e": (1000, [WIDE], lambda x: mp.besseli(1, x) * mp.exp(-abs(x))),
    "bessel_j0": (1000, [WAVES], lambda x: mp.besselj(0, x)),
    "bessel_j1": (1000, [WAVES], lambda x: mp.besselj(1, x)),
    "bessel_jn(2)": (400, [WAVES], lambda x: mp.besselj(2, x)),
    "bessel_jn(7)": (1000, [WAVES], lambda x: mp.besselj(7, x)),
    "bessel_y0": (1000, [RIGHT], lambda x: mp.bessely(0, x)),
    "bessel_y1": (1000, [RIGHT], lambda x: mp.bessely(1, x)),
    "exp1": (1000, [DECAY], mp.e1),
    "expn(3)": (1000, [DECAY], lambda x: mp.expint(3, x)),
    "expi": (1000, [REAL + [["even", 0.3, 0.45], ["even", -2, 2]]], mp.ei),
    "spence": (1000, [[["even", 0, 3], ["scale", -100, 100], ["even", 0.9, 1.1]]], dilogarithm),
    "erfc_inv": (1000, [[["even", 0, 2], ["scale", -120, -1]]], lambda x: mp.erfinv(1 - x)),
    "gammainc": (1000, GAMMA, lower),
    "gammaincc": (1000, GAMMA, upper),
    "betainc": (1000, BETA, beta),
    "zeta": (1000, ZETA, mp.zeta),
    "gammainc, ∂a": (500, GAMMA, slope(lower, 0, 1)),
    "gammainc, ∂a²": (300, GAMMA, slope(lower, 0, 2)),
    "gammainc, ∂x": (300, GAMMA, lambda a, x: mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))),
    "betainc, ∂a": (500, BETA, slope(beta, 0, 1)),
    "betainc, ∂b": (500, BETA, slope(beta, 1, 1)),
    "betainc, ∂a²": (300, BETA, slope(beta, 0, 2)),
    "betainc, ∂b²": (300, BETA, slope(beta, 1, 2)),
    "betainc, ∂a∂b": (300, BETA, mixed(beta)),
    "betainc, ∂x": (300, BETA, lambda a, b, x: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)),
    "zeta, ∂s": (400, ZETA, lambda s, q: mp.zeta(s, q, 1)),
    "zeta, ∂s²": (200, ZETA, lambda s, q: mp.zeta(s, q, 2)),
    "spence, ∂x²": (200, [[["even", 0, 3], ["scale", -20, 20], ["even", 0.9, 1.1]]],
                    lambda x: mp.diff(dilogarithm, x, 2) if abs(x - 1) < 0.5 else
                    1 / (x * (1 - x)) + mp.log(x) / (1 - x) ** 2),
    "erfcx": (1000, [[["even", -26, 26], ["scale", -40, 30]]], erfcx),
    "dawsn": (1000, [[["even", -10, 10], ["scale", -40, 30]]], dawson),
    "hyp1f1": (300, KUMMER, mp.hyp1f1),
    "erfcx, ∂x": (300, [[["even", -26, 26], ["scale", -40, 30]]], lambda x: 2 * x * erfcx(x) - 2 / mp.sqrt(mp.pi)),
    "dawsn, ∂x": (300, [[["even", -10, 10], ["scale", -40, 30]]], lambda x: 1 - 2 * x * dawson(x)),
    "hyp1f1, ∂x": (100, KUMMER, lambda a, b, x: a / b * mp.hyp1f1(a + 1, b + 1, x)),
    "i0e, ∂x": (500, [WIDE], scaled_bessel([0, 1], [-1, 1], 1)),
    "i1e, ∂x": (500, [WIDE], scaled_bessel([0, 1, 2], [0.5, -1, 0.5], 0)),
    "i0e, ∂x²": (300, [WIDE], scaled_bessel([0, 1, 2], [1.5, -2, 0.5], 0)),
}


def value(f, row):
    # Second differences lose sixty digits, large or small arguments as many digits as their magnitudes have, and a
    # complement (1 - p) as many as its magnitude has.
    mp.dps = (450 if len(row) == 3 else 130) + int(max(abs(math.log10(abs(x))) if x else 0 for x in row)) * 2
    try:
        y = float(mp.re(f(*[mpf(x) for x in row])))
    except (ValueError, ZeroDivisionError, OverflowError, mp.NoConvergence):
        return math.nan
    return y if SMALLEST <= abs(y) < math.inf else math.nan


def line(task):
    seed, name = task
    count, pieces, f = FUNCTIONS[name]
    values = [value(f, row) for row in arguments(seed, count, pieces)]
    packed = base64.b64encode(struct.pack(f"<{count}d", *values)).decode()
    entry = {"name": name, "seed": seed, "count": count, "arguments": pieces, "values": packed}
    print(name, sum(map(math.isnan, values)), flush=True)
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":"))


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "values.jsonl")
    with multiprocessing.Pool(2) as pool:
        lines = pool.map(line, list(enumerate(FUNCTIONS, 1)), chunksize=1)
    with open(path, "w") as file:
        file.write("\n".join([json.dumps({"script": VERSION})] + lines) + "\n")


if __name__ == "__main__":
    main()
