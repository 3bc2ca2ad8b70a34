//! `ba`: bundle adjustment, the reprojection errors of points seen by cameras, and their sparse Jacobian.
//!
//! A camera is a vector `[r (3), C (3), f, u (2), k1, k2]` of rotation (axis times angle), centre, focal length,
//! principal point, and radial distortion. Each observation depends on one camera, one point and one weight, 15
//! numbers, so its Jacobian is a 2 by 15 block. All blocks together are `vmap` of the Jacobian of one observation.

use super::{Answer, Eval, Failure, measure, natural, numbers};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "ba", functions: &[("objective", objective), ("jacobian", jacobian)] };

fn cross(x: Var, y: Var) -> Var {
    let roll = |v: Var, by: usize| stack(&[0, 1, 2].map(|i| v.index((i + by) % 3)), 0);
    roll(x, 1) * roll(y, 2) - roll(x, 2) * roll(y, 1)
}

/// Rotates `x` about the axis `r` by the angle `|r|` (Rodrigues' formula).
fn rotate(r: Var, x: Var) -> Var {
    let squared = r.square().sum();
    let turned = squared.gt(0.0);
    // If the angle is 0, the rotation is computed by its first-order formula. The select then avoids a division by
    // zero.
    let angle = select(turned, squared, 1.0).sqrt();
    let axis = r / angle;
    let (sin, cos) = (angle.sin(), angle.cos());
    let full = x * cos + cross(axis, x) * sin + axis * (axis.dot(x) * (1.0 - cos));
    select(turned, full, x + cross(r, x))
}

fn project(cam: Var, x: Var) -> Var {
    let part = |from: usize, to: usize| cam.slice_axis(0, from..to);
    let v = rotate(part(0, 3), x - part(3, 6));
    let p = v.slice_axis(0, 0..2) / v.index(2);
    let r = p.square().sum();
    let distortion = 1.0 + cam.index(9) * r + cam.index(10) * r * r;
    p * distortion * cam.index(6) + part(7, 9)
}

fn reprojection(cam: Var, x: Var, w: Var, feature: Var) -> Var {
    w * (project(cam, x) - feature)
}

fn weight_error(w: Var) -> Var {
    1.0 - w * w
}

/// The inputs of the objective: cameras, points, weights, features, and for each observation the index of its camera
/// and of its point.
type Scene<T> = (T, T, T, T, T, T);

struct Problem {
    n: usize,
    m: usize,
    p: usize,
    scene: Scene<Tensor>,
}

/// Reads one camera, point, weight and feature from the input, and repeats each as often as the protocol says.
fn read(input: &Value) -> Result<Problem, Failure> {
    let (n, m, p) = (natural(&input["n"])?, natural(&input["m"])?, natural(&input["p"])?);
    let repeated = |name: &str, rows: usize| -> Result<Tensor, Failure> {
        let row = numbers(&input[name])?;
        Ok(Tensor::new(&[rows, row.len()], row.repeat(rows))?)
    };
    let w = input["w"].as_f64().ok_or("w is missing")?;
    let indices = |of: usize| Tensor::from((0..p).map(|i| (i % of) as i64).collect::<Vec<i64>>());
    let scene = (
        repeated("cam", n)?,
        repeated("x", m)?,
        Tensor::from(vec![w; p]),
        repeated("feat", p)?,
        indices(n),
        indices(m),
    );
    Ok(Problem { n, m, p, scene })
}

fn objective(input: &Value) -> Result<Answer, Failure> {
    let Problem { p, scene, .. } = read(input)?;
    let f = jit(|(cams, points, w, features, cam, point): Scene<Var>| {
        let one = |(cam, point, w, feature): (Var, Var, Var, Var)| {
            reprojection(cams.index(cam), points.index(point), w, feature)
        };
        (vmap(one)((cam, point, w, features)), weight_error(w))
    });
    measure(
        input,
        || f.explain(&scene),
        || f.call(&scene),
        |(errors, weights)| {
            Ok(json!({
                "reproj_error": {"elements": errors.as_slice::<f64>()?.get(..2), "repeated": p},
                "w_err": {"element": weights.as_slice::<f64>()?.first(), "repeated": p},
            }))
        },
    )
}

/// A sparse Jacobian in compressed rows.
struct Sparse {
    rows: Vec<usize>,
    cols: Vec<usize>,
    vals: Vec<f64>,
}

fn jacobian(input: &Value) -> Result<Answer, Failure> {
    let Problem { n, m, p, scene } = read(input)?;
    let f = jit(|(cams, points, w, features, cam, point): Scene<Var>| {
        let block = |(cam, point, w, feature): (Var, Var, Var, Var)| {
            let error = |(cam, x, w): (Var, Var, Var)| reprojection(cam, x, w, feature);
            let (dcam, dx, dw) = jacrev(error)((cams.index(cam), points.index(point), w));
            concat(&[dcam, dx, dw.reshape([2, 1])], 1)
        };
        (vmap(block)((cam, point, w, features)), vmap(grad(weight_error))(w))
    });
    let run = || -> Result<Sparse, Failure> {
        let (blocks, weights) = f.call(&scene)?;
        assemble(n, m, p, blocks.as_slice::<f64>()?, weights.as_slice::<f64>()?)
    };
    measure(
        input,
        || f.explain(&scene),
        run,
        |sparse| {
            let Sparse { rows, cols, vals } = sparse;
            Ok(json!({"rows": ends(&rows), "cols": ends(&cols), "vals": ends(&vals)}))
        },
    )
}

/// Returns the sparse Jacobian: two rows of 15 entries per observation, then a row of one entry per weight.
fn assemble(
    n: usize,
    m: usize,
    p: usize,
    blocks: &[f64],
    weights: &[f64],
) -> Result<Sparse, Failure> {
    let mut rows = Vec::with_capacity(3 * p + 1);
    let mut cols = Vec::with_capacity(31 * p);
    let mut vals = Vec::with_capacity(31 * p);
    rows.push(0);
    for i in 0..p {
        let (cam, point) = (11 * (i % n), 11 * n + 3 * (i % m));
        for half in blocks[30 * i..][..30].chunks(15) {
            cols.extend(cam..cam + 11);
            cols.extend(point..point + 3);
            cols.push(11 * n + 3 * m + i);
            vals.extend_from_slice(half);
            rows.push(vals.len());
        }
    }
    for (i, w) in weights.iter().enumerate() {
        cols.push(11 * n + 3 * m + i);
        vals.push(*w);
        rows.push(vals.len());
    }
    Ok(Sparse { rows, cols, vals })
}

/// Returns the first thirty elements of a list and its last, which the protocol asks for.
fn ends<T: Copy>(list: &[T]) -> Vec<T> {
    list.iter().take(30).chain(list.last()).copied().collect()
}
