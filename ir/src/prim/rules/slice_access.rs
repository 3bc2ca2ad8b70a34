//! Slice accesses: descriptions of the boxes of an array that equations read and write. A box is a range of indices
//! along each axis of the array.
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

/// The box of the first operand that an equation reads or writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceAccess {
    /// The first index of the box along each axis.
    pub starts: Vec<Start>,
    /// The extent of the box along each axis.
    pub sizes: Vec<usize>,
    /// Whether a box that reaches out of the array is moved until it fits; otherwise its elements outside the array are
    /// dropped.
    pub clamps: bool,
    /// The write of an operand to the box; `None` if the equation reads the box.
    pub writes: Option<Write>,
}

/// The first index of a box along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// The index is this constant.
    Number(i64),
    /// The index is a component of an integer operand of the equation.
    Given {
        /// The index of the operand that holds the start.
        operand: usize,
        /// The row-major position within that operand of the component for this axis.
        component: usize,
    },
}

/// A write of an operand of the equation to a box of the first operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The index of the operand that is written.
    pub operand: usize,
    /// Whether the operand is added to the elements of the box; otherwise it replaces them.
    pub adds: bool,
}

/// A primitive that reads or writes a box of its first operand.
pub(crate) trait Boxed {
    /// Returns the box (a range of indices along each axis) of the first operand that the primitive reads or writes,
    /// for operands of these types; `None` if it does not access exactly one box.
    fn part(&self, operands: &[Type]) -> Option<SliceAccess>;

    /// Emits the same access on the array `of.array`, which has another shape than the first operand.
    fn within(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom>;
}

/// The array that replaces the first operand of an access, and the box of it (possibly all of it) that
/// is accessed.
pub struct Within<'a> {
    /// The array, of another shape, that is accessed in place of the original one.
    pub array: Atom,
    /// The start of the accessed box along each axis; `None` if the box covers the whole axis.
    pub starts: &'a [Option<Atom>],
    /// The size of the accessed box along each axis.
    pub sizes: &'a [usize],
    /// The value that is written, `None` if the access reads.
    pub update: Option<Atom>,
}

impl Within<'_> {
    /// Returns whether the accessed box covers the whole array `self.array`.
    pub(crate) fn is_all(&self) -> bool {
        self.starts.iter().all(Option::is_none)
    }

    /// Returns the start of the box along every axis as operands of a slice or an update; 0 along axes
    /// without a start.
    pub(crate) fn corner(&self) -> Vec<Atom> {
        let zero = Atom::from(Literal::i64(0));
        self.starts.iter().map(|start| start.unwrap_or(zero)).collect()
    }

    /// Returns the axes that have a start, and a vector of their starts, in the form that gathers and scatters take.
    pub(crate) fn indices(&self, b: &Builder<'_>) -> (Vec<usize>, Atom) {
        let axes = (0..self.starts.len()).filter(|k| self.starts[*k].is_some()).collect();
        (axes, vector(b, &self.starts.iter().flatten().copied().collect::<Vec<_>>()))
    }

    /// Returns the sizes of the box along the axes without a start.
    pub(crate) fn window(&self) -> Vec<usize> {
        let axes = self.starts.iter().zip(self.sizes);
        axes.filter(|(start, _)| start.is_none()).map(|(_, size)| *size).collect()
    }

    /// Emits a read of the box from the replacing array.
    pub(crate) fn read(&self, b: &Builder<'_>) -> Atom {
        if self.is_all() {
            return self.array;
        }
        let operands = [&[self.array], &self.corner()[..]].concat();
        b.emit1(DynamicSlice { sizes: self.sizes.to_vec() }, &operands)
    }
}

impl Start {
    /// Returns the start that is given by a scalar operand.
    pub(crate) fn scalar(operand: usize) -> Start {
        Start::Given { operand, component: 0 }
    }
}

impl Op {
    fn boxed(&self) -> Option<&dyn Boxed> {
        let Facet::Box(of) = self.facet() else { return None };
        Some(of)
    }

    /// Returns the box of its first operand that the primitive reads or writes; `None` if it does not
    /// access exactly one box.
    pub fn part(&self, operands: &[Type]) -> Option<SliceAccess> {
        self.boxed()?.part(operands)
    }

    /// Emits the same access on the array `of.array` in place of the first operand: returns the
    /// elements read, or the array after the write. Returns `None` where [`Op::part`] does.
    pub fn of_part(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom> {
        self.boxed()?.within(b, of)
    }
}
