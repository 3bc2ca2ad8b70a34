//! Static fields that hold floats.
//!
//! A static field is part of the key of a compiled program, so its equality must be reflexive, and must be false if
//! the programs would differ. Equality of floats is neither (nan ≠ nan, and 0 = -0), so `#[derive(Tree)]` compares
//! fields whose type contains `f32` or `f64` by their bits.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A value that is compared by its bits: numbers, and options, vectors, arrays and tuples of numbers.
///
/// Implement it for your own struct by visiting the bits of its fields, in any fixed order:
///
/// ```
/// use tapeloom::{prelude::*, tree::Bits};
/// #[derive(Clone, Debug)]
/// struct Schedule { rate: f64, every: usize }
/// impl Bits for Schedule {
///     fn bits(&self, visit: &mut dyn FnMut(u64)) {
///         self.rate.bits(visit);
///         self.every.bits(visit);
///     }
/// }
/// #[derive(Tree, Clone)]
/// struct Model<T> {
///     w: T,
///     #[tree(static, bits)]
///     schedule: Schedule,
/// }
/// let f = jit(|m: Model<Var>| m.w * m.schedule.rate);
/// let m = Model { w: Tensor::from(2.0), schedule: Schedule { rate: 0.5, every: 10 } };
/// assert_eq!(f.call(&m)?.item::<f64>()?, 1.0);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be compared by its bits",
    note = "a static field that holds floats is a number, or an `Option`, `Vec`, array or tuple of numbers; for other types implement `tapeloom::tree::Bits`"
)]
pub trait Bits {
    /// Calls `visit` with all bits of the value. Two values count as equal if their bits are equal.
    fn bits(&self, visit: &mut dyn FnMut(u64));
}

macro_rules! bits {
    ($($t:ty, $x:ident => $bits:expr;)*) => {$(
        impl Bits for $t {
            fn bits(&self, visit: &mut dyn FnMut(u64)) {
                let $x = *self;
                visit($bits);
            }
        }
    )*};
}
bits! {
    f64, x => x.to_bits();
    f32, x => x.to_bits().into();
    bool, x => x.into();
    i32, x => x as u64;
    i64, x => x as u64;
    u32, x => x.into();
    u64, x => x;
    usize, x => x as u64;
}

impl<T: Bits> Bits for Option<T> {
    fn bits(&self, visit: &mut dyn FnMut(u64)) {
        visit(self.is_some().into());
        self.iter().for_each(|x| x.bits(visit));
    }
}

impl<T: Bits> Bits for Vec<T> {
    fn bits(&self, visit: &mut dyn FnMut(u64)) {
        visit(self.len() as u64);
        self.iter().for_each(|x| x.bits(visit));
    }
}

impl<T: Bits, const N: usize> Bits for [T; N] {
    fn bits(&self, visit: &mut dyn FnMut(u64)) {
        self.iter().for_each(|x| x.bits(visit));
    }
}

macro_rules! tuple {
    ($($T:ident $i:tt),+) => {
        impl<$($T: Bits),+> Bits for ($($T,)+) {
            fn bits(&self, visit: &mut dyn FnMut(u64)) {
                $(self.$i.bits(visit);)+
            }
        }
    };
}
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);

/// A static field in a structure, compared by its bits.
#[doc(hidden)]
#[derive(Clone)]
pub struct ByBits<T>(pub T);

impl<T: Bits> ByBits<T> {
    fn all(&self) -> Vec<u64> {
        let mut bits = Vec::new();
        self.0.bits(&mut |b| bits.push(b));
        bits
    }

    /// Returns whether this value and `x` have the same bits.
    pub fn is(&self, x: &T) -> bool {
        let mut bits = Vec::new();
        x.bits(&mut |b| bits.push(b));
        self.all() == bits
    }
}

impl<T: Bits> PartialEq for ByBits<T> {
    fn eq(&self, other: &ByBits<T>) -> bool {
        self.is(&other.0)
    }
}

impl<T: Bits> Eq for ByBits<T> {}

impl<T: Bits> Hash for ByBits<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.all().hash(state);
    }
}

impl<T: fmt::Debug> fmt::Debug for ByBits<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
