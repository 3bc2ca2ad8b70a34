//! Samples for the tests over all primitives: equations with closed-form solutions, so that the solver is exact.

use super::super::{IntegerPow, Sample, Scalar};
use super::{LinearSolve, Root};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::module::Module;
use crate::lang::types::{Dtype, Type};
use crate::prim::rules::region_helpers::function;
use crate::tensor::Tensor;

fn define(
    module: &mut Module,
    name: &str,
    params: usize,
    body: impl Fn(&Builder<'_>, &[Atom]) -> Vec<Atom>,
) -> Option<FuncId> {
    let params = vec![Type::array(Dtype::F64, &[2]); params];
    function(module, name, [&params, &[]], |b, p, _| body(b, p)).ok()
}

/// The system of a rotation with scaling, `(x, y) -> (p x + q y, p y - q x)` element by element. Its transpose rotates
/// in the other direction, so a test fails if the solver and the solver of the transposed system are confused.
pub(super) fn linear_solve(module: &mut Module) -> Option<Sample> {
    let mul = |b: &Builder<'_>, x: Atom, y: Atom| b.emit1(Scalar::Mul, &[x, y]);
    let turn = |b: &Builder<'_>, p: &[Atom], sign: Scalar| {
        let back = match sign {
            Scalar::Add => Scalar::Sub,
            _ => Scalar::Add,
        };
        let first = b.emit1(sign, &[mul(b, p[0], p[2]), mul(b, p[1], p[3])]);
        vec![first, b.emit1(back, &[mul(b, p[0], p[3]), mul(b, p[1], p[2])])]
    };
    let scaled = |b: &Builder<'_>, p: &[Atom], sign: Scalar| {
        let length = b.emit1(Scalar::Add, &[mul(b, p[0], p[0]), mul(b, p[1], p[1])]);
        let back = turn(b, p, sign).into_iter();
        back.map(|x| b.emit1(Scalar::Div, &[x, length])).collect()
    };
    let matvec = define(module, "turn", 4, |b, p| turn(b, p, Scalar::Add))?;
    let solve = define(module, "turn_back", 4, |b, p| scaled(b, p, Scalar::Sub))?;
    let transposed = define(module, "turn_on", 4, |b, p| scaled(b, p, Scalar::Add))?;
    let operands = vec![
        Tensor::from([1.5, -2.0]),
        Tensor::from([0.5, 3.0]),
        Tensor::from([0.25, -1.0]),
        Tensor::from([2.0, 0.75]),
    ];
    Some(Sample::smooth(LinearSolve { solve, transposed, matvec }, operands))
}

/// The equation `y³ = k l` for y, with positive k and l.
pub(super) fn root(module: &mut Module) -> Option<Sample> {
    let mul = |b: &Builder<'_>, x: Atom, y: Atom| b.emit1(Scalar::Mul, &[x, y]);
    let solve =
        define(module, "cube_root", 2, |b, p| vec![b.emit1(Scalar::Cbrt, &[mul(b, p[0], p[1])])])?;
    let residual = define(module, "cube", 3, |b, p| {
        let cube = b.emit1(IntegerPow { n: 3 }, &[p[2]]);
        vec![b.emit1(Scalar::Sub, &[cube, mul(b, p[0], p[1])])]
    })?;
    let tangent = define(module, "cube_slope", 4, |b, p| {
        let slope = mul(b, mul(b, p[2], p[2]), crate::Literal::f64(3.0).into());
        vec![b.emit1(Scalar::Div, &[p[3], slope])]
    })?;
    let operands = vec![Tensor::from([1.5, 2.0]), Tensor::from([0.5, 3.0])];
    Some(Sample::smooth(Root { solve, residual, tangent, cotangent: tangent }, operands))
}
