//! Intervals of integers.
//!
//! ```text
//! i in 0..=9, n = 10        lt i, 0 = false        sub i, 1 in -1..=8
//! ```
//!
//! Interval arithmetic is on unbounded integers and saturates: an end at the smallest or the greatest `i128`
//! means unbounded. A scalar code's result is a number of a dtype; if the computation may wrap, the interval is
//! the dtype's whole range ([`Interval::computed`]).

use crate::lang::literal::Literal;
use crate::lang::types::Dtype;
use crate::prim::Code;

/// A closed interval of integers that is not empty.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    /// The smallest number of the interval.
    pub least: i128,
    /// The greatest number of the interval.
    pub most: i128,
}

impl Interval {
    /// The interval of all integers.
    pub const ALL: Interval = Interval { least: i128::MIN, most: i128::MAX };

    /// Makes the interval with these ends, both included.
    pub fn new(least: impl Into<i128>, most: impl Into<i128>) -> Interval {
        Interval { least: least.into(), most: most.into() }
    }

    /// Makes the interval of one number.
    pub fn number(n: impl Into<i128>) -> Interval {
        let n = n.into();
        Interval { least: n, most: n }
    }

    /// Makes the interval of the indices along an axis of extent `extent`; for extent 0, the interval of 0 alone.
    pub fn below(extent: usize) -> Interval {
        Interval::new(0, (extent as i128 - 1).max(0))
    }

    /// Returns the interval of the values of a dtype; for floats, the interval of all integers.
    pub fn of(dtype: Dtype) -> Interval {
        match dtype {
            Dtype::Bool => Interval::new(0, 1),
            Dtype::I32 => Interval::new(i32::MIN, i32::MAX),
            Dtype::I64 => Interval::new(i64::MIN, i64::MAX),
            Dtype::U32 => Interval::new(0, u32::MAX),
            Dtype::U64 => Interval::new(0, u64::MAX),
            Dtype::F32 | Dtype::F64 => Interval::ALL,
        }
    }

    /// Returns the interval that contains only the literal's value; for a float, the interval of all integers.
    pub fn literal(x: Literal) -> Interval {
        x.to_integer().map_or(Interval::of(x.dtype), Interval::number)
    }

    /// Returns the interval's only number; `None` if the interval contains more than one number.
    pub fn only(self) -> Option<i128> {
        (self.least == self.most).then_some(self.least)
    }

    /// Returns whether this interval lies within `other`.
    pub fn within(self, other: Interval) -> bool {
        other.least <= self.least && self.most <= other.most
    }

    /// Returns the smallest interval that contains this interval and `other`.
    pub fn join(self, other: Interval) -> Interval {
        Interval { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// Returns the intersection of this interval and `other`. If the intersection is empty, the code in question never
    /// runs, and the result is `self`.
    pub fn meet(self, other: Interval) -> Interval {
        let both = Interval { least: self.least.max(other.least), most: self.most.min(other.most) };
        if both.least <= both.most { both } else { self }
    }

    /// Returns the interval of `x + y`, for x in this interval and y in `other`; saturates.
    pub fn plus(self, other: Interval) -> Interval {
        Interval {
            least: self.least.saturating_add(other.least),
            most: self.most.saturating_add(other.most),
        }
    }

    /// Returns the interval of `factor x`, for x in this interval; saturates.
    pub fn times(self, factor: impl Into<i128>) -> Interval {
        let factor = factor.into();
        let ends = [self.least, self.most].map(|x| x.saturating_mul(factor));
        Interval { least: ends[0].min(ends[1]), most: ends[0].max(ends[1]) }
    }

    /// Returns the interval of the product `x y`, for x in this interval and y in `other`; saturates.
    pub fn product(self, other: Interval) -> Interval {
        self.times(other.least).join(self.times(other.most))
    }

    /// Returns the interval of `min(x, y)`, for x in this interval and y in `other`.
    fn lesser(self, other: Interval) -> Interval {
        Interval { least: self.least.min(other.least), most: self.most.min(other.most) }
    }

    /// Returns the interval of `max(x, y)`, for x in this interval and y in `other`.
    fn greater(self, other: Interval) -> Interval {
        Interval { least: self.least.max(other.least), most: self.most.max(other.most) }
    }

    /// Returns this interval if it lies within the dtype's range, else the dtype's whole range, since the program's
    /// arithmetic may wrap.
    fn wrapped(self, dtype: Dtype) -> Interval {
        let all = Interval::of(dtype);
        if self.within(all) { self } else { all }
    }

    /// Makes the interval of a truth value: 1..=1 if `always` true, 0..=0 if `never` true, and else 0..=1.
    fn truth(always: bool, never: bool) -> Interval {
        Interval::new(always && !never, always || !never)
    }

    /// Returns an interval that contains the result of the scalar code `code`, given the intervals `x` of its
    /// operands. `dtype` is the dtype of the result.
    pub fn computed(code: Code, x: &[Interval], dtype: Dtype) -> Interval {
        let all = Interval::of(dtype);
        if dtype.is_float() {
            return all;
        }
        let found = match (code, x) {
            (Code::Add, [x, y]) if dtype != Dtype::Bool => x.plus(*y),
            (Code::Sub, [x, y]) => x.plus(y.times(-1)),
            (Code::Mul, [x, y]) if dtype != Dtype::Bool => x.product(*y),
            (Code::Neg, [x]) => x.times(-1),
            (Code::Abs, [x]) if x.least >= 0 => *x,
            (Code::Abs, [x]) => {
                let negative = x.times(-1);
                Interval::new(negative.least.max(0), x.most.max(negative.most))
            }
            (Code::Min, [x, y]) => x.lesser(*y),
            (Code::Max, [x, y]) => x.greater(*y),
            (Code::Clamp, [low, x, high]) => x.greater(*low).lesser(*high),
            // Integer division rounds towards zero, so each end of the result comes from an end of x and an end of
            // y.
            (Code::Div, [x, y]) if y.least >= 1 => {
                let least = x.least / if x.least < 0 { y.least } else { y.most };
                Interval::new(least, x.most / if x.most < 0 { y.most } else { y.least })
            }
            // The remainder has the sign of x and a smaller magnitude than y.
            (Code::Rem, [x, y]) if y.least >= 1 => {
                let most = y.most - 1;
                Interval::new(x.least.max(-most).min(0), x.most.min(most).max(0))
            }
            (Code::Select, [which, x, y]) => match which.only() {
                Some(0) => *y,
                Some(_) => *x,
                None => x.join(*y),
            },
            (Code::Lt, [x, y]) => Interval::truth(x.most < y.least, x.least >= y.most),
            (Code::Le, [x, y]) => Interval::truth(x.most <= y.least, x.least > y.most),
            (Code::Gt, [x, y]) => Interval::truth(x.least > y.most, x.most <= y.least),
            (Code::Ge, [x, y]) => Interval::truth(x.least >= y.most, x.most < y.least),
            (Code::Eq, [x, y]) => {
                let same = x.only().is_some() && x == y;
                Interval::truth(same, x.most < y.least || y.most < x.least)
            }
            (Code::Ne, [x, y]) => {
                let same = x.only().is_some() && x == y;
                Interval::truth(x.most < y.least || y.most < x.least, same)
            }
            (Code::And, [x, y]) if dtype == Dtype::Bool => x.lesser(*y),
            // The bits set in the result are a subset of the bits of each operand, so an operand that is not
            // negative bounds it.
            (Code::And, [x, y]) if x.least >= 0 || y.least >= 0 => {
                let masks = [x, y].into_iter().filter(|mask| mask.least >= 0);
                Interval::new(0, masks.map(|mask| mask.most).min().unwrap_or(all.most))
            }
            (Code::Or, [x, y]) if dtype == Dtype::Bool => x.greater(*y),
            (Code::Not, [x]) if dtype == Dtype::Bool => x.times(-1).plus(Interval::number(1)),
            (Code::Convert(Dtype::Bool), [x]) => {
                let zero = Interval::number(0);
                Interval::truth(!zero.within(*x), *x == zero)
            }
            (Code::Convert(_), [x]) => *x,
            _ => all,
        };
        found.wrapped(dtype)
    }

    /// Narrows this interval of a number x by the outcome of a comparison: `code` compares x with a number in `y`, and
    /// the result is `holds`.
    pub fn where_holds(self, code: Code, y: Interval, holds: bool) -> Interval {
        let Interval { least, most } = Interval::ALL;
        let bound = match (code, holds) {
            (Code::Lt, true) | (Code::Ge, false) => Interval::new(least, y.most.saturating_sub(1)),
            (Code::Le, true) | (Code::Gt, false) => Interval::new(least, y.most),
            (Code::Gt, true) | (Code::Le, false) => Interval::new(y.least.saturating_add(1), most),
            (Code::Ge, true) | (Code::Lt, false) => Interval::new(y.least, most),
            (Code::Eq, true) | (Code::Ne, false) => y,
            _ => return self,
        };
        self.meet(bound)
    }
}
