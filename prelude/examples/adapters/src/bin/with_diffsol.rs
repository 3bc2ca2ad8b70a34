//! diffsol integrates a stiff differential equation and its sensitivities, with derivatives from tapeloom.
//!
//! diffsol's implicit methods take the right-hand side f(y, k) of y' = f, and the product of the Jacobian ∂f/∂y with a
//! vector; sensitivities also take the product of ∂f/∂k with a vector. The products are `jvp`s of f. All three are
//! functions that are compiled before the integration.

use diffsol::{MatrixCommon, NalgebraLU, NalgebraMat, OdeBuilder, SensitivitiesOdeSolverMethod};
use tapeloom::{Compiled, prelude::*};

/// Robertson's reaction of three substances: the derivative of their amounts `y`, for the rates `k`.
fn robertson((y, k): (Var, Var)) -> Var {
    let [a, b, c] = [0, 1, 2].map(|i| y.index(i));
    let (r1, r2, r3) = (k.index(0) * a, k.index(1) * b * c, k.index(2) * b * b);
    stack(&[r2 - r1, r1 - r2 - r3, r3], 0)
}

/// Calls `f` and writes its result to `y`. diffsol's closures return no errors: if the call fails, the result is nan, and
/// the integration ends with an error.
fn write<A: Tree<Var>>(f: &Compiled<A, Var>, args: impl Args<A>, y: &mut [f64]) {
    match f.call(args) {
        Ok(result) => y.iter_mut().zip(result.numbers()).for_each(|(y, x)| *y = x),
        Err(_) => y.fill(f64::NAN),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (start, rates) = ([1.0, 0.0, 0.0], [0.04, 1e4, 3e7]);
    let times = [0.4, 4.0, 40.0, 400.0, 4000.0];

    let f = jit(robertson).compile((start, rates))?;
    let in_state = |(y, k, dy): (Var, Var, Var)| jvp(|y: Var| robertson((y, k)))((y, dy)).1;
    let in_rates = |(y, k, dk): (Var, Var, Var)| jvp(|k: Var| robertson((y, k)))((k, dk)).1;
    let in_state = jit(in_state).compile((start, rates, start))?;
    let in_rates = jit(in_rates).compile((start, rates, rates))?;
    let problem = OdeBuilder::<NalgebraMat<f64>>::new()
        .p(rates)
        .rtol(1e-7)
        .atol([1e-10, 1e-14, 1e-10])
        .sens_rtol(1e-6)
        .sens_atol([1e-8, 1e-12, 1e-8])
        .param_scales(rates)
        .rhs_sens_implicit(
            |y, k, _t, dy_dt| write(&f, (y, k), dy_dt),
            |y, k, _t, v, jv| write(&in_state, (y, k, v), jv),
            |y, k, _t, v, jv| write(&in_rates, (y, k, v), jv),
        )
        .init_sens(|_k, _t, y| y.copy_from_slice(&start), |_k, _t, _v, y| y.fill(0.0), 3)
        .build()?;
    let (y, dy, _) = problem.bdf_sens::<NalgebraLU<f64>>()?.solve_dense_sensitivities(&times)?;

    // For comparison, solve with tapeloom's own solver and differentiate its solution. Its first row of states is the
    // state at the start, which diffsol's result does not have.
    let own = |k: Var| {
        let times: Vec<f64> = [0.0].into_iter().chain(times).collect();
        let method = ode::rodas5p().rtol(1e-8).atol(1e-14);
        method.solve(|(_t, y): (Var, Var)| robertson((y, k)), constant(start), constant(times)).0
    };
    let own = jit(|k: Var| (own(k), jacfwd(own)(k) * k));
    let (own, own_dy) = own.call(rates)?;
    let (own, own_dy) = (own.to_vec::<f64>()?, own_dy.to_vec::<f64>()?);
    let mut errors = [0.0f64; 2];
    for (at, i) in (0..times.len()).flat_map(|at| (0..3).map(move |i| (at, i))) {
        let row = 3 * (at + 1) + i;
        errors[0] = errors[0].max((y.inner()[(i, at)] / own[row] - 1.0).abs());
        for j in 0..3 {
            let scaled = dy[j].inner()[(i, at)] * rates[j];
            errors[1] = errors[1].max((scaled / own_dy[3 * row + j] - 1.0).abs());
        }
    }
    println!("relative differences: state {:.1e}, sensitivities {:.1e}", errors[0], errors[1]);
    assert!(errors[0] < 1e-4 && errors[1] < 1e-3);
    Ok(())
}
