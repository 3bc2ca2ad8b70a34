//! Recordings: the list of a function's operations, obtained by calling it.
//!
//! A function that is called with [`Recorded`] numbers computes nothing: each distinct operation is appended
//! once to a list, the [`Recording`]. Vector code emits these operations inline, next to the operations around
//! the call. [`Recording::evaluate`] defines the meaning of a recording.
//!
//! ```
//! use tapeloom_math::{Exp, Recording};
//! let recording = Recording::of::<Exp>(false);
//! let (inside, y) = recording.evaluate(&[1.0f64.to_bits()]);
//! assert!(inside && f64::from_bits(y) == tapeloom_math::exp(1.0));
//! assert!(!recording.evaluate(&[1000.0f64.to_bits()]).0);
//! ```

use super::number::{Format, Number};
use super::vector_math::{Parted, PartedPair};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// The result of a recorded operation: the operation's index in the recording.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Noted(pub u32);

/// One operation of a recording; its operands are results of earlier operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// An argument of the recorded function, by its position.
    Argument(u8),
    /// A constant: the number with this bit pattern.
    Constant(u64),
    /// The sum `x + y`.
    Add(Noted, Noted),
    /// The difference `x - y`.
    Sub(Noted, Noted),
    /// The product `x * y`.
    Mul(Noted, Noted),
    /// The quotient `x / y`.
    Div(Noted, Noted),
    /// The fused multiply-add `x * y + z`, rounded once.
    Fma(Noted, Noted, Noted),
    /// The square root of a number.
    Sqrt(Noted),
    /// The comparison `x < y`; a truth value, as are the results of the following operations up to `Not`.
    Lt(Noted, Noted),
    /// The comparison `x <= y`.
    Le(Noted, Noted),
    /// The comparison `x == y`.
    Eq(Noted, Noted),
    /// A constant truth value.
    Always(bool),
    /// The logical and of two truth values.
    Both(Noted, Noted),
    /// The logical or of two truth values.
    Either(Noted, Noted),
    /// The logical not of a truth value.
    Not(Noted),
    /// The number `truth ? x : y`.
    Pick(Noted, Noted, Noted),
    /// The sum of two bit patterns as integers, wrapping.
    PlusBits(Noted, Noted),
    /// The bitwise and of two bit patterns.
    And(Noted, Noted),
    /// The bitwise or of two bit patterns.
    Or(Noted, Noted),
    /// The bitwise exclusive or of two bit patterns.
    Xor(Noted, Noted),
    /// A bit pattern shifted by a number of bits towards the most significant bit.
    ShiftLeft(Noted, u32),
    /// A bit pattern shifted by a number of bits towards the least significant bit, filled with zeros.
    ShiftRight(Noted, u32),
}

/// The operations of a function of one or two arguments, in the order of evaluation.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Whether the function is recorded for f32; otherwise for f64.
    pub narrow: bool,
    /// The operations in evaluation order; a [`Noted`] is an index in this list.
    pub list: Vec<Operation>,
    /// The truth value that says whether `result` is valid for the arguments.
    pub inside: Noted,
    /// The value of the function, valid if `inside` is true.
    pub result: Noted,
}

thread_local! {
    /// The operations of the recording in progress on this thread.
    static LIST: RefCell<Vec<Operation>> = const { RefCell::new(Vec::new()) };
}

fn note(operation: Operation) -> Noted {
    LIST.with_borrow_mut(|list| {
        let place = list.iter().position(|o| *o == operation).unwrap_or_else(|| {
            list.push(operation);
            list.len() - 1
        });
        Noted(place as u32)
    })
}

/// A number while a function is recorded: the result of an operation, for the float type `F`.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<F>(Noted, PhantomData<F>);

/// A truth value while a function is recorded: the result of an operation.
#[derive(Clone, Copy, Debug)]
pub struct RecordedMask(Noted);

fn recorded<F>(operation: Operation) -> Recorded<F> {
    Recorded(note(operation), PhantomData)
}

impl BitAnd for RecordedMask {
    type Output = RecordedMask;
    fn bitand(self, other: RecordedMask) -> RecordedMask {
        RecordedMask(note(Operation::Both(self.0, other.0)))
    }
}

impl BitOr for RecordedMask {
    type Output = RecordedMask;
    fn bitor(self, other: RecordedMask) -> RecordedMask {
        RecordedMask(note(Operation::Either(self.0, other.0)))
    }
}

impl Not for RecordedMask {
    type Output = RecordedMask;
    fn not(self) -> RecordedMask {
        RecordedMask(note(Operation::Not(self.0)))
    }
}

macro_rules! arithmetic {
    ($($of:ident $method:ident),*) => {$(
        impl<F> $of for Recorded<F> {
            type Output = Recorded<F>;
            fn $method(self, y: Recorded<F>) -> Recorded<F> {
                recorded(Operation::$of(self.0, y.0))
            }
        }
    )*};
}

arithmetic!(Add add, Sub sub, Mul mul, Div div);

impl<F: Raw> Neg for Recorded<F> {
    type Output = Recorded<F>;
    fn neg(self) -> Recorded<F> {
        let sign = recorded::<F>(Operation::Constant(F::SIGN));
        recorded(Operation::Xor(self.0, sign.0))
    }
}

/// A float type with access to its bit pattern.
pub trait Raw: Format {
    /// The bit pattern with only the sign bit set.
    const SIGN: u64;
    /// Returns the bit pattern of the float, as the lowest bits of a u64.
    fn raw(self) -> u64;
}

impl Raw for f64 {
    const SIGN: u64 = 1 << 63;
    fn raw(self) -> u64 {
        self.to_bits()
    }
}

impl Raw for f32 {
    const SIGN: u64 = 1 << 31;
    fn raw(self) -> u64 {
        self.to_bits().into()
    }
}

impl<F: Raw> Number for Recorded<F> {
    type Float = F;
    type Mask = RecordedMask;

    fn of(x: F) -> Self {
        recorded(Operation::Constant(x.raw()))
    }
    fn of_bits(bits: u64) -> Self {
        Self::of(F::of_bits(bits))
    }
    fn fma(self, y: Self, z: Self) -> Self {
        recorded(Operation::Fma(self.0, y.0, z.0))
    }
    fn sqrt(self) -> Self {
        recorded(Operation::Sqrt(self.0))
    }
    fn abs(self) -> Self {
        self.and_bits(Self::of_bits(F::SIGN - 1))
    }
    fn copysign(self, sign: Self) -> Self {
        self.abs().or_bits(sign.and_bits(Self::of_bits(F::SIGN)))
    }
    fn lt(self, y: Self) -> RecordedMask {
        RecordedMask(note(Operation::Lt(self.0, y.0)))
    }
    fn le(self, y: Self) -> RecordedMask {
        RecordedMask(note(Operation::Le(self.0, y.0)))
    }
    fn same(self, y: Self) -> RecordedMask {
        RecordedMask(note(Operation::Eq(self.0, y.0)))
    }
    fn always(holds: bool) -> RecordedMask {
        RecordedMask(note(Operation::Always(holds)))
    }
    fn pick(mask: RecordedMask, x: Self, y: Self) -> Self {
        recorded(Operation::Pick(mask.0, x.0, y.0))
    }
    fn plus_bits(self, y: Self) -> Self {
        recorded(Operation::PlusBits(self.0, y.0))
    }
    fn and_bits(self, y: Self) -> Self {
        recorded(Operation::And(self.0, y.0))
    }
    fn or_bits(self, y: Self) -> Self {
        recorded(Operation::Or(self.0, y.0))
    }
    fn xor_bits(self, y: Self) -> Self {
        recorded(Operation::Xor(self.0, y.0))
    }
    fn shift_left(self, by: u32) -> Self {
        recorded(Operation::ShiftLeft(self.0, by))
    }
    fn shift_right(self, by: u32) -> Self {
        recorded(Operation::ShiftRight(self.0, by))
    }
}

impl Recording {
    /// Records the function `S`: in f32 if `narrow`, otherwise in f64.
    pub fn of<S: Parted>(narrow: bool) -> Recording {
        if narrow { record_one::<S, f32>(true) } else { record_one::<S, f64>(false) }
    }

    /// Records the function `S` of two arguments: in f32 if `narrow`, otherwise in f64.
    pub fn of_pair<S: PartedPair>(narrow: bool) -> Recording {
        if narrow { record_pair::<S, f32>(true) } else { record_pair::<S, f64>(false) }
    }

    /// Evaluates the recording at its arguments: returns whether the result is valid, and the result. Arguments and
    /// result are bit patterns of the float type.
    ///
    /// # Panics
    ///
    /// If there are fewer arguments than the function has.
    pub fn evaluate(&self, arguments: &[u64]) -> (bool, u64) {
        if self.narrow { self.run::<f32>(arguments) } else { self.run::<f64>(arguments) }
    }

    fn run<F: Raw>(&self, arguments: &[u64]) -> (bool, u64) {
        let mut values: Vec<F> = Vec::new();
        let truth = |values: &[F], x: Noted| values[x.0 as usize].raw() != 0;
        for operation in &self.list {
            let at = |x: Noted| values[x.0 as usize];
            let holds = |holds: bool| if holds { F::ONE } else { F::ZERO };
            let value = match *operation {
                Operation::Argument(i) => F::of_bits(arguments[usize::from(i)]),
                Operation::Constant(bits) => F::of_bits(bits),
                Operation::Add(x, y) => at(x) + at(y),
                Operation::Sub(x, y) => at(x) - at(y),
                Operation::Mul(x, y) => at(x) * at(y),
                Operation::Div(x, y) => at(x) / at(y),
                Operation::Fma(x, y, z) => at(x).fma(at(y), at(z)),
                Operation::Sqrt(x) => at(x).sqrt(),
                Operation::Lt(x, y) => holds(at(x).lt(at(y))),
                Operation::Le(x, y) => holds(at(x).le(at(y))),
                Operation::Eq(x, y) => holds(at(x).same(at(y))),
                Operation::Always(always) => holds(always),
                Operation::Both(x, y) => holds(truth(&values, x) & truth(&values, y)),
                Operation::Either(x, y) => holds(truth(&values, x) | truth(&values, y)),
                Operation::Not(x) => holds(!truth(&values, x)),
                Operation::Pick(mask, x, y) => F::pick(truth(&values, mask), at(x), at(y)),
                Operation::PlusBits(x, y) => at(x).plus_bits(at(y)),
                Operation::And(x, y) => at(x).and_bits(at(y)),
                Operation::Or(x, y) => at(x).or_bits(at(y)),
                Operation::Xor(x, y) => at(x).xor_bits(at(y)),
                Operation::ShiftLeft(x, by) => at(x).shift_left(by),
                Operation::ShiftRight(x, by) => at(x).shift_right(by),
            };
            values.push(value);
        }
        (truth(&values, self.inside), values[self.result.0 as usize].raw())
    }
}

/// Records the operations of `f`, which returns whether its result is valid, and the result. Its argument returns the
/// argument of the recorded function at a position.
fn record<F: Raw>(
    narrow: bool,
    f: impl FnOnce(&dyn Fn(u8) -> Recorded<F>) -> (RecordedMask, Recorded<F>),
) -> Recording {
    // A panic during an earlier recording may have left operations in the list: clear it.
    LIST.take();
    let (inside, result) = f(&|position| recorded(Operation::Argument(position)));
    Recording { narrow, list: LIST.take(), inside: inside.0, result: result.0 }
}

fn record_one<S: Parted, F: Raw>(narrow: bool) -> Recording {
    record::<F>(narrow, |argument| {
        let x = argument(0);
        (S::inside(x), S::straight(x))
    })
}

fn record_pair<S: PartedPair, F: Raw>(narrow: bool) -> Recording {
    record::<F>(narrow, |argument| {
        let (x, y) = (argument(0), argument(1));
        (S::inside(x, y), S::straight(x, y))
    })
}
