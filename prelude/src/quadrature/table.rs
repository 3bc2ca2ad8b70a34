//! Points and weights of the Gauss–Kronrod rule of 21 points, ten of which are Gauss points.
//!
//! Source: Piessens, de Doncker-Kapenga, Überhuber and Kahaner, *QUADPACK* (1983), `qk21`.

/// The positive points of the rule on [-1, 1], in descending order, and its centre 0.
const POINTS: [f64; 11] = [
    0.9956571630258081,
    0.9739065285171717,
    0.9301574913557082,
    0.8650633666889845,
    0.7808177265864169,
    0.6794095682990244,
    0.5627571346686047,
    0.4333953941292472,
    0.2943928627014602,
    0.14887433898163122,
    0.0,
];

/// The weights of the Kronrod rule at `POINTS`.
const KRONROD: [f64; 11] = [
    0.011694638867371874,
    0.032558162307964725,
    0.054755896574351995,
    0.07503967481091996,
    0.0931254545836976,
    0.10938715880229764,
    0.12349197626206584,
    0.13470921731147334,
    0.14277593857706009,
    0.14773910490133849,
    0.1494455540029169,
];

/// The weights of the Gauss rule, which uses every second one of `POINTS`.
const GAUSS: [f64; 5] = [
    0.06667134430868814,
    0.1494513491505806,
    0.21908636251598204,
    0.26926671930999635,
    0.29552422471475287,
];

/// The number of points.
pub(super) const SIZE: usize = 21;

/// Returns the points in ascending order, the Kronrod weights and the Gauss weights, on [-1, 1].
pub(super) fn table() -> [[f64; SIZE]; 3] {
    // Maps the index of a point to its index in the tables, which contain one side and the centre: 0 up to the centre
    // and back to 0.
    let outer = |i: usize| i.min(SIZE - 1 - i);
    let sign = |i: usize| if i < SIZE / 2 { -1.0 } else { 1.0 };
    let gauss = |i: usize| if i % 2 == 1 { GAUSS[i / 2] } else { 0.0 };
    [
        std::array::from_fn(|i| sign(i) * POINTS[outer(i)]),
        std::array::from_fn(|i| KRONROD[outer(i)]),
        std::array::from_fn(|i| gauss(outer(i))),
    ]
}
