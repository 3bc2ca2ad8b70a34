//! Recordings: the list of a function's operations, obtained by calling it.
//!
//! A function that is called with [`Recorded`] numbers computes no values. Each distinct operation is appended once to
//! a list, the [`Recording`]. Vector code emits these operations inline, next to the operations around the call.
//! [`Recording::evaluate`] defines the meaning of a recording.
//!
//! ```
//! use tapeloom_math::{Exp, Recording};
//! let recording = Recording::of::<Exp>(false);
//! let (inside, y) = recording.evaluate(&[1.0f64.to_bits()]);
//! assert!(inside && f64::from_bits(y) == tapeloom_math::exp(1.0));
//! assert!(!recording.evaluate(&[1000.0f64.to_bits()]).0);
//! ```

use super::number::{Format, Number};
use super::vector_math::{Parted, PartedIn, PartedPair};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Not, Sub};

/// The result of a recorded operation: the index of the operation in the [`Recording`], which lists the operations of a
/// function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Noted(pub u32);

/// One operation of a [`Recording`] (the list of a function's operations); its operands are results of earlier
/// operations.
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

impl Operation {
    /// Returns the operation with each operand replaced by the result of `of`.
    #[must_use]
    fn with_operands(self, mut of: impl FnMut(Noted) -> Noted) -> Operation {
        use Operation::*;
        match self {
            Argument(_) | Constant(_) | Always(_) => self,
            Add(x, y) => Add(of(x), of(y)),
            Sub(x, y) => Sub(of(x), of(y)),
            Mul(x, y) => Mul(of(x), of(y)),
            Div(x, y) => Div(of(x), of(y)),
            Fma(x, y, z) => Fma(of(x), of(y), of(z)),
            Sqrt(x) => Sqrt(of(x)),
            Lt(x, y) => Lt(of(x), of(y)),
            Le(x, y) => Le(of(x), of(y)),
            Eq(x, y) => Eq(of(x), of(y)),
            Both(x, y) => Both(of(x), of(y)),
            Either(x, y) => Either(of(x), of(y)),
            Not(x) => Not(of(x)),
            Pick(mask, x, y) => Pick(of(mask), of(x), of(y)),
            PlusBits(x, y) => PlusBits(of(x), of(y)),
            And(x, y) => And(of(x), of(y)),
            Or(x, y) => Or(of(x), of(y)),
            Xor(x, y) => Xor(of(x), of(y)),
            ShiftLeft(x, by) => ShiftLeft(of(x), by),
            ShiftRight(x, by) => ShiftRight(of(x), by),
        }
    }
}

/// The operations of a function of one or two arguments, in the order of evaluation.
#[derive(Clone, Debug)]
pub struct Recording {
    /// Whether the function is recorded for f32; otherwise for f64.
    pub narrow: bool,
    /// The operations in evaluation order, without those that neither `inside` nor `result` needs. A [`Noted`] is an
    /// index in this list.
    pub list: Vec<Operation>,
    /// The truth value that says whether `result` is valid for the arguments.
    pub inside: Noted,
    /// The value of the function, valid if `inside` is true.
    pub result: Noted,
    /// The recording of the f64 function for all arguments, whose `inside` is always true; `None` if the function's
    /// general part branches. In f32, arguments for which `inside` is false are computed by the f64 function, and
    /// the result is rounded.
    pub whole: Option<Box<Recording>>,
}

thread_local! {
    /// The operations of the recording in progress on this thread.
    static LIST: RefCell<Vec<Operation>> = const { RefCell::new(Vec::new()) };
}

fn note(operation: Operation) -> Noted {
    LIST.with_borrow_mut(|list| {
        let operation = folded(list, operation);
        let place = list.iter().position(|o| *o == operation).unwrap_or_else(|| {
            list.push(operation);
            list.len() - 1
        });
        Noted(place as u32)
    })
}

/// Returns the operation with constants folded: a bitwise operation on two constants becomes a constant. Negation and
/// absolute value of a constant are recorded as such operations, so they are folded too.
fn folded(list: &[Operation], operation: Operation) -> Operation {
    let constant = |x: Noted| match list[x.0 as usize] {
        Operation::Constant(bits) => Some(bits),
        _ => None,
    };
    let (x, y, of): (Noted, Noted, fn(u64, u64) -> u64) = match operation {
        Operation::And(x, y) => (x, y, |x, y| x & y),
        Operation::Or(x, y) => (x, y, |x, y| x | y),
        Operation::Xor(x, y) => (x, y, |x, y| x ^ y),
        _ => return operation,
    };
    match (constant(x), constant(y)) {
        (Some(x), Some(y)) => Operation::Constant(of(x, y)),
        _ => operation,
    }
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
        let part = if narrow { record_one::<S, f32>(true) } else { record_one::<S, f64>(false) };
        let whole =
            record(false, |argument| (Recorded::<f64>::always(true), S::whole(argument(0))));
        Recording { whole: Some(Box::new(whole)), ..part }
    }

    /// Records the function `S`, whose general part may branch: in f32 if `narrow`, otherwise in f64.
    pub fn of_branching<S: PartedIn<f64> + PartedIn<f32>>(narrow: bool) -> Recording {
        if narrow { record_in::<S, f32>(true) } else { record_in::<S, f64>(false) }
    }

    /// Records the function `S` of two arguments: in f32 if `narrow`, otherwise in f64.
    pub fn of_pair<S: PartedPair>(narrow: bool) -> Recording {
        let part = if narrow { record_pair::<S, f32>(true) } else { record_pair::<S, f64>(false) };
        let whole = record(false, |argument| {
            (Recorded::<f64>::always(true), S::whole(argument(0), argument(1)))
        });
        Recording { whole: Some(Box::new(whole)), ..part }
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

/// Records the operations of `f`, which returns whether its result is valid, and the result. `f` gets a closure that
/// returns the argument of the recorded function at a given position.
fn record<F: Raw>(
    narrow: bool,
    f: impl FnOnce(&dyn Fn(u8) -> Recorded<F>) -> (RecordedMask, Recorded<F>),
) -> Recording {
    // A panic during an earlier recording may have left operations in the list: clear it.
    LIST.take();
    let (inside, result) = f(&|position| recorded(Operation::Argument(position)));
    used(narrow, &LIST.take(), inside.0, result.0)
}

/// Returns the recording without the operations that neither `inside` nor `result` needs: the function may call another
/// one and use only a part of its results.
fn used(narrow: bool, list: &[Operation], inside: Noted, result: Noted) -> Recording {
    let mut is_used = vec![false; list.len()];
    for end in [inside, result] {
        is_used[end.0 as usize] = true;
    }
    for (i, operation) in list.iter().enumerate().rev() {
        if is_used[i] {
            let _ = operation.with_operands(|x| {
                is_used[x.0 as usize] = true;
                x
            });
        }
    }
    let mut places = vec![Noted(0); list.len()];
    let mut kept = Vec::new();
    for (i, operation) in list.iter().enumerate().filter(|(i, _)| is_used[*i]) {
        places[i] = Noted(kept.len() as u32);
        kept.push(operation.with_operands(|x| places[x.0 as usize]));
    }
    let [inside, result] = [inside, result].map(|end| places[end.0 as usize]);
    Recording { narrow, list: kept, inside, result, whole: None }
}

fn record_one<S: Parted, F: Raw>(narrow: bool) -> Recording {
    record::<F>(narrow, |argument| {
        let x = argument(0);
        (S::inside(x), S::straight(x))
    })
}

fn record_in<S: PartedIn<F>, F: Raw>(narrow: bool) -> Recording {
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
