//! argmin minimises a function with derivatives from tapeloom: L-BFGS takes gradients, and a trust region method (that of
//! Steihaug) takes products of the Hessian with vectors.
//!
//! argmin asks a problem for its cost, its gradient and its Hessian at a point, each by a trait. Here, each is a function
//! that is compiled before the search. Steihaug's method only multiplies the Hessian by directions, so the type of the
//! Hessian is a point with the function `hvp`, and no matrix is formed.

use argmin::core::{CostFunction, Error, Executor, Gradient, Hessian, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::{
    quasinewton::LBFGS,
    trustregion::{Steihaug, TrustRegion},
};
use argmin_math::ArgminDot;
use tapeloom::{Compiled, prelude::*};

/// A function of an array, with the derivatives that argmin asks for.
struct Problem {
    cost: Compiled<Var, Var>,
    gradient: Compiled<Var, Var>,
    hvp: Compiled<(Var, Var), Var>,
}

impl Problem {
    /// Compiles `f` and its derivatives for points with the length of `start`.
    fn new(f: impl Fn(Var) -> Var + Copy, start: &[f64]) -> Result<Problem, tapeloom::Error> {
        let (cost, gradient) = (jit(f).compile(start)?, jit(grad(f)).compile(start)?);
        Ok(Problem { cost, gradient, hvp: jit(hvp(f)).compile((start, start))? })
    }
}

impl CostFunction for &Problem {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, x: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.cost.call(x)?.item()?)
    }
}

impl Gradient for &Problem {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, x: &Vec<f64>) -> Result<Vec<f64>, Error> {
        Ok(self.gradient.call(x)?.to_vec()?)
    }
}

impl<'a> Hessian for &'a Problem {
    type Param = Vec<f64>;
    type Hessian = HessianAt<'a>;

    fn hessian(&self, x: &Vec<f64>) -> Result<HessianAt<'a>, Error> {
        Ok(HessianAt { hvp: &self.hvp, x: x.clone() })
    }
}

/// The Hessian at the point `x`. Only its products with vectors can be computed.
#[derive(Clone)]
struct HessianAt<'a> {
    hvp: &'a Compiled<(Var, Var), Var>,
    x: Vec<f64>,
}

impl ArgminDot<Vec<f64>, Vec<f64>> for HessianAt<'_> {
    fn dot(&self, v: &Vec<f64>) -> Vec<f64> {
        // argmin's product returns no errors. A call fails only if `v` has another length than `start`. Return zeros
        // then: Steihaug's method ends at a direction without curvature, but not at nan.
        let product = self.hvp.call((&self.x, v));
        product.ok().and_then(|y| y.to_vec().ok()).unwrap_or_else(|| vec![0.0; v.len()])
    }
}

/// The Rosenbrock function of a chain of numbers. Its minimum is 0, where all numbers are 1.
fn rosenbrock(x: Var) -> Var {
    let (head, tail) = (x.slice([..x.len() - 1]), x.slice([1..]));
    (100.0 * (tail - head.square()).square() + (1.0 - head).square()).sum()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = vec![0.0; 100];
    let problem = Problem::new(rosenbrock, &start)?;
    let lbfgs = Executor::new(&problem, LBFGS::new(MoreThuenteLineSearch::new(), 10))
        .configure(|state| state.param(start.clone()).max_iters(1000))
        .run()?;
    let newton = Executor::new(&problem, TrustRegion::new(Steihaug::new()))
        .configure(|state| state.param(start.clone()).max_iters(1000).target_cost(1e-18))
        .run()?;
    let (lbfgs, newton) = (&lbfgs.state, &newton.state);
    for (name, x, iterations) in [
        ("L-BFGS", lbfgs.get_best_param(), lbfgs.get_iter()),
        ("trust region", newton.get_best_param(), newton.get_iter()),
    ] {
        let error = x.ok_or("no point")?.iter().map(|x| (x - 1.0).abs()).fold(0.0, f64::max);
        println!("{name}: {iterations} iterations, {error:.0e} from the minimum");
        assert!(error < 1e-6);
    }
    Ok(())
}
