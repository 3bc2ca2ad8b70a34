//! [`Pack`]: a vector register with one number for each of several batch members, one member per lane.
//!
//! Every operation is elementwise and rounds each lane separately, so the value in a lane depends neither on
//! the other lanes nor on their number. Nothing is contracted: `a * b + c` rounds twice, on every machine.

use std::ops::{Add, BitAnd, BitOr, Div, Mul, Neg, Sub};

use bytemuck::Pod;
use pulp::Simd;

use crate::real::Real;

/// The vector instructions for one element type: the register type, and its number of lanes.
pub(crate) trait Lanes: Copy {
    /// The element type of the lanes: `f32` or `f64`.
    type Number: Real;
    /// The type of a vector register, which holds the numbers of all lanes.
    type Vector: Pod;
    /// The type of a comparison's result: a truth value for each lane.
    type Truth: Copy;
    /// The number of lanes of a register.
    const COUNT: usize = size_of::<Self::Vector>() / size_of::<Self::Number>();

    fn splat(self, x: Self::Number) -> Self::Vector;
    fn add(self, x: Self::Vector, y: Self::Vector) -> Self::Vector;
    fn sub(self, x: Self::Vector, y: Self::Vector) -> Self::Vector;
    fn mul(self, x: Self::Vector, y: Self::Vector) -> Self::Vector;
    fn div(self, x: Self::Vector, y: Self::Vector) -> Self::Vector;
    fn neg(self, x: Self::Vector) -> Self::Vector;
    fn abs(self, x: Self::Vector) -> Self::Vector;
    fn sqrt(self, x: Self::Vector) -> Self::Vector;
    fn less(self, x: Self::Vector, y: Self::Vector) -> Self::Truth;
    fn and(self, x: Self::Truth, y: Self::Truth) -> Self::Truth;
    fn or(self, x: Self::Truth, y: Self::Truth) -> Self::Truth;
    fn any(self, x: Self::Truth) -> bool;
    fn select(self, which: Self::Truth, x: Self::Vector, y: Self::Vector) -> Self::Vector;
}

/// The vector instructions of an instruction set `S` for the element type `T`.
#[derive(Clone, Copy)]
pub(crate) struct LanesOf<S, T> {
    simd: S,
    number: std::marker::PhantomData<T>,
}

impl<S, T> LanesOf<S, T> {
    #[inline(always)]
    pub(crate) fn new(simd: S) -> Self {
        LanesOf { simd, number: std::marker::PhantomData }
    }
}

/// An element type, `f32` or `f64`, with vector instructions in every instruction set.
pub(crate) trait Packed: Sized {
    /// The vector instructions of the instruction set `S` for this type.
    type Lanes<S: Simd>: Lanes<Number = Self>;
    /// Returns the vector instructions of an instruction set for this type.
    fn lanes<S: Simd>(simd: S) -> Self::Lanes<S>;
}

macro_rules! packed {
    ($number:ty, $vector:ident, $truth:ident, $splat:ident, $add:ident, $sub:ident, $mul:ident, $div:ident, $neg:ident,
     $abs:ident, $sqrt:ident, $less:ident, $and:ident, $or:ident, $first:ident, $select:ident) => {
        impl Packed for $number {
            type Lanes<S: Simd> = LanesOf<S, $number>;
            #[inline(always)]
            fn lanes<S: Simd>(simd: S) -> LanesOf<S, $number> {
                LanesOf::new(simd)
            }
        }

        #[rustfmt::skip]
        impl<S: Simd> Lanes for LanesOf<S, $number> {
            type Number = $number;
            type Vector = S::$vector;
            type Truth = S::$truth;
            #[inline(always)]
            fn splat(self, x: $number) -> S::$vector { self.simd.$splat(x) }
            #[inline(always)]
            fn add(self, x: S::$vector, y: S::$vector) -> S::$vector { self.simd.$add(x, y) }
            #[inline(always)]
            fn sub(self, x: S::$vector, y: S::$vector) -> S::$vector { self.simd.$sub(x, y) }
            #[inline(always)]
            fn mul(self, x: S::$vector, y: S::$vector) -> S::$vector { self.simd.$mul(x, y) }
            #[inline(always)]
            fn div(self, x: S::$vector, y: S::$vector) -> S::$vector { self.simd.$div(x, y) }
            #[inline(always)]
            fn neg(self, x: S::$vector) -> S::$vector { self.simd.$neg(x) }
            #[inline(always)]
            fn abs(self, x: S::$vector) -> S::$vector { self.simd.$abs(x) }
            #[inline(always)]
            fn sqrt(self, x: S::$vector) -> S::$vector { self.simd.$sqrt(x) }
            #[inline(always)]
            fn less(self, x: S::$vector, y: S::$vector) -> S::$truth { self.simd.$less(x, y) }
            #[inline(always)]
            fn and(self, x: S::$truth, y: S::$truth) -> S::$truth { self.simd.$and(x, y) }
            #[inline(always)]
            fn or(self, x: S::$truth, y: S::$truth) -> S::$truth { self.simd.$or(x, y) }
            #[inline(always)]
            fn any(self, x: S::$truth) -> bool { self.simd.$first(x) < Self::COUNT }
            #[inline(always)]
            fn select(self, which: S::$truth, x: S::$vector, y: S::$vector) -> S::$vector {
                self.simd.$select(which, x, y)
            }
        }
    };
}

packed!(
    f32,
    f32s,
    m32s,
    splat_f32s,
    add_f32s,
    sub_f32s,
    mul_f32s,
    div_f32s,
    neg_f32s,
    abs_f32s,
    sqrt_f32s,
    less_than_f32s,
    and_m32s,
    or_m32s,
    first_true_m32s,
    select_f32s
);
packed!(
    f64,
    f64s,
    m64s,
    splat_f64s,
    add_f64s,
    sub_f64s,
    mul_f64s,
    div_f64s,
    neg_f64s,
    abs_f64s,
    sqrt_f64s,
    less_than_f64s,
    and_m64s,
    or_m64s,
    first_true_m64s,
    select_f64s
);

/// A vector register: one number per lane.
#[derive(Clone, Copy)]
pub(crate) struct Pack<L: Lanes> {
    pub(crate) lanes: L,
    pub(crate) numbers: L::Vector,
}

/// A truth value for each lane, as a comparison of packs returns it.
#[derive(Clone, Copy)]
pub(crate) struct Truth<L: Lanes> {
    pub(crate) lanes: L,
    values: L::Truth,
}

impl<L: Lanes> Pack<L> {
    /// Returns a pack with the number `x` in every lane.
    #[inline(always)]
    pub(crate) fn of(lanes: L, x: L::Number) -> Self {
        Pack { lanes, numbers: lanes.splat(x) }
    }

    /// Returns the absolute value in every lane.
    #[inline(always)]
    pub(crate) fn abs(self) -> Self {
        Pack { numbers: self.lanes.abs(self.numbers), ..self }
    }

    /// Returns the square root in every lane.
    #[inline(always)]
    pub(crate) fn root(self) -> Self {
        Pack { numbers: self.lanes.sqrt(self.numbers), ..self }
    }

    /// Returns, per lane, whether the number is less than `other`; false for NaN.
    #[inline(always)]
    pub(crate) fn less(self, other: Self) -> Truth<L> {
        Truth { lanes: self.lanes, values: self.lanes.less(self.numbers, other.numbers) }
    }

    /// Returns, per lane, whether the number is greater than `other`; false for NaN.
    #[inline(always)]
    pub(crate) fn greater(self, other: Self) -> Truth<L> {
        other.less(self)
    }

    /// Returns the numbers with the sign changed in the lanes where `which` is true.
    #[inline(always)]
    pub(crate) fn negated_where(self, which: Truth<L>) -> Self {
        which.select(-self, self)
    }
}

impl<L: Lanes> Truth<L> {
    /// Returns, per lane, the number of `x` if `self` is true in the lane, and otherwise the number of `y`.
    #[inline(always)]
    pub(crate) fn select(self, x: Pack<L>, y: Pack<L>) -> Pack<L> {
        let numbers = self.lanes.select(self.values, x.numbers, y.numbers);
        Pack { lanes: self.lanes, numbers }
    }

    /// Returns whether the truth value of at least one lane is true.
    #[inline(always)]
    pub(crate) fn any(self) -> bool {
        self.lanes.any(self.values)
    }
}

impl<L: Lanes> BitAnd for Truth<L> {
    type Output = Self;
    #[inline(always)]
    fn bitand(self, other: Self) -> Self {
        Truth { values: self.lanes.and(self.values, other.values), ..self }
    }
}

impl<L: Lanes> BitOr for Truth<L> {
    type Output = Self;
    #[inline(always)]
    fn bitor(self, other: Self) -> Self {
        Truth { values: self.lanes.or(self.values, other.values), ..self }
    }
}

impl<L: Lanes> Neg for Pack<L> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Pack { numbers: self.lanes.neg(self.numbers), ..self }
    }
}

macro_rules! operator {
    ($($operator:ident $name:ident;)*) => {$(
        impl<L: Lanes> $operator for Pack<L> {
            type Output = Self;
            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Pack { numbers: self.lanes.$name(self.numbers, other.numbers), ..self }
            }
        }
    )*};
}

operator! {
    Add add;
    Sub sub;
    Mul mul;
    Div div;
}
