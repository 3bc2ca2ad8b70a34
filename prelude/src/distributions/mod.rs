//! Samples by rejection, and samples derived from them. They are public in [`random`](crate::random).
//!
//! Each element of a sample has a key of its own and a loop of its own. So its cost and its value do not depend on
//! other elements.

mod counts;
mod gamma;
mod selection;
mod simple;
mod von_mises;

pub use counts::{binomial, multinomial, negative_binomial, poisson};
pub use gamma::{beta, chisquare, dirichlet, gamma, loggamma, student_t};
pub use selection::{
    choice_without_replacement, weighted_choice, weighted_choice_without_replacement,
};
pub use simple::{ball, cauchy};
pub(crate) use von_mises::scaled_bessel;
pub use von_mises::von_mises;

use crate::Var;
use crate::ops::wrong;
use crate::prng::{drawn_from, spread, unmarked};
use crate::var::on_behalf;
use tapeloom_ir::{ArrayType, Dtype, Kind, Loc, Problem, Shape};

/// Checks the key and the parameters of a distribution, broadcasts the parameters (floats of one dtype) to the shape,
/// and returns the samples that `body` draws.
fn sampled<const N: usize>(
    name: &'static str,
    key: Var,
    shape: &Shape,
    params: [Var; N],
    at: Loc,
    body: impl FnOnce(Var, [Var; N]) -> Var,
) -> Var {
    let dtype = params.first().map_or(Dtype::F64, |p| p.ty(at).dtype);
    let refuse = |problem| {
        let operands = [&[key][..], &params].concat();
        wrong(problem, &operands, ArrayType::new(dtype, shape.clone()), at)
    };
    let own = match drawn_from(name, key, shape, at) {
        Ok(key) => key,
        Err(problem) => return refuse(problem),
    };
    let mut whole = params;
    for (whole, param) in whole.iter_mut().zip(params) {
        let ty = param.ty(at);
        if ty.dtype != dtype {
            let message = format!("`{name}` with parameters of {dtype} and of {}", ty.dtype);
            return refuse(Problem::new(Kind::Dtype, message, "give floats of one dtype"));
        }
        match spread(name, param, shape, at) {
            Ok(param) => *whole = param,
            Err(problem) => return refuse(problem),
        }
    }
    // `check_keys` reports keys that are used twice. `drawn_from` has marked the key as used. The keys that `body`
    // splits from it must not count as further uses of this key.
    on_behalf(name, at, || unmarked(|| body(own, whole.map(|p| p.broadcast_to(shape.clone())))))
}
