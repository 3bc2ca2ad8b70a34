//! Rosenbrock methods: implicit methods for stiff systems, whose stages are linear systems.
//!
//! ```text
//! (I / (γ h) - J) uᵢ = f(t + αᵢ h, y + Σ aᵢⱼ uⱼ) + Σ cᵢⱼ uⱼ / h + h γᵢ ∂f/∂t        J = ∂f/∂y at (t, y)
//! ```
//!
//! The systems of all stages have the same matrix, so a step takes one Jacobian and one LU factorization. It needs no
//! Newton iteration. The Jacobian is exact: columns by forward mode.

use super::method::StepEnd;
use super::state::{Slope, State};
use crate::linalg::{lu_factor, solve_factored};
use crate::ops::functions::{eye, select};
use crate::transform::jacfwd;
use crate::tree::ravel;
use crate::{Dtype, Var};

/// A Rosenbrock method. The solution uₛ of its last stage is the error estimate. The state after a step is the argument
/// of `f` in the last stage plus uₛ.
#[derive(Debug)]
pub(super) struct Rosenbrock {
    pub(super) name: &'static str,
    pub(super) order: i32,
    gamma: f64,
    /// The nodes αᵢ of the stages. The last nodes are 1: these stages are at the end of the step.
    pub(super) alpha: &'static [f64],
    /// The factors γᵢ of ∂f/∂t in the stages.
    time: &'static [f64],
    a: &'static [&'static [f64]],
    c: &'static [&'static [f64]],
    /// For each of d₁, d₂, d₃, the weights of the stages in its sum. The dense output at the fraction θ of a step from
    /// the
    /// state y to the state y' is `y + θ (y' - y + (1-θ) (d₁ + θ (d₂ + θ d₃)))`.
    dense: [&'static [f64]; 3],
}

impl Rosenbrock {
    /// Computes a step; see [`Method::step`](super::method::Method::step).
    pub(super) fn step(
        &self,
        f: Slope<'_>,
        (t, h): (Var, Var),
        y: &[Var],
        first: &[Var],
    ) -> (StepEnd<Var>, State) {
        let (y, tree) = ravel(&y.to_vec());
        let first = ravel(&first.to_vec()).0;
        // The columns of the Jacobian have the dtype of the state, which may differ from the dtype of times.
        let (dtype, of_time) = (y.dtype(), t.dtype());
        let (t, h) = (t.convert(dtype), h.convert(dtype));
        let flat = |(t, y): (Var, Var)| ravel(&f(t.convert(of_time), &tree(y))).0;
        let (by_time, jacobian) = jacfwd(flat)((t, y));
        // 1/h overflows for the shortest steps. Replace them by a step of Euler's method, whose result differs by less
        // than a rounding error at that size.
        let least = if dtype == Dtype::F32 { 1e-30 } else { 1e-290 };
        let short = h.abs().lt(least);
        let euler = y + h * first;
        let h = select(short, select(h.lt(0.0), h.full_like(-least), h.full_like(least)), h);
        let matrix = eye(y.len(), dtype) / (h * self.gamma) - jacobian;
        let factors = lu_factor(matrix.stop_gradient());

        let mut u: Vec<Var> = Vec::new();
        let mut inside = y;
        for (i, (a, c)) in self.a.iter().zip(self.c).enumerate() {
            inside = total(y, a, &u);
            let slope = if i == 0 { first } else { flat((t + h * self.alpha[i], inside)) };
            let none = y.zeros_like();
            let right = slope + total(none, c, &u) / h + by_time * (h * self.time[i]);
            u.push(solve_factored(matrix, factors, right));
        }
        let error = u.last().copied().unwrap_or(y);
        let next = select(short, euler, inside + error);
        let error = select(short, 0.0, error);
        let [d1, d2, d3] =
            self.dense.map(|weights| select(short, 0.0, total(y.zeros_like(), weights, &u)));
        // `Method::between` needs coefficients of 1-θ: d₂ + θ d₃ = (d₂ + d₃) - (1-θ) d₃.
        let terms = [d1, d2 + d3, -d3].map(&tree).to_vec();
        (StepEnd { y: tree(next), slope: tree(flat((t + h, next))), terms }, tree(error))
    }
}

/// Returns `x + w₁ u₁ + w₂ u₂ + ..`, without the terms whose weight is zero.
fn total(x: Var, weights: &[f64], u: &[Var]) -> Var {
    let terms = weights.iter().zip(u).filter(|(w, _)| **w != 0.0);
    let all = terms.map(|(w, u)| if *w == 1.0 { *u } else { *u * *w });
    all.fold(x, |sum, term| sum + term)
}

/// Steinebach's method of order 5 with 8 stages: L-stable, stiffly accurate, with dense output of order 4.
///
/// Source: Steinebach, *Construction of Rosenbrock–Wanner method Rodas5P and numerical benchmarks within the Julia
/// Differential Equations package* (2023).
pub(super) const RODAS5P: Rosenbrock = Rosenbrock {
    name: "rodas5p",
    order: 5,
    gamma: 0.21193756319429014,
    alpha: &[
        0.0,
        0.6358126895828704,
        0.4095798393397535,
        0.9769306725060716,
        0.4288403609558664,
        1.0,
        1.0,
        1.0,
    ],
    time: &[
        0.21193756319429014,
        -0.42387512638858027,
        -0.3384627126235924,
        1.8046452872882734,
        2.325825639765069,
        0.0,
        0.0,
        0.0,
    ],
    a: &[
        &[],
        &[3.0],
        &[2.849394379747939, 0.45842242204463923],
        &[-6.954028509809101, 2.489845061869568, -10.358996098473584],
        &[2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641],
        &[
            -7.502846399306121,
            2.561846144803919,
            -11.627539656261098,
            -0.18268767659942256,
            0.030198172008377946,
        ],
        &[
            -7.502846399306121,
            2.561846144803919,
            -11.627539656261098,
            -0.18268767659942256,
            0.030198172008377946,
            1.0,
        ],
        &[
            -7.502846399306121,
            2.561846144803919,
            -11.627539656261098,
            -0.18268767659942256,
            0.030198172008377946,
            1.0,
            1.0,
        ],
    ],
    c: &[
        &[],
        &[-14.155112264123755],
        &[-17.97296035885952, -2.859693295451294],
        &[147.12150275711716, -1.41221402718213, 71.68940251302358],
        &[165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306],
        &[
            24.854864614690072,
            -3.0009227002832186,
            47.4931110020768,
            5.5814197821558125,
            -0.6610691825249471,
        ],
        &[
            30.91273214028599,
            -3.1208243349937974,
            77.79954646070892,
            34.28646028294783,
            -19.097331116725623,
            -28.087943162872662,
        ],
        &[
            37.80277123390563,
            -3.2571969029072276,
            112.26918849496327,
            66.9347231244047,
            -40.06618937091002,
            -54.66780262877968,
            -9.48861652309627,
        ],
    ],
    dense: [
        &[
            25.948786856663858,
            -2.5579724845846235,
            10.433815404888879,
            -2.3679251022685204,
            0.524948541321073,
            1.1241088310450404,
            0.4272876194431874,
            -0.17202221070155493,
        ],
        &[
            -9.91568850695171,
            -0.9689944594115154,
            3.0438037242978453,
            -24.495224566215796,
            20.176138334709044,
            15.98066361424651,
            -6.789040303419874,
            -6.710236069923372,
        ],
        &[
            11.419903575922262,
            2.8879645146136994,
            72.92137995996029,
            80.12511834622643,
            -52.072871366152654,
            -59.78993625266729,
            -0.15582684282751913,
            4.883087185713722,
        ],
    ],
};
