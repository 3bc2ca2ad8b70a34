//! Parts: boxes of an array that equations read and write, as data.
//!
//! Slices, gathers at one place, updates and scatters to one place differ in how they say where a box
//! begins. [`Op::part`] says it in one way, for whoever asks which parts of an array meet, and
//! [`Op::of_part`] is the same equation on a part of the array in place of all of it. Each says it in its
//! own file ([`Boxed`]):
//!
//! ```text
//! %3: f64[3] = gather{batch=0, axes=[1], bounds=clip} %0, %1      of %0: f64[3,9], %1: i64[1]
//!     begins at 0 and at %1[0], has the sizes 3 and 1
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
    /// Where it begins along each axis.
    pub starts: Vec<Start>,
    /// How many places it has along each axis.
    pub sizes: Vec<usize>,
    /// A box that would begin outside is moved until it fits.
    pub clamps: bool,
    /// The operand that is written to it, and whether that is added to what is there.
    pub writes: Option<Write>,
}

/// Where a box begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At that place.
    Number(i64),
    /// Where that component (in row-major order) of that operand says.
    Given {
        /// The operand.
        operand: usize,
        /// The component.
        component: usize,
    },
}

/// What is written to a box.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// The operand.
    pub operand: usize,
    /// It is added, and otherwise replaces what is there.
    pub adds: bool,
}

/// A primitive that reads or writes a box of its first operand.
pub(crate) trait Boxed {
    /// Which box, if it is one.
    fn part(&self, operands: &[Type]) -> Option<SliceAccess>;

    /// The same on an array that has another shape.
    fn within(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom>;
}

/// What is read or written in place of a box of an array.
pub struct Within<'a> {
    /// An array of another shape.
    pub array: Atom,
    /// Where the box begins there along each axis; it is all of the axis otherwise.
    pub starts: &'a [Option<Atom>],
    /// How many places it has along each axis.
    pub sizes: &'a [usize],
    /// What is written, if anything is.
    pub update: Option<Atom>,
}

impl Within<'_> {
    /// Whether the box is the array.
    pub(crate) fn is_all(&self) -> bool {
        self.starts.iter().all(Option::is_none)
    }

    /// Where the box begins, as operands of a slice or an update.
    pub(crate) fn corner(&self) -> Vec<Atom> {
        let zero = Atom::from(Literal::i64(0));
        self.starts.iter().map(|start| start.unwrap_or(zero)).collect()
    }

    /// The axes along which a start is given, and these starts as a vector, as gathers and scatters say it.
    pub(crate) fn indices(&self, b: &Builder<'_>) -> (Vec<usize>, Atom) {
        let axes = (0..self.starts.len()).filter(|k| self.starts[*k].is_some()).collect();
        (axes, vector(b, &self.starts.iter().flatten().copied().collect::<Vec<_>>()))
    }

    /// The sizes along the other axes.
    pub(crate) fn window(&self) -> Vec<usize> {
        let axes = self.starts.iter().zip(self.sizes);
        axes.filter(|(start, _)| start.is_none()).map(|(_, size)| *size).collect()
    }

    /// The box, read.
    pub(crate) fn read(&self, b: &Builder<'_>) -> Atom {
        if self.is_all() {
            return self.array;
        }
        let operands = [&[self.array], &self.corner()[..]].concat();
        b.emit1(DynamicSlice { sizes: self.sizes.to_vec() }, &operands)
    }
}

impl Start {
    /// Component 0 of an operand.
    pub(crate) fn scalar(operand: usize) -> Start {
        Start::Given { operand, component: 0 }
    }
}

impl Op {
    fn boxed(&self) -> Option<&dyn Boxed> {
        let Facet::Box(of) = self.facet() else { return None };
        Some(of)
    }

    /// Which box of its first operand this reads or writes, if it is one box.
    pub fn part(&self, operands: &[Type]) -> Option<SliceAccess> {
        self.boxed()?.part(operands)
    }

    /// The same on an array that has another shape: what is read, or the array that is written. `None`
    /// where [`Op::part`] is.
    pub fn of_part(&self, b: &Builder<'_>, of: &Within<'_>) -> Option<Atom> {
        self.boxed()?.within(b, of)
    }
}
