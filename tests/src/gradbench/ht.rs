//! `ht`: hand tracking, the distances of a posed hand model from measured points, and their Jacobian.
//!
//! Bones form a tree. The pose rotates each bone relative to its parent; a vertex of the skin moves with a weighted
//! mean of the bones. Each measured point belongs to a vertex or, if there are parameters `us`, to a position within a
//! triangle, which `us` give. Each element of `us` moves one point only. Two columns of the Jacobian therefore hold the
//! derivatives by all of them: one for a common shift of the first components, one for the second.

use super::{Answer, Eval, Failure, matrix, measure, natural, numbers, rows};
use serde_json::{Value, json};
use tapeloom::prelude::*;

pub(super) const EVAL: Eval =
    Eval { module: "ht", functions: &[("objective", value), ("jacobian", jacobian)] };

/// The measured points and the hand model fitted to them.
#[derive(Clone, Tree)]
struct Hand<T> {
    /// The transform from a bone to its parent at rest, `[bones, 4, 4]`.
    relative: T,
    /// The transform from the world at rest to a bone, `[bones, 4, 4]`.
    inverse: T,
    /// The vertices at rest, `[vertices, 4]`, homogeneous.
    rest: T,
    /// The weights with which bones move vertices, `[vertices, bones]`.
    weights: T,
    /// For each point: one vertex to which the point belongs, or the three vertices of its triangle, `[1 or 3,
    /// points]`.
    corners: T,
    /// The measured points, `[points, 3]`.
    points: T,
    /// The index of each bone's parent, which precedes the bone; `None` for the root.
    #[tree(static)]
    parents: Vec<Option<usize>>,
    /// Whether the model is mirrored, for the other hand.
    #[tree(static)]
    mirrored: bool,
}

/// Returns the rotation of a joint, by the angle `x` about the first axis, then by `z` about the third: `[4, 4]`,
/// homogeneous.
fn joint((x, z): (Var, Var)) -> Var {
    let (sx, cx, sz, cz) = (x.sin(), x.cos(), z.sin(), z.cos());
    let (zero, one) = (x.zeros_like(), x.ones_like());
    let row = |r: [Var; 4]| stack(&r, 0);
    let rows = [
        row([cz, -sz * cx, sz * sx, zero]),
        row([sz, cz * cx, -cz * sx, zero]),
        row([zero, sx, cx, zero]),
        row([zero, zero, zero, one]),
    ];
    stack(&rows, 0)
}

/// Returns the rotation about the axis `r` by the angle `|r|`: `[3, 3]`.
fn rotation(r: Var) -> Var {
    let squared = r.square().sum();
    let turned = squared.gt(1e-8);
    // Without a rotation the axis is arbitrary; the select avoids a division by zero.
    let angle = select(turned, squared, 1.0).sqrt();
    let axis = r / angle;
    let (sin, cos) = (angle.sin(), angle.cos());
    let (zero, [x, y, z]) = (r.index(0).zeros_like(), [0, 1, 2].map(|i| axis.index(i)));
    let cross = stack(&[zero, -z, y, z, zero, -x, -y, x, zero], 0).reshape([3, 3]);
    let same = eye(3, r.dtype());
    select(turned, cos * same + sin * cross + (1.0 - cos) * axis.outer(axis), same)
}

/// Returns for each bone the transform of vertices from their rest position, `[bones, 4, 4]`.
///
/// A finger has four bones. The first does not move, the second rotates about two axes, the others about one.
fn bones(hand: &Hand<Var>, fingers: Var) -> Var {
    let fingers = fingers.reshape([5, 4]);
    // The bones are the wrist, the fingers, and the forearm; wrist and forearm do not rotate.
    let every = |angles: Var| angles.pad(&[(0, 0), (1, 0)], 0.0).reshape([20]).pad(&[(1, 1)], 0.0);
    let x = every(fingers.take(constant([0i64, 2, 3]), 1));
    let z = every(fingers.slice_axis(1, 1..2).pad(&[(0, 0), (0, 2)], 0.0));
    let posed = hand.relative.matmul(vmap(joint)((x, z)));
    // The transforms of bones of equal depth in the tree are multiplied in one batch, after all bones of less depth.
    let parents = &hand.parents;
    let depth = |mut bone: usize| {
        let mut depth = 0;
        while let Some(parent) = parents[bone] {
            (bone, depth) = (parent, depth + 1);
        }
        depth
    };
    let pick = |from: Var, which: Vec<usize>| {
        from.take(constant(which.into_iter().map(|i| i as i64).collect::<Tensor>()), 0)
    };
    let mut order: Vec<usize> = Vec::new();
    let mut placed: Option<Var> = None;
    for level in 0.. {
        let here: Vec<usize> = (0..parents.len()).filter(|b| depth(*b) == level).collect();
        if here.is_empty() {
            break;
        }
        let own = pick(posed, here.clone());
        let before = |bone: &usize| order.iter().position(|b| Some(*b) == parents[*bone]);
        let above: Vec<usize> = here.iter().filter_map(before).collect();
        placed = Some(match placed {
            None => own,
            Some(all) => concat(&[all, pick(all, above).matmul(own)], 0),
        });
        order.extend(here);
    }
    let back = (0..order.len()).filter_map(|b| order.iter().position(|o| *o == b)).collect();
    pick(placed.unwrap_or(posed), back).matmul(hand.inverse)
}

/// Returns the measured points minus the points of the posed model, `[points, 3]`. `theta` holds the rotation of the
/// hand, its position, and the angles of the fingers.
fn objective(hand: &Hand<Var>, theta: Var, us: Var) -> Var {
    let turns = bones(hand, theta.slice_axis(0, 6..)).slice_axis(1, ..3);
    // If the points need fewer vertices than the model has, only those vertices are transformed.
    let few = hand.corners.shape().iter().product::<usize>() < hand.rest.shape()[0];
    let needed = |of: Var| if few { of.take(hand.corners.flatten(), 0) } else { of };
    let spread = einsum("vb,bij->vij", &[needed(hand.weights), turns]);
    let skin = einsum("vij,vj->vi", &[spread, needed(hand.rest)]);
    let skin = if hand.mirrored { skin * constant([-1.0, 1.0, 1.0]) } else { skin };
    let skin = skin.dot(rotation(theta.slice_axis(0, ..3)).t()) + theta.slice_axis(0, 3..6);
    let corners = hand.corners.shape();
    let at =
        if few { skin.reshape([corners[0], corners[1], 3]) } else { skin.take(hand.corners, 0) };
    let placed = match us.shape()[1] {
        0 => at.index(0),
        _ => {
            let (u, v) = (us.slice_axis(1, 0..1), us.slice_axis(1, 1..2));
            u * at.index(0) + v * at.index(1) + (1.0 - u - v) * at.index(2)
        }
    };
    hand.points - placed
}

struct Input {
    hand: Hand<Tensor>,
    theta: Tensor,
    us: Tensor,
}

fn list(value: &Value) -> Result<&Vec<Value>, Failure> {
    value.as_array().ok_or("a list is missing".into())
}

fn table(value: &Value) -> Result<Tensor, Failure> {
    let (flat, rows, columns) = matrix(value)?;
    Ok(Tensor::new(&[rows, columns], flat)?)
}

/// Parses a list of 4 by 4 matrices.
fn frames(value: &Value) -> Result<Tensor, Failure> {
    let each: Vec<Vec<f64>> =
        list(value)?.iter().map(|m| Ok(matrix(m)?.0)).collect::<Result<_, Failure>>()?;
    Ok(Tensor::new(&[each.len(), 4, 4], each.concat())?)
}

/// Returns for each measured point the vertices of its triangle, `[3, points]`, or the vertex to which it belongs,
/// `[1, points]`.
fn corners(data: &Value, in_triangles: bool) -> Result<Tensor, Failure> {
    let of = list(&data["correspondences"])?;
    let vertex = |i: &Value| natural(i).map(|i| i as i64);
    let corner = |k: usize| {
        of.iter().map(move |i| match in_triangles {
            true => vertex(&data["model"]["triangles"][natural(i)?][k]),
            false => vertex(i),
        })
    };
    let count = if in_triangles { 3 } else { 1 };
    let flat: Vec<i64> = (0..count).flat_map(corner).collect::<Result<_, Failure>>()?;
    Ok(Tensor::new(&[count, of.len()], flat)?)
}

fn read(input: &Value) -> Result<Input, Failure> {
    let (data, model) = (&input["data"], &input["data"]["model"]);
    let points = table(&data["points"])?;
    let (us, located, parameters) = matrix(&input["us"])?;
    Ok(Input {
        us: Tensor::new(&[points.shape()[0], parameters], us)?,
        theta: Tensor::from(numbers(&input["theta"])?),
        hand: Hand {
            relative: frames(&model["base_relatives"])?,
            inverse: frames(&model["inverse_base_absolutes"])?,
            rest: table(&model["base_positions"])?,
            weights: table(&model["weights"])?,
            corners: corners(data, located > 0)?,
            points,
            // The input has -1 as the parent of a root, which is no natural number and becomes `None`.
            parents: list(&model["parents"])?.iter().map(|p| natural(p).ok()).collect(),
            mirrored: model["is_mirrored"] == true,
        },
    })
}

fn value(input: &Value) -> Result<Answer, Failure> {
    let Input { hand, theta, us } = read(input)?;
    let f = jit(|(hand, theta, us): (Hand<Var>, Var, Var)| objective(&hand, theta, us));
    measure(
        input,
        || f.explain((&hand, &theta, &us)),
        || f.call((&hand, &theta, &us)),
        |err| Ok(json!(err.as_slice::<f64>()?)),
    )
}

/// Returns the Jacobian with one row per coordinate of a point; the columns for `us` precede those for `theta`.
fn jacobian(input: &Value) -> Result<Answer, Failure> {
    let Input { hand, theta, us } = read(input)?;
    let f = jit(|(hand, theta, us): (Hand<Var>, Var, Var)| {
        let shift = zeros([us.shape()[1]], us.dtype());
        let moved = |(shift, theta): (Var, Var)| objective(&hand, theta, us + shift).flatten();
        let (of_us, of_theta) = jacfwd(moved)((shift, theta));
        concat(&[of_us, of_theta], 1)
    });
    measure(
        input,
        || f.explain((&hand, &theta, &us)),
        || f.call((&hand, &theta, &us)),
        |j| rows(&j),
    )
}
