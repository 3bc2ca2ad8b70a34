//! Accesses: the boxes of arrays that equations read and write, with affine starts.

use super::access_box::{Area, AxisRange};
use super::integer_facts::{Symbol, ValueFacts};
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::prim::{SliceAccess, Start, component, linear};
use tapeloom_ir::{Atom, Builder, Equation, Function, Type, ValueId};

/// A read or write, by an equation, of a box (a range of indices per axis) of its first operand; the box starts at
/// affine forms.
pub(super) struct Access {
    pub(super) part: SliceAccess,
    pub(super) starts: Vec<Affine<Symbol>>,
}

impl Access {
    pub(super) fn of(known: &ValueFacts<'_>, f: &Function, e: &Equation) -> Option<Access> {
        let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
        let part = e.op.part(&types)?;
        let start = |start: &Start| match start {
            Start::Number(at) => Some(Affine::constant(*at)),
            Start::Given { operand, component } => {
                known.parts(e.operands[*operand])?.get(*component).cloned()
            }
        };
        let starts = part.starts.iter().map(start).collect::<Option<_>>()?;
        (!part.sizes.contains(&0)).then_some(Access { part, starts })
    }

    /// Returns an area that contains the box in every iteration; `None` if no such area is known. `same` returns
    /// whether the elements of a value are the same in all iterations.
    pub(super) fn area(
        &self,
        known: &ValueFacts<'_>,
        extents: &[usize],
        same: impl Fn(ValueId) -> bool,
    ) -> Option<Area> {
        let axes = self.starts.iter().zip(&self.part.sizes).zip(extents);
        let along = axes.map(|((start, size), extent)| {
            // If out-of-range starts are not clamped, the box must be known to lie inside the array.
            (self.part.clamps || fits(known, start, *size, *extent))
                .then(|| AxisRange::of(known, start, *size, *extent, &same))
        });
        along.collect::<Option<_>>().map(Area)
    }

    /// Returns whether the box is known to lie inside an array with these `extents` in every iteration.
    pub(super) fn is_inside(&self, known: &ValueFacts<'_>, extents: &[usize]) -> bool {
        let mut axes = self.starts.iter().zip(&self.part.sizes).zip(extents);
        axes.all(|((start, size), extent)| fits(known, start, *size, *extent))
    }

    /// Returns the number of elements of the box.
    pub(super) fn elements(&self) -> usize {
        self.part.sizes.iter().product()
    }
}

/// Returns whether the `size` indices from `start` on are known to lie within an axis of that `extent`.
fn fits(known: &ValueFacts<'_>, start: &Affine<Symbol>, size: usize, extent: usize) -> bool {
    let range = known.range_of(start);
    range.least >= 0 && range.most + size as i128 <= extent as i128
}

/// Emits equations that compute the affine form `sum` as an integer. `value` returns the atom for a value that occurs
/// in `sum`. If `value` returns `None` for a value of `sum`, the result is `None`.
pub(super) fn number(
    b: &Builder<'_>,
    sum: &Affine<Symbol>,
    value: impl Fn(ValueId) -> Option<Atom>,
) -> Option<Atom> {
    let term = |((v, part), factor): &(Symbol, i64)| {
        Some((component(b, value(*v)?, *part as usize), *factor))
    };
    let terms: Vec<(Atom, i64)> = sum.terms().iter().map(term).collect::<Option<_>>()?;
    Some(linear(b, &terms, sum.offset()))
}
