//! `kmeans`: the cost of centroids, and the Newton direction, the gradient divided by the diagonal of the Hessian.

use super::{Answer, Eval, Failure, matrix, measure, rows};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval = Eval { module: "kmeans", functions: &[("cost", cost), ("dir", dir)] };

/// Returns `Σ_i min_j |p_i - c_j|²` for points p and centroids c. The nearest centroid is found first, without the term
/// `|p|²`, which is equal for all centroids; the cost is then a function of the nearest centroids.
fn objective(points: Var, centroids: Var) -> Var {
    let distances = centroids.square().sum_axis(1) - 2.0 * points.dot(centroids.t());
    let nearest = distances.argmin(1);
    (points - centroids.take(nearest, 0)).square().sum()
}

/// Returns the gradient of the cost divided by the diagonal of the Hessian. The Hessian is a diagonal matrix, so its
/// product with ones is the diagonal.
fn direction(points: Var, centroids: Var) -> Var {
    let gradient = grad(|c| objective(points, c));
    let (g, h) = jvp(gradient)((centroids, centroids.ones_like()));
    g / h
}

fn data(input: &Value) -> Result<(Tensor, Tensor), Failure> {
    let (points, n, d) = matrix(&input["points"])?;
    let (centroids, k, _) = matrix(&input["centroids"])?;
    Ok((Tensor::new(&[n, d], points)?, Tensor::new(&[k, d], centroids)?))
}

fn cost(input: &Value) -> Result<Answer, Failure> {
    let (points, centroids) = data(input)?;
    let f = jit(|(p, c)| objective(p, c));
    measure(
        input,
        || f.explain((&points, &centroids)),
        || f.call((&points, &centroids)),
        |y| Ok(json!(y.item::<f64>()?)),
    )
}

fn dir(input: &Value) -> Result<Answer, Failure> {
    let (points, centroids) = data(input)?;
    let f = jit(|(p, c)| direction(p, c));
    measure(
        input,
        || f.explain((&points, &centroids)),
        || f.call((&points, &centroids)),
        |d| rows(&d),
    )
}
