//! Ranges: what an integer can be.
//!
//! ```text
//! i in 0..=9, n = 10        lt i, 0 = false        sub i, 1 in -1..=8
//! ```
//!
//! Interval arithmetic on the values of scalar codes. What may wrap can be anything that its dtype has.

use tapeloom_ir::{Code, Dtype, Literal};

/// From the least to the greatest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Range {
    pub(crate) least: i128,
    pub(crate) most: i128,
}

impl Range {
    pub(super) fn new(least: i128, most: i128) -> Range {
        Range { least, most }
    }

    /// What a dtype has; of floats nothing is known.
    pub(super) fn of(dtype: Dtype) -> Range {
        match dtype {
            Dtype::Bool => Range::new(0, 1),
            Dtype::I32 => Range::new(i32::MIN.into(), i32::MAX.into()),
            Dtype::U32 => Range::new(0, u32::MAX.into()),
            Dtype::U64 => Range::new(0, u64::MAX.into()),
            Dtype::I64 | Dtype::F32 | Dtype::F64 => Range::new(i64::MIN.into(), i64::MAX.into()),
        }
    }

    pub(super) fn literal(x: Literal) -> Range {
        match x.to_integer() {
            Some(x) => Range::new(x, x),
            None => Range::of(x.dtype),
        }
    }

    /// The one number that it can be.
    pub(super) fn only(self) -> Option<i128> {
        (self.least == self.most).then_some(self.least)
    }

    pub(super) fn within(self, other: Range) -> bool {
        other.least <= self.least && self.most <= other.most
    }

    /// What is in one of the two.
    pub(super) fn or(self, other: Range) -> Range {
        Range::new(self.least.min(other.least), self.most.max(other.most))
    }

    /// What is in both, or the first where nothing is: then what is asked about does not happen.
    pub(super) fn and(self, other: Range) -> Range {
        let both = Range::new(self.least.max(other.least), self.most.min(other.most));
        if both.least <= both.most { both } else { self }
    }

    pub(super) fn plus(self, other: Range) -> Range {
        Range::new(self.least.saturating_add(other.least), self.most.saturating_add(other.most))
    }

    pub(super) fn times(self, factor: i128) -> Range {
        let ends = [self.least, self.most].map(|x| x.saturating_mul(factor));
        Range::new(ends[0].min(ends[1]), ends[0].max(ends[1]))
    }

    fn product(self, other: Range) -> Range {
        self.times(other.least).or(self.times(other.most))
    }

    /// The same as numbers of a dtype: what goes beyond it wraps, and can be anything.
    fn wrapped(self, dtype: Dtype) -> Range {
        let all = Range::of(dtype);
        if self.within(all) { self } else { all }
    }

    fn truth(always: bool, never: bool) -> Range {
        match (always, never) {
            (true, _) => Range::new(1, 1),
            (_, true) => Range::new(0, 0),
            (false, false) => Range::new(0, 1),
        }
    }

    /// What an integer or truth value of a dtype is that a code computes of others.
    pub(super) fn computed(code: Code, x: &[Range], dtype: Dtype) -> Range {
        let all = Range::of(dtype);
        let found = match (code, x) {
            (Code::Add, [x, y]) if dtype != Dtype::Bool => x.plus(*y),
            (Code::Sub, [x, y]) => x.plus(y.times(-1)),
            (Code::Mul, [x, y]) if dtype != Dtype::Bool => x.product(*y),
            (Code::Neg, [x]) => x.times(-1),
            (Code::Abs, [x]) if x.least >= 0 => *x,
            (Code::Abs, [x]) => Range::new(0, x.most.max(-x.least)),
            (Code::Min, [x, y]) => Range::new(x.least.min(y.least), x.most.min(y.most)),
            (Code::Max, [x, y]) => Range::new(x.least.max(y.least), x.most.max(y.most)),
            (Code::Clamp, [low, x, high]) => {
                let x = Range::new(x.least.max(low.least), x.most.max(low.most));
                Range::new(x.least.min(high.least), x.most.min(high.most))
            }
            (Code::Div, [x, y]) if x.least >= 0 && y.least >= 1 => {
                Range::new(x.least / y.most, x.most / y.least)
            }
            // With the sign of x.
            (Code::Rem, [x, y]) if y.least >= 1 => {
                let most = y.most - 1;
                Range::new(x.least.max(-most).min(0), x.most.min(most).max(0))
            }
            (Code::Select, [which, x, y]) => match which.only() {
                Some(0) => *y,
                Some(_) => *x,
                None => x.or(*y),
            },
            (Code::Lt, [x, y]) => Range::truth(x.most < y.least, x.least >= y.most),
            (Code::Le, [x, y]) => Range::truth(x.most <= y.least, x.least > y.most),
            (Code::Gt, [x, y]) => Range::truth(x.least > y.most, x.most <= y.least),
            (Code::Ge, [x, y]) => Range::truth(x.least >= y.most, x.most < y.least),
            (Code::Eq, [x, y]) => {
                let same = x.only().is_some() && x == y;
                Range::truth(same, x.most < y.least || y.most < x.least)
            }
            (Code::Ne, [x, y]) => {
                let same = x.only().is_some() && x == y;
                Range::truth(x.most < y.least || y.most < x.least, same)
            }
            (Code::And, [x, y]) if dtype == Dtype::Bool => {
                Range::new(x.least.min(y.least), x.most.min(y.most))
            }
            (Code::Or, [x, y]) if dtype == Dtype::Bool => {
                Range::new(x.least.max(y.least), x.most.max(y.most))
            }
            (Code::Not, [x]) if dtype == Dtype::Bool => Range::new(1 - x.most, 1 - x.least),
            (Code::Convert(Dtype::Bool), _) => all,
            (Code::Convert(_), [x]) => *x,
            _ => all,
        };
        found.wrapped(dtype)
    }

    /// What `x` can be where a comparison of it with `y` comes out like that.
    pub(super) fn where_holds(self, code: Code, y: Range, holds: bool) -> Range {
        let (least, most) = (i128::MIN, i128::MAX);
        let bound = match (code, holds) {
            (Code::Lt, true) | (Code::Ge, false) => Range::new(least, y.most.saturating_sub(1)),
            (Code::Le, true) | (Code::Gt, false) => Range::new(least, y.most),
            (Code::Gt, true) | (Code::Le, false) => Range::new(y.least.saturating_add(1), most),
            (Code::Ge, true) | (Code::Lt, false) => Range::new(y.least, most),
            (Code::Eq, true) | (Code::Ne, false) => y,
            _ => return self,
        };
        self.and(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::Range;
    use tapeloom_ir::{Code, Dtype, Literal};

    /// Whatever numbers the operands are, what the code gives is in the range.
    #[test]
    fn what_is_computed_is_in_the_range() {
        let ends = [-9, -4, -1, 0, 1, 3, 7].map(i128::from);
        let ranges = || {
            let pairs = ends.into_iter().flat_map(|a| ends.map(|b| (a, b)));
            pairs.filter(|(a, b)| a <= b).map(|(a, b)| Range::new(a, b))
        };
        let numbers = |r: Range| r.least..=r.most;
        let literal = |dtype: Dtype, x: i128| Literal::exact_integer(dtype, x).unwrap();
        let has = |r: Range, x: Literal, what: &str| {
            let x = x.to_integer().unwrap();
            assert!(Range::new(x, x).within(r), "{what}: {x} is not in {r:?}");
        };
        let dtype = Dtype::I64;
        let both = [Code::Add, Code::Sub, Code::Mul, Code::Min, Code::Max, Code::Div, Code::Rem];
        let truths = [Code::Lt, Code::Le, Code::Gt, Code::Ge, Code::Eq, Code::Ne];
        for (r, s) in ranges().flat_map(|r| ranges().map(move |s| (r, s))) {
            for (x, y) in numbers(r).flat_map(|x| numbers(s).map(move |y| (x, y))) {
                let given = [literal(dtype, x), literal(dtype, y)];
                for code in both {
                    has(Range::computed(code, &[r, s], dtype), code.eval(&given), "pair");
                }
                for code in truths {
                    let found = code.eval(&given);
                    has(Range::computed(code, &[r, s], Dtype::Bool), found, "truth");
                    let holds = !found.is_zero();
                    has(r.where_holds(code, s, holds), given[0], "where it holds");
                }
            }
        }
        for (r, x) in ranges().flat_map(|r| numbers(r).map(move |x| (r, x))) {
            for code in [Code::Neg, Code::Abs, Code::Convert(Dtype::I32)] {
                let to = if let Code::Convert(to) = code { to } else { dtype };
                has(Range::computed(code, &[r], to), code.eval(&[literal(dtype, x)]), "one");
            }
        }
    }

    #[test]
    fn what_wraps_can_be_anything() {
        let most = Range::new(0, i32::MAX.into());
        let one = Range::new(1, 1);
        assert_eq!(Range::computed(Code::Add, &[most, one], Dtype::I32), Range::of(Dtype::I32));
        assert_eq!(Range::computed(Code::Add, &[most, one], Dtype::I64), most.plus(one));
    }
}
