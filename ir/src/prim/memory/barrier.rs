//! `barrier{mark, id}`: the identity, whose result passes treat as a value different from the operand.
//!
//! Passes merge equations that compute the same value. They must not do so where recomputation is intended:
//!
//! ```text
//! %1: f64[3] = exp %0                    // read by the forward pass
//! %2: f64[3] = barrier{name=mine, id=0} %0
//! %3: f64[3] = exp %2                    // read by the reverse pass; %1 can be freed earlier
//! ```
//!
//! So a barrier is a boundary that no pass merges, folds or looks through ([`Effects::Fixed`]); it is removed
//! if its result is not read. The [mark](Mark) gives its purpose. `id` distinguishes barriers with equal marks.
//! Like values, barriers are renumbered in order when a function is finished, so that equal programs are equal
//! and an inlined barrier gets a new number.
//!
//! The barrier applies to the value, not to its derivatives: tangents and cotangents have no barrier. Nothing
//! is computed, copied or stored for it. Model: `optimization_barrier` of XLA, `name` of JAX's
//! `checkpoint_name`.

use super::mark::Mark;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::problem::{Kind, Problem, Result};
use crate::lang::types::{ArrayType, Dtype, Shape};
use crate::prim::facet::Facet;
use crate::prim::rules::view::one_array;
use crate::prim::{
    Arg, ArrayPrimitive, Broadcast, Cotangents, Doc, Effects, Family, Linearity, Lowering, Op,
    Operand, Rewrite, Sample, Scalar, Tangent,
};
use crate::tensor::Tensor;

/// The identity, whose result passes treat as a value different from the operand. Its text is `barrier{mark, id}`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Barrier {
    /// The purpose of the barrier.
    pub mark: Mark,
    /// The number of the barrier within its function, which makes barriers with equal marks different.
    pub id: u32,
}

notation!(Barrier = "barrier" { mark(mark, name, draw, split), id });

impl Op {
    /// Returns the barrier with this mark. It gets its number when the function that contains it is finished.
    pub fn barrier(mark: Mark) -> Op {
        Barrier { mark, id: 0 }.into()
    }

    /// Returns the barrier's mark; `None` if the primitive is not a barrier.
    pub fn mark(&self) -> Option<&Mark> {
        let Facet::Barrier(barrier) = self.facet() else { return None };
        Some(&barrier.mark)
    }

    /// Gives a barrier the number `next`, and increments `next`; does nothing to other primitives.
    pub(crate) fn number(&mut self, next: &mut u32) {
        if let Op::Barrier(barrier) = self {
            barrier.id = *next;
            *next += 1;
        }
    }
}

/// Emits the value `x` in shape `shape` such that no pass finds the result to be equal to `x`. A literal is put
/// behind a barrier; another number is multiplied by a 1 behind a barrier, and a bool combined by logical and
/// with a `true` behind a barrier.
pub fn apart_from(b: &Builder<'_>, mark: &Mark, x: Atom, shape: &Shape) -> Atom {
    let marked = |x: Literal| {
        let mark = b.emit1(Op::barrier(mark.clone()), &[x.into()]);
        b.emit1(Broadcast { shape: shape.clone(), dims: Vec::new() }, &[mark])
    };
    match x {
        Atom::Literal(x) => marked(x),
        Atom::Value(_) => {
            let dtype = b.dtype_of(x);
            let same = if dtype == Dtype::Bool { Scalar::And } else { Scalar::Mul };
            b.emit1(same, &[x, marked(Literal::of(dtype, 1.0))])
        }
    }
}

impl ArrayPrimitive for Barrier {
    const EFFECTS: Effects = Effects::Fixed;

    fn docs() -> Vec<Doc> {
        vec![Doc {
            family: Family::Marks,
            name: "barrier{mark, id}".into(),
            math: "y = x".into(),
            types: "any array".into(),
            derivative: "∂x: t, unmarked".into(),
            edges: "passes neither merge barriers nor look through them; a dead barrier is removed"
                .into(),
        }]
    }

    fn infer(&self, operands: &[Operand<'_>]) -> Result<ArrayType> {
        if let (Some(name), false) = (self.mark.name(), self.mark.is_well_formed()) {
            return Err(Problem::new(
                Kind::Arguments,
                format!("a value cannot be marked with the name {name:?}"),
                "a name is a word of letters, digits, `_` and `.`, and no dtype or truth value",
            ));
        }
        one_array("barrier", operands).cloned()
    }

    fn eval(&self, operands: &[Tensor]) -> Result<Tensor> {
        Ok(operands[0].clone())
    }

    /// Returns the operand's tangent itself, without a barrier.
    fn jvp(&self, _: &Builder<'_>, _: &[Atom], _: Atom, dx: &[Tangent]) -> Result<Tangent> {
        Ok(dx[0])
    }

    fn is_linear(&self, _: &[Linearity]) -> bool {
        true
    }

    fn transpose(&self, b: &Builder<'_>, _: &[Arg], ct: Atom, into: &mut Cotangents) -> Result<()> {
        into.add(b, 0, ct);
        Ok(())
    }

    fn batch(&self, b: &Builder<'_>, _: usize, x: &[Atom], _: &[bool]) -> Result<Atom> {
        Ok(b.emit1(self.clone(), x))
    }

    fn lower(&self, _: &[Operand<'_>]) -> Lowering {
        Lowering::Alias { mark: Some(self.mark.clone()), sharding: None }
    }

    fn rewrites() -> Vec<Rewrite> {
        Vec::new()
    }

    fn samples() -> Vec<Sample> {
        vec![
            Sample::smooth(
                Op::barrier(Mark::Named("mark".into())),
                vec![Tensor::from([1.5, -2.0])],
            ),
            Sample::smooth(Op::barrier(Mark::Named("mark".into())), vec![Tensor::from(2.5)]),
            Sample::edge(
                Op::barrier(Mark::Named("mark".into())),
                vec![Tensor::from([[1i64], [2]])],
            ),
            Sample::edge(
                Op::barrier(Mark::Named("mark".into())),
                vec![Tensor::from([true, false])],
            ),
        ]
    }
}
