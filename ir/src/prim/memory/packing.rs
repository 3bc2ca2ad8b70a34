//! Packing: stores an array in fewer bytes, and restores it.
//!
//! A bool has one bit but takes a byte. An index among three has two bits but takes eight bytes. A value that is only
//! stored to be read later can be stored in only its significant bits:
//!
//! ```text
//! %1: bool[100]       in words of 32, 1 bit each      u32[4]        16 bytes of 100
//! %2: i64[100]        0 ..= 2, in words of 32, 2 bits u32[7]        28 bytes of 800
//! %3: i64[100]        0 ..= 99999, as u32             u32[100]     400 bytes of 800
//! %4: f64[100]        as f32                          f32[100]     400 bytes of 800, rounded
//! ```
//!
//! Packing and unpacking are ordinary equations, so every engine and every transform supports them:
//!
//! ```text
//! pack:    subtract the least, convert, pad to whole words, [words, places],
//!          shift left by place times width, or over the places
//! unpack:  broadcast to [words, places], shift right by place times width, and with the mask,
//!          [words times places], slice, convert, add the least
//! ```
//!
//! Neighbouring elements share a word, from its lowest bits on. The reshape to rows, or back, may copy the array. So
//! the conversion is done before or after the reshape, whichever lets the reshape copy elements of the smaller dtype.

use super::mark::Mark;
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::lang::types::{ArrayType, Dtype, Shape};
use crate::prim::Code;
use crate::prim::{Broadcast, Convert, Iota, Pad, Reduce, Reducer, Reshape, Scalar, Slice};

/// The form in which an array is stored in fewer bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Packing {
    /// Each element is converted to a smaller dtype.
    As(Dtype),
    /// Several neighbouring elements share a word, each as its difference to the least element.
    Words {
        /// The integer dtype of the words in which elements are packed.
        word: Dtype,
        /// The number of bits of a word that each element takes.
        width: usize,
        /// The least element that the array may contain, which is subtracted from each element.
        least: Literal,
    },
}

impl Packing {
    /// Returns the lossless packings for integers or bools in the range `least..=most`. The packings with the cheapest
    /// arithmetic come first.
    pub fn exact(dtype: Dtype, least: i128, most: i128) -> Vec<Packing> {
        let (Some(first), true) = (Literal::exact_integer(dtype, least), !dtype.is_float()) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        let halves = [Dtype::U32, Dtype::I32].into_iter().find(|to| {
            let has = |x| Literal::exact_integer(*to, x).is_some();
            dtype.bytes() > to.bytes() && has(least) && has(most)
        });
        all.extend(halves.map(Packing::As));
        // The number of bits of the difference between the largest and the least element.
        let needed = (most - least).checked_ilog2().map_or(1, |bits| bits as usize + 1);
        let short = usize::from(planted(Fault::BitShort) && needed > 1);
        let width = needed - short;
        let words = [Dtype::U32, Dtype::U64].into_iter().filter(|word| 2 * width <= bits(*word));
        all.extend(words.map(|word| Packing::Words { word, width, least: first }));
        all
    }

    /// Returns the type of the packed form of an array of type `ty`.
    pub fn packed(self, ty: &ArrayType) -> ArrayType {
        match self {
            Packing::As(to) => ArrayType::new(to, ty.shape.clone()),
            Packing::Words { word, width, .. } => {
                ArrayType::new(word, [ty.shape.elements().div_ceil(bits(word) / width)])
            }
        }
    }

    /// Returns whether unpacking restores every element exactly.
    pub fn is_exact(self) -> bool {
        match self {
            Packing::As(to) => !to.is_float(),
            Packing::Words { .. } => true,
        }
    }

    /// Returns the mark for a barrier around values packed in this way: `packed` or `rounded`.
    pub fn mark(self) -> Mark {
        match self.is_exact() {
            true => Mark::Packed,
            false => Mark::Rounded,
        }
    }

    /// Returns the cost of packing and unpacking an element, in additions.
    pub fn work(self) -> u32 {
        use Code::{Add, And, Convert, Or, ShiftLeft, ShiftRightLogical, Sub};
        let to = |to| Convert(to).row().flops;
        match self {
            Packing::As(dtype) => 2 * to(dtype),
            Packing::Words { word, least, .. } => {
                let codes = [ShiftLeft, Or, ShiftRightLogical, And].map(|code| code.row().flops);
                let shifted = if least.is_zero() { 0 } else { Add.row().flops + Sub.row().flops };
                2 * to(word) + codes.iter().sum::<u32>() + shifted
            }
        }
    }

    /// Emits the packed form of the array `x`.
    pub fn pack(self, b: &Builder<'_>, x: Atom) -> Atom {
        let Packing::Words { word, width, least } = self else { return self.convert(b, x) };
        let shape = rows(b.shape_of(x).elements(), word, width);
        let dtype = b.dtype_of(x);
        let near = |x: Atom| {
            let x = if least.is_zero() { x } else { b.emit1(Scalar::Sub, &[x, least.into()]) };
            b.emit1(Convert { to: word }, &[x])
        };
        // The reshape to rows may copy the array, so convert to the smaller of the two dtypes before it.
        let numbers = match dtype.bytes() > word.bytes() {
            true => in_rows(b, near(x), Literal::zero(word), &shape),
            false => near(in_rows(b, x, least, &shape)),
        };
        let parts = b.emit1(Scalar::ShiftLeft, &[numbers, shifts(b, word, width, &shape)]);
        b.emit1(Reduce { reducer: Reducer::Or, axes: vec![1] }, &[parts])
    }

    /// Emits the array of type `ty` whose packed form is `y`.
    pub fn unpack(self, b: &Builder<'_>, y: Atom, ty: &ArrayType) -> Atom {
        let Packing::Words { word, width, least } = self else {
            return Packing::As(ty.dtype).convert(b, y);
        };
        let shape = rows(ty.shape.elements(), word, width);
        let spread = b.emit1(Broadcast { shape: shape.clone(), dims: vec![0] }, &[y]);
        let mut by = shifts(b, word, width, &shape);
        if planted(Fault::BitOrder) {
            let last = Literal::of(word, ((shape[1] - 1) * width) as f64);
            by = b.emit1(Scalar::Sub, &[last.into(), by]);
        }
        let parts = b.emit1(Scalar::ShiftRightLogical, &[spread, by]);
        let mask = Literal::of(word, (1u64 << width) as f64 - 1.0);
        let parts = b.emit1(Scalar::And, &[parts, mask.into()]);
        let far = |x: Atom| {
            let x = b.emit1(Convert { to: ty.dtype }, &[x]);
            if least.is_zero() { x } else { b.emit1(Scalar::Add, &[x, least.into()]) }
        };
        match ty.dtype.bytes() > word.bytes() {
            true => far(out_of_rows(b, parts, &ty.shape)),
            false => out_of_rows(b, far(parts), &ty.shape),
        }
    }

    fn convert(self, b: &Builder<'_>, x: Atom) -> Atom {
        match self {
            Packing::As(to) => b.emit1(Convert { to }, &[x]),
            Packing::Words { .. } => x,
        }
    }
}

/// Returns the shape with one row per word, each with as many elements of `width` bits as fit in a word.
fn rows(elements: usize, word: Dtype, width: usize) -> Shape {
    let places = bits(word) / width;
    [elements.div_ceil(places), places].into()
}

/// Emits the elements of `x` as rows of shape `shape`, one row per word; the last row is filled up with `fill`.
fn in_rows(b: &Builder<'_>, x: Atom, fill: Literal, shape: &Shape) -> Atom {
    let n = b.shape_of(x).elements();
    let flat = b.emit1(Reshape { shape: [n].into() }, &[x]);
    let filled = match shape.elements() - n {
        0 => flat,
        more => {
            let pad = Pad { low: vec![0], high: vec![more as i64], interior: vec![0] };
            b.emit1(pad, &[flat, fill.into()])
        }
    };
    b.emit1(Reshape { shape: shape.clone() }, &[filled])
}

/// Emits the array of shape `shape` whose elements are in the rows `x`.
fn out_of_rows(b: &Builder<'_>, x: Atom, shape: &Shape) -> Atom {
    let (all, n) = (b.shape_of(x).elements(), shape.elements());
    let flat = b.emit1(Reshape { shape: [all].into() }, &[x]);
    let flat = match all > n {
        true => b.emit1(Slice { start: vec![0], limit: vec![n], strides: vec![1] }, &[flat]),
        false => flat,
    };
    b.emit1(Reshape { shape: shape.clone() }, &[flat])
}

/// Returns the number of bits of a word: 8 times the bytes of its dtype.
fn bits(word: Dtype) -> usize {
    8 * word.bytes()
}

/// Emits, for each element of the rows, the number of bits by which it is shifted within its word.
fn shifts(b: &Builder<'_>, word: Dtype, width: usize, shape: &Shape) -> Atom {
    let places = Iota { shape: shape.clone(), axis: 1, dtype: word };
    let places = b.emit1(places, &[]);
    match width {
        1 => places,
        _ => b.emit1(Scalar::Mul, &[places, Literal::of(word, width as f64).into()]),
    }
}
