//! Intervals: what an integer can be.
//!
//! ```text
//! i in 0..=9, n = 10        lt i, 0 = false        sub i, 1 in -1..=8
//! ```
//!
//! Interval arithmetic on integers without a limit, which saturates: an end at the least or the greatest `i128`
//! is no end. What a scalar code gives is a number of a dtype; where that may wrap, it can be anything that the
//! dtype has ([`Interval::computed`]).

use crate::lang::literal::Literal;
use crate::lang::types::Dtype;
use crate::prim::Code;

/// From the least to the greatest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Interval {
    /// The least number.
    pub least: i128,
    /// The greatest number.
    pub most: i128,
}

impl Interval {
    /// All integers.
    pub const ALL: Interval = Interval { least: i128::MIN, most: i128::MAX };

    /// Both ends belong to it.
    pub fn new(least: impl Into<i128>, most: impl Into<i128>) -> Interval {
        Interval { least: least.into(), most: most.into() }
    }

    /// One number.
    pub fn number(n: impl Into<i128>) -> Interval {
        let n = n.into();
        Interval { least: n, most: n }
    }

    /// Positions along an axis of `extent` places; 0 where there is none.
    pub fn below(extent: usize) -> Interval {
        Interval::new(0, (extent as i128 - 1).max(0))
    }

    /// What a dtype has; of floats nothing is known.
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

    /// The number that a literal is; of floats nothing is known.
    pub fn literal(x: Literal) -> Interval {
        x.to_integer().map_or(Interval::of(x.dtype), Interval::number)
    }

    /// The one number that it can be.
    pub fn only(self) -> Option<i128> {
        (self.least == self.most).then_some(self.least)
    }

    /// Whether all of it is in the other.
    pub fn within(self, other: Interval) -> bool {
        other.least <= self.least && self.most <= other.most
    }

    /// The least interval that holds both.
    pub fn join(self, other: Interval) -> Interval {
        Interval { least: self.least.min(other.least), most: self.most.max(other.most) }
    }

    /// What is in both, or the first where nothing is: then what is asked about does not happen.
    pub fn meet(self, other: Interval) -> Interval {
        let both = Interval { least: self.least.max(other.least), most: self.most.min(other.most) };
        if both.least <= both.most { both } else { self }
    }

    /// Sums of a number of each.
    pub fn plus(self, other: Interval) -> Interval {
        Interval {
            least: self.least.saturating_add(other.least),
            most: self.most.saturating_add(other.most),
        }
    }

    /// Multiples of its numbers.
    pub fn times(self, factor: impl Into<i128>) -> Interval {
        let factor = factor.into();
        let ends = [self.least, self.most].map(|x| x.saturating_mul(factor));
        Interval { least: ends[0].min(ends[1]), most: ends[0].max(ends[1]) }
    }

    /// Products of a number of each.
    pub fn product(self, other: Interval) -> Interval {
        self.times(other.least).join(self.times(other.most))
    }

    /// The lesser of a number of each.
    fn lesser(self, other: Interval) -> Interval {
        Interval { least: self.least.min(other.least), most: self.most.min(other.most) }
    }

    /// The greater of a number of each.
    fn greater(self, other: Interval) -> Interval {
        Interval { least: self.least.max(other.least), most: self.most.max(other.most) }
    }

    /// The same as numbers of a dtype: what goes beyond it wraps, and can be anything.
    fn wrapped(self, dtype: Dtype) -> Interval {
        let all = Interval::of(dtype);
        if self.within(all) { self } else { all }
    }

    /// A truth value that certainly holds, certainly does not, or neither.
    fn truth(always: bool, never: bool) -> Interval {
        Interval::new(always && !never, always || !never)
    }

    /// What an integer or truth value of a dtype is that a code computes of others.
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
            // Towards zero, as machines do.
            (Code::Div, [x, y]) if y.least >= 1 => {
                let least = x.least / if x.least < 0 { y.least } else { y.most };
                Interval::new(least, x.most / if x.most < 0 { y.most } else { y.least })
            }
            // With the sign of x.
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
            // Bits of a mask that is not negative.
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

    /// What a number of this can be where a comparison of it with one of `y` comes out like that.
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

#[cfg(test)]
mod tests {
    use super::Interval;
    use crate::{Code, Dtype, Literal};

    /// Whatever numbers the operands are, what the code gives is in the interval.
    #[test]
    fn what_is_computed_is_in_the_interval() {
        let ends = [-9, -4, -1, 0, 1, 3, 7].map(i128::from);
        let intervals = |least: i128| {
            let pairs = ends.into_iter().flat_map(move |a| ends.map(|b| (a, b)));
            let pairs = pairs.filter(move |(a, b)| least <= *a && a <= b);
            pairs.map(|(a, b)| Interval::new(a, b))
        };
        let numbers = |r: Interval| r.least..=r.most;
        let literal = |dtype: Dtype, x: i128| Literal::exact_integer(dtype, x).unwrap();
        let has = |r: Interval, x: Literal, what: Code| {
            assert!(Interval::literal(x).within(r), "{what:?}: {x:?} is not in {r:?}");
        };
        let both = [
            Code::Add,
            Code::Sub,
            Code::Mul,
            Code::Min,
            Code::Max,
            Code::Div,
            Code::Rem,
            Code::And,
            Code::Or,
        ];
        let truths = [Code::Lt, Code::Le, Code::Gt, Code::Ge, Code::Eq, Code::Ne];
        for (dtype, least) in [(Dtype::I64, -9), (Dtype::I32, -9), (Dtype::U32, 0)] {
            let pairs = intervals(least).flat_map(|r| intervals(least).map(move |s| (r, s)));
            for (r, s) in pairs {
                for (x, y) in numbers(r).flat_map(|x| numbers(s).map(move |y| (x, y))) {
                    let given = [literal(dtype, x), literal(dtype, y)];
                    for code in both {
                        has(Interval::computed(code, &[r, s], dtype), code.eval(&given), code);
                    }
                    for code in truths {
                        let found = code.eval(&given);
                        has(Interval::computed(code, &[r, s], Dtype::Bool), found, code);
                        let holds = !found.is_zero();
                        has(r.where_holds(code, s, holds), given[0], code);
                    }
                }
            }
            for (r, x) in intervals(least).flat_map(|r| numbers(r).map(move |x| (r, x))) {
                let to = [Dtype::I32, Dtype::U64, Dtype::Bool].map(Code::Convert);
                for code in [Code::Neg, Code::Abs].into_iter().chain(to) {
                    let to = if let Code::Convert(to) = code { to } else { dtype };
                    let given = [literal(dtype, x)];
                    has(Interval::computed(code, &[r], to), code.eval(&given), code);
                }
                for (low, high) in ends.into_iter().flat_map(|a| ends.map(|b| (a, b))) {
                    if low < least || high < least {
                        continue;
                    }
                    let three = [low, x, high].map(|x| literal(dtype, x));
                    let known = [Interval::number(low), r, Interval::number(high)];
                    let found = Interval::computed(Code::Clamp, &known, dtype);
                    has(found, Code::Clamp.eval(&three), Code::Clamp);
                }
            }
        }
        // Truth values.
        let bools = [(0, 0), (0, 1), (1, 1)].map(|(a, b)| Interval::new(a, b));
        for (r, s) in bools.into_iter().flat_map(|r| bools.map(|s| (r, s))) {
            for (x, y) in numbers(r).flat_map(|x| numbers(s).map(move |y| (x, y))) {
                let given = [x, y].map(|x| Literal::bool(x != 0));
                for code in [Code::And, Code::Or, Code::Add, Code::Mul, Code::Min, Code::Max] {
                    has(Interval::computed(code, &[r, s], Dtype::Bool), code.eval(&given), code);
                }
                let not = Interval::computed(Code::Not, &[r], Dtype::Bool);
                has(not, Code::Not.eval(&given[..1]), Code::Not);
            }
        }
    }

    #[test]
    fn what_wraps_can_be_anything() {
        let most = Interval::new(0, i32::MAX);
        let one = Interval::number(1);
        let sum = |dtype| Interval::computed(Code::Add, &[most, one], dtype);
        assert_eq!(sum(Dtype::I32), Interval::of(Dtype::I32));
        assert_eq!(sum(Dtype::I64), most.plus(one));
        let least = [Interval::of(Dtype::I64)];
        let abs = Interval::computed(Code::Abs, &least, Dtype::I64);
        assert_eq!(abs, Interval::of(Dtype::I64), "the least integer has no negative");
    }

    /// An end that is none stays none.
    #[test]
    fn what_has_no_end_gets_none() {
        let all = Interval::ALL;
        assert_eq!(all.times(-1).plus(all).times(3).join(Interval::number(7)), all);
        assert_eq!(all.product(all), all);
        assert_eq!(Interval::of(Dtype::F64), all);
        for code in [Code::Add, Code::Sub, Code::Mul, Code::Neg, Code::Abs, Code::Div, Code::Rem] {
            for dtype in [Dtype::I32, Dtype::U64] {
                let found = Interval::computed(code, &[all, all], dtype);
                assert_eq!(found, Interval::of(dtype), "{code:?}");
            }
        }
    }
}
