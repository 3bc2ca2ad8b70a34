//! Options and their Greeks by Black and Scholes (1973): prices of several options at once, derivatives of the formula
//! with respect to every parameter, and the volatility implied by a price.
//!
//! ```text
//! cargo run --release --example black_scholes
//! ```

#![expect(clippy::print_stdout, reason = "an example speaks to its user")]

use tapeloom::prelude::*;

/// A call option: spot, strike, time, rate, volatility.
#[derive(Tree, Clone)]
struct Call<T> {
    spot: T,
    strike: T,
    time: T,
    rate: T,
    sigma: T,
}

fn price(c: Call<Var>) -> Var {
    let spread = c.sigma * c.time.sqrt();
    let d1 = ((c.spot / c.strike).ln() + (c.rate + 0.5 * c.sigma.square()) * c.time) / spread;
    c.spot * d1.ndtr() - c.strike * (-c.rate * c.time).exp() * (d1 - spread).ndtr()
}

/// Returns the volatility at which a call has the price `paid`, by Newton's method.
fn implied(c: Call<Var>, paid: Var) -> Var {
    let error = |sigma: Var| price(Call { sigma, ..c.clone() }) - paid;
    (0..8).fold(c.sigma, |sigma, _| {
        let (e, slope) = value_and_grad(error)(sigma);
        sigma - e / slope
    })
}

pub(crate) fn main() -> Result<(), tapeloom::Error> {
    let strikes = Tensor::from([80.0, 90.0, 100.0, 110.0, 120.0]);
    let of = |strike| Call {
        spot: Tensor::from(100.0),
        strike,
        time: Tensor::from(0.5),
        rate: Tensor::from(0.02),
        sigma: Tensor::from(0.25),
    };
    // The strikes are a batch; the other parameters are shared.
    let axes = || Call { spot: None, strike: Some(0), time: None, rate: None, sigma: None::<i32> };

    let greeks =
        run(vmap_axes((axes(),), 0, |(c,)| value_and_grad(price)(c)), (of(strikes.clone()),))?;
    let (prices, by) = greeks;
    println!("strike {strikes:.0}\nprice  {prices:.3}");
    for (name, greek) in tree_paths(&by).iter().zip(tree_leaves(&by)) {
        println!("by {name:6} {greek:.4}");
    }
    // Print the second derivatives of one price with respect to all pairs of parameters.
    let gamma = run(hessian(price), of(Tensor::from(100.0)))?;
    println!("second derivatives\n{gamma:.3}");

    let found =
        run(vmap_axes((axes(), 0), 0, |(c, paid)| implied(c, paid)), (of(strikes), &prices))?;
    println!("implied volatility {found:.6}");
    assert!(found.to_vec::<f64>()?.iter().all(|s| (s - 0.25).abs() < 1e-9));
    Ok(())
}
