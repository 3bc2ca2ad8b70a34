//! Sample loops: in both directions, with zero, one and several iterations; with carries that are exchanged,
//! unchanged, never read, or of integer, bool or single precision dtype; that update one element of an array
//! and read one element of another; with branches and loops inside, and inside a branch.

use super::checkpoint_slots::slot_count;
use super::{Binding, Direction, Loop, LoopSpec, TripCount};
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::types::{Dtype, Type};
use crate::prim::rules::region_helpers::function;
use crate::prim::{
    Broadcast, Cond, Convert, DynamicSlice, DynamicUpdateSlice, Op, Reshape, Sample, Scalar,
};
use crate::tensor::Tensor;
use Binding::{Carry, Const, Index, Xs};
use Direction::{Down, Up};

fn f64s(shape: &[usize]) -> Type {
    Type::array(Dtype::F64, shape)
}

fn index() -> Type {
    Type::scalar(Dtype::I64)
}

fn rolled(body: FuncId, n: usize, direction: Direction, takes: &[Binding]) -> Loop {
    Loop::new(body, LoopSpec { trip: TripCount::Static(n), direction, takes: takes.to_vec() })
}

pub(super) fn all(module: &mut Module) -> Vec<Sample> {
    let mut made = |part: &SampleGroup| {
        let samples = part(module).unwrap_or_default();
        debug_assert!(!samples.is_empty(), "each group has samples");
        samples
    };
    GROUPS.iter().flat_map(|part| made(part)).collect()
}

type SampleGroup = fn(&mut Module) -> Result<Vec<Sample>, Problem>;

const GROUPS: &[SampleGroup] =
    &[recurrence, carries, places, dtypes, maps, nested, linear, replayed];

/// One iteration maps the carry h, the constant k and the element x to `h' = sin(h k) exp(k) + x` and `y = h' h`. The
/// reverse pass needs a saved carry, and reads a constant, an element and a stacked result again. `exp k` can be
/// computed once, outside the loop.
fn recurrence(module: &mut Module) -> Result<Vec<Sample>, Problem> {
    let v = f64s(&[2]);
    let body = function(module, "step", [&[v.clone(), v.clone(), v], &[]], |b, p, _| {
        let (k, h, x) = (p[0], p[1], p[2]);
        let sin = b.emit1(Scalar::Sin, &[b.emit1(Scalar::Mul, &[h, k])]);
        let scaled = b.emit1(Scalar::Mul, &[sin, b.emit1(Scalar::Exp, &[k])]);
        let next = b.emit1(Scalar::Add, &[scaled, x]);
        vec![next, b.emit1(Scalar::Mul, &[next, h]), sin]
    })?;
    let takes = [Const, Carry(0), Xs];
    let sample = |n: usize, direction| {
        let xs: Vec<f64> = (0..2 * n).map(|i| 0.5 - 0.3 * i as f64).collect();
        let xs = Tensor::new(&[n, 2], xs)?;
        let operands = vec![Tensor::from([0.75, -0.5]), Tensor::from([1.0, 0.25]), xs];
        Ok(Sample::smooth(rolled(body, n, direction, &takes), operands))
    };
    [(3, Up), (3, Down), (1, Up), (1, Down), (0, Up), (0, Down)]
        .into_iter()
        .map(|(n, direction)| sample(n, direction))
        .collect()
}

/// Iteration i maps the carries `(a, b, s, u)` to `(b, a sin b + s, s, u i)`. Two carries exchange their positions, one
/// is unchanged and read, and one is read only by its own update.
fn carries(module: &mut Module) -> Result<Vec<Sample>, Problem> {
    let s = f64s(&[]);
    let types = [s.clone(), s.clone(), index(), s.clone(), s];
    let body = function(module, "swap", [&types, &[]], |b, p, _| {
        let product = b.emit1(Scalar::Mul, &[p[0], b.emit1(Scalar::Sin, &[p[1]])]);
        let i = b.emit1(Convert { to: Dtype::F64 }, &[p[2]]);
        let unread = b.emit1(Scalar::Mul, &[p[4], i]);
        vec![p[1], b.emit1(Scalar::Add, &[product, p[3]]), p[3], unread]
    })?;
    let takes = [Carry(0), Carry(1), Index, Carry(2), Carry(3)];
    let operands = || [0.5, 1.25, -0.75, 2.0].map(Tensor::from).to_vec();
    Ok(vec![
        Sample::smooth(rolled(body, 3, Up, &takes), operands()),
        Sample::smooth(rolled(body, 2, Down, &takes), operands()),
    ])
}

/// Iteration i computes `a[i] <- sin(a[i]) w[i]`: it updates one element of the carry a and reads one element of the
/// constant w.
fn places(module: &mut Module) -> Result<Vec<Sample>, Problem> {
    let v = f64s(&[4]);
    let body = function(module, "place", [&[v.clone(), v, index()], &[]], |b, p, _| {
        let read = |x: Atom| b.emit1(DynamicSlice { sizes: vec![1] }, &[x, p[2]]);
        let product = b.emit1(Scalar::Mul, &[b.emit1(Scalar::Sin, &[read(p[0])]), read(p[1])]);
        vec![b.emit1(DynamicUpdateSlice, &[p[0], product, p[2]])]
    })?;
    let operands = vec![Tensor::from([0.5, -1.0, 2.0, 0.25]), Tensor::from([1.5, 0.5, -2.0, 1.0])];
    Ok(vec![Sample::smooth(rolled(body, 3, Up, &[Carry(0), Const, Index]), operands)])
}

/// Carries of three dtypes (the i64 n, the bool t, the f32 z) with elements m and x of two dtypes: `n' = n + m`, `t' =
/// n < 3`, `z' = t ? z x : z`.
fn dtypes(module: &mut Module) -> Result<Vec<Sample>, Problem> {
    let single = Type::scalar(Dtype::F32);
    let types = [index(), Type::scalar(Dtype::Bool), single.clone(), index(), single];
    let body = function(module, "mixed", [&types, &[]], |b, p, _| {
        let n = b.emit1(Scalar::Add, &[p[0], p[3]]);
        let few = b.emit1(Scalar::Lt, &[p[0], Literal::i64(3).into()]);
        let z = b.emit1(Scalar::Select, &[p[1], b.emit1(Scalar::Mul, &[p[2], p[4]]), p[2]]);
        vec![n, few, z, p[1], n]
    })?;
    let operands = vec![
        Tensor::scalar(1i64),
        Tensor::scalar(true),
        Tensor::scalar(1.5f32),
        Tensor::from([1i64, 2, 3]),
        Tensor::from([0.5f32, 2.0, -3.0]),
    ];
    let takes = [Carry(0), Carry(1), Carry(2), Xs, Xs];
    Ok(vec![Sample::smooth(rolled(body, 3, Up, &takes), operands)])
}

/// Loops without carries (`map`).
fn maps(module: &mut Module) -> Result<Vec<Sample>, Problem> {
    let body = function(module, "each", [&[f64s(&[2])], &[]], |b, p, _| {
        vec![b.emit1(Scalar::Exp, p), Literal::f64(1.0).into()]
    })?;
    let xs = Tensor::from([[0.5, -1.0], [0.25, 2.0]]);
    Ok(vec![Sample::smooth(rolled(body, 2, Up, &[Xs]), vec![xs])])
}

/// A branch that contains a loop, whose body contains a loop with a branch. Iteration i of the inner loop computes `z'
/// = i even ? sin(z w) : z z` from the carry z and the constant w, and stacks a result.
fn nested(module: &mut Module) -> Result<Vec<Sample>, Problem> {
    let s = f64s(&[]);
    let pair = [s.clone(), s.clone()];
    let even = function(module, "even", [&pair, &[]], |b, p, _| {
        vec![b.emit1(Scalar::Sin, &[b.emit1(Scalar::Mul, p)])]
    })?;
    let odd =
        function(module, "odd", [&pair, &[]], |b, p, _| vec![b.emit1(Scalar::Mul, &[p[0], p[0]])])?;
    let inner = function(module, "inner", [&[index(), s.clone(), s.clone()], &[]], |b, p, _| {
        let bit = b.emit1(Scalar::And, &[p[0], Literal::i64(1).into()]);
        let op = Cond { branches: vec![even, odd] };
        let z = b.emit1(op, &[bit, p[1], p[2]]);
        vec![z, b.emit1(Scalar::Mul, &[z, p[1]])]
    })?;
    let outer = function(module, "outer", [&[s.clone(), f64s(&[1])], &[]], |b, p, _| {
        let w = b.emit1(Reshape { shape: [].into() }, &[p[1]]);
        let y = b.emit(rolled(inner, 2, Up, &[Index, Carry(0), Const]), &[p[0], w]);
        vec![y[0], y[1]]
    })?;
    let xs = f64s(&[3, 1]);
    let run = function(module, "run", [&[s.clone(), xs.clone()], &[]], |b, p, _| {
        let y = b.emit(rolled(outer, 3, Down, &[Carry(0), Xs]), p);
        vec![y[0], y[1]]
    })?;
    let rest = function(module, "rest", [&[s, xs], &[]], |b, p, _| {
        vec![p[0], b.emit1(Broadcast { shape: [3, 2].into(), dims: vec![] }, &[p[0]])]
    })?;
    let operands = |which: bool| {
        let xs = Tensor::from([[0.5], [1.5], [-0.75]]);
        vec![Tensor::scalar(which), Tensor::from(0.75), xs]
    };
    let xs = || Tensor::from([[0.5], [1.5], [-0.75]]);
    let choose = Cond { branches: vec![rest, run] };
    Ok(vec![
        Sample::smooth(rolled(outer, 3, Up, &[Carry(0), Xs]), vec![Tensor::from(0.75), xs()]),
        Sample::smooth(choose.clone(), operands(true)),
        Sample::smooth(choose, operands(false)),
    ])
}

/// A body that is linear in its carry h, a constant w and elements x: `h' = k h + w` and `y = h l + x`, with a constant
/// k and elements l in which it is not linear.
fn linear(module: &mut Module) -> Result<Vec<Sample>, Problem> {
    let v = f64s(&[2]);
    let types: [&[Type]; 2] = [&[v.clone(), v.clone()], &[v.clone(), v.clone(), v]];
    let body = function(module, "linear", types, |b, k, p| {
        let scaled = |x: Atom, k: Atom| b.emit1(Scalar::Mul, &[x, k]);
        let h = b.emit1(Scalar::Add, &[scaled(p[0], k[0]), p[1]]);
        vec![h, b.emit1(Scalar::Add, &[scaled(p[0], k[1]), p[2]])]
    })?;
    let rows = |x: f64| Tensor::from([[x, -1.0], [0.5, x], [2.0 * x, 0.25]]);
    let (u, v, w) = ([0.5, -1.5], [1.25, 0.75], [-0.5, 2.0]);
    let operands = vec![Tensor::from(u), rows(0.5), Tensor::from(v), Tensor::from(w), rows(1.5)];
    let takes = [Const, Xs, Carry(0), Const, Xs];
    Ok([Up, Down].map(|d| Sample::smooth(rolled(body, 3, d, &takes), operands.clone())).into())
}

/// Returns samples of loops with fewer checkpoint slots (saved carries) than iterations, so that carries are
/// recomputed.
fn replayed(module: &mut Module) -> Result<Vec<Sample>, Problem> {
    let keeping = |mut sample: Sample, carries: usize| {
        let Op::Loop(of) = sample.op else { return None };
        sample.op = Loop { carries: Some(slot_count(carries)), ..of }.into();
        Some(sample)
    };
    let mut all = Vec::new();
    for (part, which) in
        [(recurrence as SampleGroup, 0..2), (carries, 0..1), (places, 0..1), (dtypes, 0..1)]
    {
        let of = part(module)?;
        all.extend(of[which].iter().filter_map(|s| keeping(s.clone(), 1)));
    }
    let of = recurrence(module)?;
    let Some(Op::Loop(of)) = of.first().map(|s| s.op.clone()) else { return Ok(all) };
    for (n, carries, direction) in [(7, 2, Up), (6, 3, Down)] {
        let xs: Vec<f64> = (0..2 * n).map(|i| 0.5 - 0.1 * i as f64).collect();
        let xs = Tensor::new(&[n, 2], xs)?;
        let operands = vec![Tensor::from([0.75, -0.5]), Tensor::from([1.0, 0.25]), xs];
        let op = Loop {
            carries: Some(slot_count(carries)),
            ..rolled(of.body, n, direction, &of.spec.takes)
        };
        all.push(Sample::smooth(op, operands));
    }
    Ok(all)
}
