//! Slice accesses: the boxes of an array that equations read and write, as data.
//!
//! Slices, gathers at one position, updates and scatters to one position describe the start of a box in
//! different ways. [`Op::part`] returns a uniform description, for passes that test whether parts of an array
//! overlap. [`Op::of_part`] emits the same equation on a part of the array in place of the whole. Each
//! primitive implements both in its own file ([`Boxed`]):
//! ```text
//! %3: f64[3] = gather{batch=0, axes=[1], bounds=clip} %0, %1      of %0: f64[3,9], %1: i64[1]
//!     starts at 0 and at %1[0], has the sizes 3 and 1
//! ```

use super::slice_helpers::vector;
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::types::Type;
use crate::prim::facet::Facet;
use crate::prim::{DynamicSlice, Op};

/// A box of the first operand of an equation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceAccess {
    /// The start along each axis.
    pub starts: Vec<Start>,
    /// The size of the box along each axis.
    pub sizes: Vec<usize>,
    /// Whether a box that would start outside is moved until it fits.
    pub clamps: bool,
    /// The operand that is written to the box, if any.
    pub writes: Option<Write>,
}

/// The start of a box along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// A constant index.
    Number(i64),
    /// A component of an integer operand.
    Given {
        /// The index of the operand.
        operand: usize,
        /// The row-major position of the component in the operand.
        component: usize,
    },
}

/// A write of an operand to a box.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The index of the operand that is written.
    pub operand: usize,
    /// Whether the operand is added to the elements of the box; otherwise it replaces them.
    pub adds: bool,
}

/// A primitive that reads or writes a box of its first operand.
pub(crate) trait Boxed {
    /// Returns the box, if the primitive accesses one box.
    fn part(&self, operands: &[Type]) -> Option<SliceAccess>;

    /// Emits the same access on an array with another shape.
    fn within(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom>;
}

/// An access to the whole or a part of another array that replaces the access to a box of an array.
pub struct Within<'a> {
    /// The array, of another shape, that is accessed in place of the original one.
    pub array: Atom,
    /// The start of the box along each axis; `None` if the box is the whole axis.
    pub starts: &'a [Option<Atom>],
    /// The size of the box along each axis.
    pub sizes: &'a [usize],
    /// The value that is written, if any.
    pub update: Option<Atom>,
}

impl Within<'_> {
    /// Returns whether the box is the whole array.
    pub(crate) fn is_all(&self) -> bool {
        self.starts.iter().all(Option::is_none)
    }

    /// Returns the start of the box along every axis, as operands of a slice or an update; 0 along whole axes.
    pub(crate) fn corner(&self) -> Vec<Atom> {
        let zero = Atom::from(Literal::i64(0));
        self.starts.iter().map(|start| start.unwrap_or(zero)).collect()
    }

    /// Returns the axes with a start, and these starts as a vector, as gathers and scatters need them.
    pub(crate) fn indices(&self, b: &Builder<'_>) -> (Vec<usize>, Atom) {
        let axes = (0..self.starts.len()).filter(|k| self.starts[*k].is_some()).collect();
        (axes, vector(b, &self.starts.iter().flatten().copied().collect::<Vec<_>>()))
    }

    /// Returns the sizes of the box along the axes without a start.
    pub(crate) fn window(&self) -> Vec<usize> {
        let axes = self.starts.iter().zip(self.sizes);
        axes.filter(|(start, _)| start.is_none()).map(|(_, size)| *size).collect()
    }

    /// Emits the box read from the array.
    pub(crate) fn read(&self, b: &Builder<'_>) -> Atom {
        if self.is_all() {
            return self.array;
        }
        let operands = [&[self.array], &self.corner()[..]].concat();
        b.emit1(DynamicSlice { sizes: self.sizes.to_vec() }, &operands)
    }
}

impl Start {
    /// Returns the start that is component 0 of an operand.
    pub(crate) fn scalar(operand: usize) -> Start {
        Start::Given { operand, component: 0 }
    }
}

impl Op {
    fn boxed(&self) -> Option<&dyn Boxed> {
        let Facet::Box(of) = self.facet() else { return None };
        Some(of)
    }

    /// Returns the box of its first operand that the primitive reads or writes, if it accesses one box.
    pub fn part(&self, operands: &[Type]) -> Option<SliceAccess> {
        self.boxed()?.part(operands)
    }

    /// Emits the same access on an array with another shape: returns the elements read, or the array after the
    /// write. Returns `None` where [`Op::part`] does.
    pub fn of_part(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom> {
        self.boxed()?.within(b, of)
    }
}
