//! Parts: boxes of an array that equations read and write, as data.
//!
//! Slices, gathers at one place, updates and scatters to one place differ in how they say where a box
//! begins. [`Op::part`] says it in one way, for whoever asks which parts of an array meet, and
//! [`Op::of_part`] is the same equation on a part of the array in place of all of it:
//!
//! ```text
//! %3: f64[3] = gather{batch=0, axes=[1], bounds=clip} %0, %1      of %0: f64[3,9], %1: i64[1]
//!     begins at 0 and at %1[0], has the sizes 3 and 1
//! ```
//!
//! Beside these, what a program needs to take a part out of an array and to put it back.

use super::permute::move_axis;
use super::{
    Bounds, Combine, Concatenate, DynamicSlice, DynamicUpdateSlice, Gather, Op, Reshape, Scalar,
    Scatter, Slice,
};
use crate::builder::Builder;
use crate::function::Atom;
use crate::literal::Literal;
use crate::types::Type;

/// A box of the first operand of an equation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
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

impl Op {
    /// Which box of its first operand this reads or writes, if it is one box.
    pub fn part(&self, operands: &[Type]) -> Option<Part> {
        let shape = |i: usize| Some(operands.get(i)?.as_array()?.shape.to_vec());
        let given = |operand: usize| Start::Given { operand, component: 0 };
        let at = |batch: usize, axes: &[usize]| {
            if batch != 0 || shape(1)? != [axes.len()] {
                return None;
            }
            let mut sizes = shape(0)?;
            let mut starts = vec![Start::Number(0); sizes.len()];
            for (component, axis) in axes.iter().enumerate() {
                (starts[*axis], sizes[*axis]) = (Start::Given { operand: 1, component }, 1);
            }
            Some((starts, sizes))
        };
        match self {
            Op::DynamicSlice(of) => Some(Part {
                starts: (1..operands.len()).map(given).collect(),
                sizes: of.sizes.clone(),
                clamps: true,
                writes: None,
            }),
            Op::Slice(of) if of.strides.iter().all(|s| *s == 1) => Some(Part {
                starts: of.start.iter().map(|s| Start::Number(*s as i64)).collect(),
                sizes: of.limit.iter().zip(&of.start).map(|(l, s)| l - s).collect(),
                clamps: true,
                writes: None,
            }),
            Op::DynamicUpdateSlice(_) => Some(Part {
                starts: (2..operands.len()).map(given).collect(),
                sizes: shape(1)?,
                clamps: true,
                writes: Some(Write { operand: 1, adds: false }),
            }),
            Op::Gather(of) => {
                let (starts, sizes) = at(of.batch, &of.axes)?;
                Some(Part { starts, sizes, clamps: of.bounds == Bounds::Clip, writes: None })
            }
            Op::Scatter(Scatter { combine, batch, axes, .. }) => {
                let adds = match combine {
                    Combine::Set => false,
                    Combine::Add => true,
                    Combine::Mul | Combine::Max | Combine::Min => return None,
                };
                let (starts, sizes) = at(*batch, axes)?;
                let writes = Some(Write { operand: 2, adds });
                Some(Part { starts, sizes, clamps: false, writes })
            }
            _ => None,
        }
    }

    /// The same on an array that has another shape, whose box has those sizes, and begins along each axis
    /// at a number, or is all of it: what is read, or the array that is written. `None` where
    /// [`Op::part`] is.
    pub fn of_part(
        &self,
        b: &Builder<'_>,
        array: Atom,
        starts: &[Option<Atom>],
        sizes: &[usize],
        update: Option<Atom>,
    ) -> Option<Atom> {
        let axes: Vec<usize> = (0..starts.len()).filter(|k| starts[*k].is_some()).collect();
        let zero = || Atom::from(Literal::i64(0));
        let all = || starts.iter().map(|a| a.unwrap_or_else(zero));
        let indices = || vector(b, &starts.iter().flatten().copied().collect::<Vec<_>>());
        let rest: Vec<usize> =
            (0..sizes.len()).filter(|k| starts[*k].is_none()).map(|k| sizes[k]).collect();
        match (self, update) {
            (Op::DynamicSlice(_) | Op::Slice(_) | Op::Gather(_), None) if axes.is_empty() => {
                Some(array)
            }
            (Op::Gather(of), None) => {
                Some(b.emit1(Gather { batch: 0, axes, bounds: of.bounds }, &[array, indices()]))
            }
            (Op::DynamicSlice(_) | Op::Slice(_), None) => {
                let operands: Vec<Atom> = [array].into_iter().chain(all()).collect();
                Some(b.emit1(DynamicSlice { sizes: sizes.to_vec() }, &operands))
            }
            (Op::DynamicUpdateSlice(_), Some(update)) => {
                let update = reshaped(b, update, sizes);
                if axes.is_empty() {
                    return Some(update);
                }
                let operands: Vec<Atom> = [array, update].into_iter().chain(all()).collect();
                Some(b.emit1(DynamicUpdateSlice, &operands))
            }
            (Op::Scatter(Scatter { combine, bounds, .. }), Some(update)) => {
                let update = reshaped(b, update, &rest);
                Some(match (combine, axes.is_empty()) {
                    (Combine::Set, true) => update,
                    (_, true) => sum(b, array, update),
                    (combine, false) => {
                        let scatter =
                            Scatter { combine: *combine, batch: 0, axes, bounds: *bounds };
                        b.emit1(scatter, &[array, indices(), update])
                    }
                })
            }
            _ => None,
        }
    }
}

/// The sum of two arrays of one shape.
pub fn sum(b: &Builder<'_>, x: Atom, y: Atom) -> Atom {
    b.emit1(Scalar::Add, &[x, y])
}

/// A number and multiples of `i64` scalars.
pub fn linear(b: &Builder<'_>, terms: &[(Atom, i64)], rest: i64) -> Atom {
    let number = |x: i64| Atom::from(Literal::i64(x));
    let term = |(a, factor): &(Atom, i64)| match factor {
        1 => *a,
        _ => b.emit1(Scalar::Mul, &[*a, number(*factor)]),
    };
    match (terms.iter().map(term).reduce(|x, y| sum(b, x, y)), rest) {
        (Some(total), 0) => total,
        (Some(total), rest) => sum(b, total, number(rest)),
        (None, rest) => number(rest),
    }
}

/// A component of a vector, or a scalar itself.
pub fn component(b: &Builder<'_>, a: Atom, at: usize) -> Atom {
    if b.shape_of(a).is_empty() {
        return a;
    }
    let one = b.emit1(Slice::dense(vec![at], vec![at + 1]), &[a]);
    reshaped(b, one, &[])
}

/// Scalars as a vector.
fn vector(b: &Builder<'_>, parts: &[Atom]) -> Atom {
    let parts: Vec<Atom> = parts.iter().map(|a| reshaped(b, *a, &[1])).collect();
    match parts.as_slice() {
        [one] => *one,
        _ => b.emit1(Concatenate { axis: 0 }, &parts),
    }
}

/// The same elements in another shape.
pub fn reshaped(b: &Builder<'_>, x: Atom, shape: &[usize]) -> Atom {
    if b.shape_of(x)[..] == *shape {
        return x;
    }
    b.emit1(Reshape { shape: shape.into() }, &[x])
}

/// A box of an array, that begins where it fits.
pub fn take_box(b: &Builder<'_>, array: Atom, starts: &[Atom], sizes: &[usize]) -> Atom {
    let fixed = |a: &Atom| usize::try_from(a.literal()?.to_integer()?).ok();
    if let Some(start) = starts.iter().map(fixed).collect::<Option<Vec<usize>>>() {
        let limit = start.iter().zip(sizes).map(|(s, n)| s + n).collect();
        return b.emit1(Slice::dense(start, limit), &[array]);
    }
    let operands: Vec<Atom> = [array].into_iter().chain(starts.iter().copied()).collect();
    b.emit1(DynamicSlice { sizes: sizes.to_vec() }, &operands)
}

/// The array with a box of it replaced, that begins where it fits.
pub fn put_box(b: &Builder<'_>, array: Atom, part: Atom, starts: &[Atom]) -> Atom {
    let operands: Vec<Atom> = [array, part].into_iter().chain(starts.iter().copied()).collect();
    b.emit1(DynamicUpdateSlice, &operands)
}

/// The array with its first axis at another place.
pub fn first_axis_to(b: &Builder<'_>, x: Atom, axis: usize) -> Atom {
    if axis == 0 { x } else { move_axis(b, x, 0, axis) }
}
