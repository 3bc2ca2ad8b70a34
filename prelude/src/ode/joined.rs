//! Joins the small leaves of a state into one vector, so that a step has fewer operations.

use super::state::State;
use crate::Var;
use crate::ops::functions::concat;
use tapeloom_ir::{Loc, Shape};

/// The largest number of elements of a state whose leaves are joined. For larger states, the copies cost more than is
/// saved by fewer operations.
const SMALL: usize = 1024;

/// The layout by which the leaves of a state are joined into one vector.
pub(super) struct Joined {
    /// The shapes of the leaves; `None` if the leaves are not joined.
    shapes: Option<Vec<Shape>>,
}

impl Joined {
    /// Returns the layout for a state with the leaves `y`. They are joined into one vector if there is more than one
    /// leaf, all have one dtype, and together they have at most [`SMALL`] elements.
    pub(super) fn of(y: &[Var], at: Loc) -> Joined {
        let types: Vec<_> = y.iter().map(|y| y.ty(at)).collect();
        let alike = types.iter().all(|ty| ty.dtype == types[0].dtype);
        let elements: usize = types.iter().map(|ty| ty.shape.elements()).sum();
        let small = types.len() > 1 && alike && elements <= SMALL;
        Joined { shapes: small.then(|| types.into_iter().map(|ty| ty.shape).collect()) }
    }

    /// Joins leaves into a state.
    pub(super) fn join(&self, leaves: Vec<Var>) -> State {
        if self.shapes.is_none() {
            return leaves;
        }
        let flat: Vec<Var> = leaves.into_iter().map(Var::flatten).collect();
        vec![concat(&flat, 0)]
    }

    /// Splits a state into its leaves.
    pub(super) fn split(&self, state: &[Var]) -> Vec<Var> {
        self.parts(state, &[])
    }

    /// Splits states at `n` times, stacked along axis 0, into leaves.
    pub(super) fn split_rows(&self, rows: &[Var], n: usize) -> Vec<Var> {
        self.parts(rows, &[n])
    }

    fn parts(&self, state: &[Var], lead: &[usize]) -> Vec<Var> {
        let (Some(shapes), [vector]) = (&self.shapes, state) else { return state.to_vec() };
        let mut start = 0;
        let part = |shape: &Shape| {
            let end = start + shape.elements();
            let part = vector.slice_axis(lead.len(), start..end);
            start = end;
            part.reshape([lead, &shape[..]].concat())
        };
        shapes.iter().map(part).collect()
    }
}
