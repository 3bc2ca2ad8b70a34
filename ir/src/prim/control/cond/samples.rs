//! Sample branches: selected by bools and by numbers in and out of range. A result depends on an operand in one
//! branch and on none in the other, one result is an integer, and the branches save residuals of different
//! shapes.

use super::{Cond, function};
use crate::lang::builder::Builder;
use crate::lang::function::{Atom, FuncId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::types::{Dtype, Type};
use crate::prim::{Broadcast, Dot, Reduce, Reducer, Sample, Scalar};
use crate::tensor::Tensor;

pub(super) fn all(module: &mut Module) -> Vec<Sample> {
    let types =
        [Type::array(Dtype::F64, &[2, 2]), Type::array(Dtype::F64, &[2]), Type::scalar(Dtype::I64)];
    let mut branch = |name: &str, body: fn(&Builder<'_>, &[Atom]) -> Vec<Atom>| {
        function(module, name, [&types, &[]], |b, x, _| body(b, x)).ok()
    };
    // A branch that saves a matrix as the residual for its linear function.
    let sin = branch("sin", |b, x| {
        let y = b.emit1(
            Dot { batch: vec![], contract: vec![(1, 0)] },
            &[b.emit1(Scalar::Sin, &x[..1]), x[1]],
        );
        vec![y, x[2], b.emit1(Scalar::Mul, &[x[1], x[1]])]
    });
    // A branch that saves vectors as residuals, and whose linear function also reads the branch's result.
    let exp = branch("exp", |b, x| {
        let y = b.emit1(Scalar::Exp, &x[1..2]);
        let sum = b.emit1(Reduce { reducer: Reducer::Sum, axes: vec![0] }, &x[..1]);
        let more = b.emit1(Scalar::Add, &[x[2], Literal::i64(1).into()]);
        vec![b.emit1(Scalar::Mul, &[y, sum]), more, y]
    });
    // A branch whose result depends on no operand.
    let none = branch("none", |b, x| {
        let y = b.emit1(Broadcast { shape: [2].into(), dims: vec![] }, &[Literal::f64(1.5).into()]);
        vec![y, x[2], y]
    });
    let operands = |which: Tensor| {
        let x = Tensor::from([[0.5, -1.5], [2.0, 0.25]]);
        vec![which, x, Tensor::from([1.25, -0.75]), Tensor::scalar(3i64)]
    };
    let two = |no: Option<FuncId>, yes: Option<FuncId>, which: bool| {
        let branches: Vec<FuncId> = [no, yes].into_iter().flatten().collect();
        Sample::smooth(Cond { branches }, operands(Tensor::scalar(which)))
    };
    let branches: Vec<FuncId> = [sin, exp, none].into_iter().flatten().collect();
    let switch = |which: i64| {
        Sample::smooth(Cond { branches: branches.clone() }, operands(Tensor::scalar(which)))
    };
    vec![
        two(sin, exp, false),
        two(sin, exp, true),
        two(none, exp, false),
        two(none, none, true),
        switch(0),
        switch(1),
        switch(7),
        switch(-1),
    ]
}
