//! The crate `levenberg-marquardt` fits a curve, with residuals and their Jacobian from tapeloom.
//!
//! The solver stores a point in the problem, and asks for the residuals and the Jacobian at this point. The functions
//! for residuals and Jacobian are compiled before the fit. tapeloom's Jacobian has a row for each residual; nalgebra
//! copies the rows into its own layout.

use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt, differentiate_numerically};
use nalgebra::{DMatrix, DVector, Dyn, storage::Owned};
use tapeloom::{Compiled, prelude::*};

/// A problem for the solver: residuals as a function of an array of parameters, and the current point.
struct Problem {
    residuals: Compiled<Var, Var>,
    jacobian: Compiled<Var, Var>,
    point: DVector<f64>,
}

impl Problem {
    /// Compiles `residuals` and their Jacobian for points with the length of `start`.
    fn new(residuals: impl Fn(Var) -> Var, start: &[f64]) -> Result<Problem, tapeloom::Error> {
        Ok(Problem {
            residuals: jit(&residuals).compile(start)?,
            // Forward mode, because there are fewer parameters than residuals.
            jacobian: jit(jacfwd(&residuals)).compile(start)?,
            point: DVector::from_column_slice(start),
        })
    }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, x: &DVector<f64>) {
        self.point.copy_from(x);
    }

    fn params(&self) -> DVector<f64> {
        self.point.clone()
    }

    // If a call fails, the result is `None`, and the report of the fit says that the user's function failed.
    fn residuals(&self) -> Option<DVector<f64>> {
        let r = self.residuals.call(self.point.as_slice()).ok()?;
        Some(DVector::from_column_slice(r.as_slice().ok()?))
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let j = self.jacobian.call(self.point.as_slice()).ok()?;
        let [rows, columns] = *j.shape() else { return None };
        Some(DMatrix::from_row_slice(rows, columns, j.as_slice().ok()?))
    }
}

/// A decay to a constant: `a exp(-b t) + c`.
fn decay((p, t): (Var, Var)) -> Var {
    p.index(0) * (-p.index(1) * t).exp() + p.index(2)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let t: Vec<f64> = (0..50).map(|i| f64::from(i) / 10.0).collect();
    let noise = |t: f64| 0.01 * (40.0 * t).sin();
    let y: Vec<f64> = t.iter().map(|&t| 2.0 * (-1.5 * t).exp() + 0.5 + noise(t)).collect();
    let start = [1.0, 1.0, 0.0];

    let residuals = |p: Var| decay((p, constant(&t))) - constant(&y);
    let mut problem = Problem::new(residuals, &start)?;
    let numeric = differentiate_numerically(&mut problem).ok_or("no Jacobian")?;
    assert!((problem.jacobian().ok_or("no Jacobian")? - numeric).amax() < 1e-7);

    let (fitted, report) = LevenbergMarquardt::new().minimize(problem);
    assert!(report.termination.was_successful(), "{:?}", report.termination);
    // For comparison, fit the same data with tapeloom's own fit.
    let own = jit(|(t, y): (Var, Var)| optim::curve_fit(decay, t, y, constant(start)).fit().0);
    let own = DVector::from_vec(own.call((&t, &y))?.to_vec()?);
    assert!((&fitted.point - own).amax() < 1e-6);
    let [a, b, c] = [0, 1, 2].map(|i| fitted.point[i]);
    println!("{a:.4} exp(-{b:.4} t) + {c:.4}, {} evaluations", report.number_of_evaluations);
    Ok(())
}
