//! Ranges of integers: proofs that run-time indices stay inside.
//!
//! An index is written as a sum of multiples of *atoms* (loop indices, values that are no sums), and
//! every condition that holds where it is used as a sum that is at least 0:
//!
//! ```text
//! for i0 in 5 {
//!   %0: i64 = load b1[i0]
//!   %1: bool = ge %0, 0                  %0 >= 0
//!   %2: bool = lt %0, 3                  2 - %0 >= 0
//!   %3: bool = and %1, %2
//!   %4: i64 = mul %0, 4
//!   %5: f64 = load b0[i0 + (%4)] if %3   i0 + 4 %0: from 0 + 0 to 4 + 8
//! }
//! ```
//!
//! What an atom can be follows from what defines it (`min`, `max`, `clamp`, `rem`, `select`, ..) and
//! from its dtype. A sum is at least what is left of it after taking away a condition, since that is
//! at least 0: so 4 %0 + i0 loses its first term by the first condition. Sums of machine integers wrap;
//! one that might is an atom of its own. A variable is an atom for as long as nothing is stored to it:
//! every value remembers when it was defined, and so which value of a variable it read. This is interval
//! arithmetic with the conditions of Farkas' lemma found by a short search, sound and incomplete: what is
//! not proved counts as possible.

use crate::loop_ir::{Address, Arg, Expr, Extent, IndexId, Kernel, ScalarId, Stmt, VarId, visit};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::{Code, Dtype, Literal, OrderedMap};

/// Steps that the search for one access takes at most.
const STEPS: usize = 4_000;
/// Definitions that it looks through one behind the other, and in all: under every branch of a `select`
/// it looks again. When that is spent it still sees a clamp at the end, which is what matters most.
const DEPTH: usize = 48;
const LOOKS: usize = 4_000;
const SPENT: usize = 4;

/// From the least to the greatest.
pub(super) type Range = (i128, i128);

/// What a sum consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Atom {
    Index(IndexId),
    Scalar(ScalarId),
    /// The variable after so many changes.
    Var(VarId, usize),
}

/// Something in `rest`, plus multiples of atoms.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sum {
    rest: Range,
    terms: SmallVec<[(Atom, i128); 4]>,
}

/// What a value can be of which nothing is known: a float, or what is not declared, which is an error found elsewhere.
const UNKNOWN: Range = (i128::MIN / 2, i128::MAX / 2);

/// What is known where the verifier is.
pub(crate) struct ValueRanges<'a> {
    k: &'a Kernel,
    /// What every value is, and when it was defined.
    definitions: SecondaryMap<ScalarId, Option<(&'a Expr, usize)>>,
    /// The values, indices and constants that other values are.
    pub(crate) same: SecondaryMap<ScalarId, Option<Arg>>,
    /// How often every loop runs, as it was when the loop began.
    extents: SecondaryMap<IndexId, Option<(Extent, usize)>>,
    /// Changes of variables so far: the clock.
    now: usize,
    /// When each variable changed.
    changes: SecondaryMap<VarId, Vec<usize>>,
    /// Conditions of the branches around.
    pub(crate) facts: Vec<(Arg, bool)>,
}

impl<'a> ValueRanges<'a> {
    pub(crate) fn of(k: &'a Kernel) -> ValueRanges<'a> {
        let (definitions, extents) = (SecondaryMap::new(), SecondaryMap::new());
        let (same, changes) = (SecondaryMap::new(), SecondaryMap::new());
        ValueRanges { k, definitions, same, extents, now: 0, changes, facts: Vec::new() }
    }

    /// From here on a variable may hold something else.
    pub(crate) fn change(&mut self, var: VarId) {
        self.now += 1;
        self.changes[var].push(self.now);
    }

    /// Before and behind a block that may run, or run again: its variables may hold anything.
    pub(crate) fn change_all(&mut self, body: &[Stmt]) {
        visit(body, &mut |stmt| {
            if let Some((var, _)) = stmt.assigned() {
                self.change(var);
            }
        });
    }

    /// From here on a value is visible.
    pub(crate) fn define(&mut self, value: ScalarId, expr: &'a Expr) {
        self.definitions[value] = Some((expr, self.now));
    }

    /// From here on an index counts.
    pub(crate) fn count(&mut self, index: IndexId, extent: Extent) {
        self.extents[index] = Some((extent, self.now));
    }

    /// How often a loop runs at least and at most.
    pub(crate) fn iterations(&self, extent: Extent) -> Range {
        match extent {
            Extent::Constant(n) => (n as i128, n as i128),
            Extent::Scalar(a) => {
                let (low, high) = Search::under(self, None).arg(a);
                (low.max(0), high.max(0))
            }
        }
    }

    /// Where an address lies if the guard holds; `None` if it cannot.
    pub(crate) fn address(&self, address: &Address, guard: Option<Arg>) -> Option<Range> {
        let mut search = Search::under(self, guard);
        if search.dead {
            return None;
        }
        let mut sum = Sum::constant(i128::from(address.offset));
        for (index, stride) in &address.terms {
            sum = sum.plus(&Sum::atom(Atom::Index(*index)), i128::from(*stride));
        }
        if let Some(d) = address.dynamic {
            sum = sum.plus(&search.sum(d), 1);
        }
        Some(search.range(&sum))
    }

    /// The same element as a sum of loop indices and at most one value, where it is one.
    pub(crate) fn sum(&self, address: &Address) -> Option<Address> {
        let mut search = Search::under(self, None);
        let all = search.sum(address.dynamic?);
        let mut found = Address { dynamic: None, ..address.clone() };
        let (low, high) = all.rest;
        if low != high {
            return None;
        }
        found.offset = found.offset.checked_add(i64::try_from(low).ok()?)?;
        for (atom, factor) in all.terms {
            let factor = i64::try_from(factor).ok()?;
            match atom {
                Atom::Index(i) => match found.terms.iter_mut().find(|t| t.0 == i) {
                    Some(term) => term.1 = term.1.checked_add(factor)?,
                    None => found.terms.push((i, factor)),
                },
                Atom::Scalar(s)
                    if (found.dynamic, factor) == (None, 1) && self.k.scalars[s] == Dtype::I64 =>
                {
                    found.dynamic = Some(Arg::Scalar(s));
                }
                Atom::Scalar(_) | Atom::Var(..) => return None,
            }
        }
        found.terms.retain(|t| t.1 != 0);
        found.terms.sort_by_key(|t| t.0);
        (found != *address).then_some(found)
    }

    /// A comparison of integers as one of a loop index with a constant, where it is one and does not say so.
    pub(crate) fn compared(&self, code: Code, args: &[Arg]) -> Option<(Code, Arg, Arg)> {
        let [x, y] = *args else { return None };
        if !code.compares() || ![x, y].iter().all(|a| self.k.dtype(*a).is_integer()) {
            return None;
        }
        if let (Arg::Index(_), Arg::Literal(_)) = (x, y) {
            return None;
        }
        let mut search = Search::under(self, None);
        let sum = search.sum(x).plus(&search.sum(y), -1);
        let [(Atom::Index(index), factor @ (1 | -1))] = *sum.terms.as_slice() else { return None };
        // i + c < 0 is i < -c, and c - i < 0 is i > c.
        let code = match (code, factor) {
            (Code::Lt, -1) => Code::Gt,
            (Code::Gt, -1) => Code::Lt,
            (Code::Le, -1) => Code::Ge,
            (Code::Ge, -1) => Code::Le,
            _ => code,
        };
        let (low, high) = sum.rest;
        let number = i64::try_from(low.checked_mul(-factor)?).ok().filter(|_| low == high)?;
        Some((code, Arg::Index(index), Arg::Literal(Literal::i64(number))))
    }

    /// The operand or the constant that a code of integers certainly gives.
    pub(crate) fn only(&self, code: Code, args: &[Arg]) -> Option<Arg> {
        let integer = |a: &Arg| self.k.dtype(*a).is_integer();
        if !args.iter().all(integer) {
            return None;
        }
        let truth = |holds| Arg::Literal(Literal::bool(holds));
        let mut search = Search::under(self, None);
        // x <= y
        let mut ordered = |x: Arg, y: Arg, by: i128| {
            let sum = search.sum(y).plus(&search.sum(x), -1);
            search.range(&sum).0 >= by
        };
        match (code, args) {
            (Code::Max, [x, y]) if ordered(*y, *x, 0) => Some(*x),
            (Code::Max, [x, y]) if ordered(*x, *y, 0) => Some(*y),
            (Code::Min, [x, y]) if ordered(*x, *y, 0) => Some(*x),
            (Code::Min, [x, y]) if ordered(*y, *x, 0) => Some(*y),
            (Code::Clamp, [low, x, high]) if ordered(*low, *x, 0) && ordered(*x, *high, 0) => {
                Some(*x)
            }
            (Code::Lt, [x, y]) | (Code::Gt, [y, x]) => {
                let holds = ordered(*x, *y, 1);
                (holds || ordered(*y, *x, 0)).then(|| truth(holds))
            }
            (Code::Le, [x, y]) | (Code::Ge, [y, x]) => {
                let holds = ordered(*x, *y, 0);
                (holds || ordered(*y, *x, 1)).then(|| truth(holds))
            }
            _ => None,
        }
    }
}

/// The search for one answer.
struct Search<'r, 'a> {
    r: &'r ValueRanges<'a>,
    /// Sums that are at least 0.
    conditions: Vec<Sum>,
    /// Whether the conditions contradict each other.
    dead: bool,
    /// What values can be under these conditions.
    known: OrderedMap<ScalarId, Range>,
    /// What values are sums of, where it is certain under these conditions that they do not wrap.
    sums: OrderedMap<ScalarId, Option<Sum>>,
    /// When the operands that are being looked at were read.
    now: usize,
    steps: usize,
    depth: usize,
    looks: usize,
}

impl<'r, 'a> Search<'r, 'a> {
    /// The search where all facts and the guard hold.
    fn under(r: &'r ValueRanges<'a>, guard: Option<Arg>) -> Self {
        let (known, sums) = (OrderedMap::default(), OrderedMap::default());
        let conditions = Vec::new();
        let (dead, now) = (false, r.now);
        let mut search =
            Search { r, conditions, dead, known, sums, now, steps: 0, depth: 0, looks: 0 };
        // Twice: a later fact can be why a value that an earlier one is about is a sum.
        for _ in 0..2 {
            for (fact, holds) in r.facts.iter().copied().chain(guard.map(|g| (g, true))) {
                search.assume(fact, holds);
            }
        }
        search
    }

    /// Looks through a definition, with operands that were read then; `None` where it lies too deep.
    fn at<T>(&mut self, then: usize, f: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let before = (self.now, self.depth);
        self.looks += 1;
        if self.looks > LOOKS {
            self.depth = self.depth.max(DEPTH - SPENT);
        }
        if self.depth >= DEPTH {
            self.depth = before.1;
            return None;
        }
        (self.now, self.depth) = (then, self.depth + 1);
        let found = f(self);
        (self.now, self.depth) = before;
        Some(found)
    }

    /// A bool holds, or does not.
    fn assume(&mut self, fact: Arg, holds: bool) {
        let scalar = match fact {
            Arg::Literal(l) => {
                self.dead |= (l.bits != 0) != holds;
                return;
            }
            Arg::Scalar(s) => s,
            Arg::Var(_) | Arg::Index(_) => return,
        };
        let Some((Expr::Code(code, args), then)) = self.r.definitions[scalar] else { return };
        self.at(then, |search| search.assume_code(*code, args, holds));
    }

    /// A code gives true, or false.
    fn assume_code(&mut self, code: Code, args: &[Arg], holds: bool) {
        match (code, args) {
            (Code::And | Code::Mul | Code::Min, [x, y]) if holds => {
                self.assume(*x, true);
                self.assume(*y, true);
            }
            (Code::Or | Code::Add | Code::Max, [x, y]) if !holds => {
                self.assume(*x, false);
                self.assume(*y, false);
            }
            (Code::Not, [x]) => self.assume(*x, !holds),
            // not (x < y) is y <= x
            (Code::Lt, [x, y]) if holds => self.ordered(*x, *y, 1),
            (Code::Lt, [x, y]) => self.ordered(*y, *x, 0),
            (Code::Le, [x, y]) if holds => self.ordered(*x, *y, 0),
            (Code::Le, [x, y]) => self.ordered(*y, *x, 1),
            (Code::Gt, [x, y]) if holds => self.ordered(*y, *x, 1),
            (Code::Gt, [x, y]) => self.ordered(*x, *y, 0),
            (Code::Ge, [x, y]) if holds => self.ordered(*y, *x, 0),
            (Code::Ge, [x, y]) => self.ordered(*x, *y, 1),
            (Code::Eq, [x, y]) if holds => {
                self.ordered(*x, *y, 0);
                self.ordered(*y, *x, 0);
            }
            (Code::Ne, [x, y]) if !holds => {
                self.ordered(*x, *y, 0);
                self.ordered(*y, *x, 0);
            }
            _ => {}
        }
    }

    /// `x + by <= y`
    fn ordered(&mut self, x: Arg, y: Arg, by: i128) {
        if !self.r.k.declared(x).is_some_and(Dtype::is_integer) {
            return;
        }
        let sum = self.sum(y).plus(&self.sum(x), -1);
        let sum = sum.plus(&Sum::constant(by), -1);
        self.dead |= sum.terms.is_empty() && sum.rest.1 < 0;
        if !self.conditions.contains(&sum) {
            self.conditions.push(sum);
            self.known.clear();
            self.sums.clear();
        }
    }

    /// An operand as a sum.
    fn sum(&mut self, arg: Arg) -> Sum {
        match arg {
            Arg::Literal(l) => integer(l)
                .map_or(Sum { rest: limits(l.dtype), terms: SmallVec::new() }, Sum::constant),
            Arg::Var(v) => {
                let changes = self.r.changes[v].partition_point(|at| *at <= self.now);
                Sum::atom(Atom::Var(v, changes))
            }
            Arg::Index(i) => Sum::atom(Atom::Index(i)),
            Arg::Scalar(s) => match self.r.same[s] {
                Some(same) => self.sum(same),
                None => self.definition(s).unwrap_or_else(|| Sum::atom(Atom::Scalar(s))),
            },
        }
    }

    /// What a value is a sum of, if it certainly does not wrap.
    fn definition(&mut self, s: ScalarId) -> Option<Sum> {
        if let Some(known) = self.sums.get(&s) {
            return known.clone();
        }
        let Some((Expr::Code(code, args), then)) = self.r.definitions[s] else { return None };
        let dtype = *self.r.k.scalars.get(s)?;
        if !dtype.is_integer() {
            return None;
        }
        let found = self.at(then, |search| search.sum_of(*code, args, limits(dtype))).flatten();
        self.sums.insert(s, found.clone());
        found
    }

    /// The sum that a code computes, if it is one and lies within the limits.
    fn sum_of(&mut self, code: Code, args: &[Arg], limits: Range) -> Option<Sum> {
        let sum = match (code, args) {
            (Code::Add, [x, y]) => Some(self.sum(*x).plus(&self.sum(*y), 1)),
            (Code::Sub, [x, y]) => Some(self.sum(*x).plus(&self.sum(*y), -1)),
            (Code::Neg, [x]) => Some(Sum::constant(0).plus(&self.sum(*x), -1)),
            (Code::Mul, [x, Arg::Literal(by)] | [Arg::Literal(by), x]) => {
                integer(*by).map(|by| Sum::constant(0).plus(&self.sum(*x), by))
            }
            // Between integers; a bool is no sum.
            (Code::Convert(_), [x]) if self.r.k.declared(*x).is_some_and(Dtype::is_integer) => {
                Some(self.sum(*x))
            }
            _ => None,
        };
        sum.filter(|sum| {
            let range = self.range(sum);
            limits.0 <= range.0 && range.1 <= limits.1
        })
    }

    fn arg(&mut self, arg: Arg) -> Range {
        let sum = self.sum(arg);
        self.range(&sum)
    }

    fn range(&mut self, sum: &Sum) -> Range {
        let negative = Sum::constant(0).plus(sum, -1);
        let low = self.least(sum, &mut SmallVec::new());
        // What has saturated says nothing: the negative of the least number is no bound.
        let high = self.least(&negative, &mut SmallVec::new()).checked_neg();
        (low, high.unwrap_or(i128::MAX))
    }

    /// A lower bound of a sum.
    fn least(&mut self, sum: &Sum, used: &mut SmallVec<[usize; 8]>) -> i128 {
        let mut best = sum.rest.0;
        for (atom, factor) in &sum.terms {
            let (low, high) = self.atom(*atom);
            let end = if *factor > 0 { low } else { high };
            best = best.saturating_add(factor.saturating_mul(end));
        }
        for i in 0..self.conditions.len() {
            if used.contains(&i) || used.len() == used.inline_size() {
                continue;
            }
            // One multiple of the condition takes a term away.
            let mut tried = 0;
            for (atom, factor) in &sum.terms {
                let in_condition = self.conditions[i].factor(*atom);
                if factor.checked_rem(in_condition) != Some(0) {
                    continue;
                }
                let by = factor / in_condition;
                if by <= 0 || by == tried {
                    continue;
                }
                tried = by;
                self.steps += 1;
                if self.steps > STEPS {
                    return best;
                }
                // The condition holds for the greatest that its rest can be.
                let mut condition = self.conditions[i].clone();
                condition.rest.0 = condition.rest.1;
                let left = sum.plus(&condition, -by);
                used.push(i);
                best = best.max(self.least(&left, used));
                used.pop();
            }
        }
        best
    }

    /// What an atom can be.
    fn atom(&mut self, atom: Atom) -> Range {
        match atom {
            Atom::Index(i) => match self.r.extents[i] {
                Some((Extent::Constant(n), _)) => (0, (n as i128 - 1).max(0)),
                Some((Extent::Scalar(a), then)) => {
                    let range = self.at(then, |search| search.arg(a));
                    (0, (range.unwrap_or(limits(Dtype::I64)).1 - 1).max(0))
                }
                None => limits(Dtype::I64),
            },
            Atom::Var(v, _) => self.r.k.vars.get(v).map_or(UNKNOWN, |dtype| limits(*dtype)),
            Atom::Scalar(s) => {
                if let Some(known) = self.known.get(&s) {
                    return *known;
                }
                let Some(dtype) = self.r.k.scalars.get(s).copied() else { return UNKNOWN };
                let limits = limits(dtype);
                // Ends what a program defines by itself, which is an error found elsewhere.
                self.known.insert(s, limits);
                let found = match self.r.definitions[s] {
                    Some((Expr::Code(code, args), then)) => {
                        self.at(then, |search| search.code(*code, args, limits)).unwrap_or(limits)
                    }
                    Some(_) | None => limits,
                };
                let found = (found.0.max(limits.0), found.1.min(limits.1));
                self.known.insert(s, found);
                found
            }
        }
    }

    /// What a code makes of its operands, beside sums.
    fn code(&mut self, code: Code, args: &[Arg], limits: Range) -> Range {
        let integers = args.iter().all(|a| match a {
            Arg::Literal(l) => !l.dtype.is_float(),
            Arg::Scalar(s) => self.r.k.scalars.get(*s).is_some_and(|d| !d.is_float()),
            Arg::Var(v) => self.r.k.vars.get(*v).is_some_and(|d| !d.is_float()),
            Arg::Index(_) => true,
        });
        if !integers {
            return limits;
        }
        match (code, args) {
            (Code::Max, [x, y]) => {
                let (x, y) = (self.arg(*x), self.arg(*y));
                (x.0.max(y.0), x.1.max(y.1))
            }
            (Code::Min, [x, y]) => {
                let (x, y) = (self.arg(*x), self.arg(*y));
                (x.0.min(y.0), x.1.min(y.1))
            }
            (Code::Clamp, [low, x, high]) => {
                let (low, x, high) = (self.arg(*low), self.arg(*x), self.arg(*high));
                (x.0.max(low.0).min(high.0), x.1.max(low.1).min(high.1))
            }
            (Code::Div, [x, Arg::Literal(by)]) => match (integer(*by), self.arg(*x)) {
                // Towards zero, as machines do.
                (Some(by), (low, high)) if by > 0 => (low / by, high / by),
                _ => limits,
            },
            (Code::Rem, [x, Arg::Literal(by)]) => match (integer(*by), self.arg(*x)) {
                // With the sign of x.
                (Some(by), (low, high)) if by > 0 => {
                    (low.max(1 - by).min(0), high.min(by - 1).max(0))
                }
                _ => limits,
            },
            (Code::And, [_, Arg::Literal(mask)] | [Arg::Literal(mask), _]) => {
                match integer(*mask) {
                    Some(mask) if mask >= 0 => (0, mask),
                    _ => limits,
                }
            }
            (Code::Select, [c, x, y]) => {
                let (x, y) = (self.range_if(*c, true, *x), self.range_if(*c, false, *y));
                match (x, y) {
                    (Some(x), Some(y)) => (x.0.min(y.0), x.1.max(y.1)),
                    (Some(only), None) | (None, Some(only)) => only,
                    (None, None) => limits,
                }
            }
            (Code::Convert(_), [x]) => {
                let x = self.arg(*x);
                if limits.0 <= x.0 && x.1 <= limits.1 { x } else { limits }
            }
            (Code::Lt, [x, y]) | (Code::Gt, [y, x]) => {
                let (x, y) = (self.arg(*x), self.arg(*y));
                decided(x.1 < y.0, x.0 >= y.1)
            }
            (Code::Le, [x, y]) | (Code::Ge, [y, x]) => {
                let (x, y) = (self.arg(*x), self.arg(*y));
                decided(x.1 <= y.0, x.0 > y.1)
            }
            (Code::Abs, [x]) => {
                let (low, high) = self.arg(*x);
                // The least integer stays itself, and what is beyond integers has no negative.
                match (low.checked_neg(), high.checked_neg()) {
                    (Some(most), Some(least)) if low > limits.0 => {
                        (low.max(least).max(0), high.max(most))
                    }
                    _ => limits,
                }
            }
            _ => limits,
        }
    }

    /// What an operand can be where a condition holds or does not; `None` if that cannot be.
    fn range_if(&mut self, condition: Arg, holds: bool, x: Arg) -> Option<Range> {
        let before = self.conditions.len();
        let (known, sums) = (std::mem::take(&mut self.known), std::mem::take(&mut self.sums));
        let dead = self.dead;
        self.assume(condition, holds);
        let range = if self.dead { None } else { Some(self.arg(x)) };
        self.conditions.truncate(before);
        (self.known, self.sums) = (known, sums);
        self.dead = dead;
        range
    }
}

impl Sum {
    fn constant(n: i128) -> Sum {
        Sum { rest: (n, n), terms: SmallVec::new() }
    }

    fn atom(atom: Atom) -> Sum {
        Sum { rest: (0, 0), terms: SmallVec::from_slice(&[(atom, 1)]) }
    }

    fn factor(&self, atom: Atom) -> i128 {
        self.terms.iter().find(|t| t.0 == atom).map_or(0, |t| t.1)
    }

    /// This, and so many times the other; anything, where that is beyond the numbers that are reckoned with.
    fn plus(&self, other: &Sum, times: i128) -> Sum {
        let unknown = Sum { rest: (i128::MIN, i128::MAX), terms: SmallVec::new() };
        self.checked_plus(other, times).unwrap_or(unknown)
    }

    fn checked_plus(&self, other: &Sum, times: i128) -> Option<Sum> {
        let (a, b) = (other.rest.0.checked_mul(times)?, other.rest.1.checked_mul(times)?);
        let rest = (self.rest.0.checked_add(a.min(b))?, self.rest.1.checked_add(a.max(b))?);
        let mut sum = Sum { rest, terms: self.terms.clone() };
        for (atom, factor) in &other.terms {
            let more = factor.checked_mul(times)?;
            match sum.terms.iter_mut().find(|t| t.0 == *atom) {
                Some(t) => t.1 = t.1.checked_add(more)?,
                None => sum.terms.push((*atom, more)),
            }
        }
        sum.terms.retain(|t| t.1 != 0);
        Some(sum)
    }
}

/// A bool that is certainly true, certainly false, or neither.
fn decided(holds: bool, fails: bool) -> Range {
    (i128::from(holds), i128::from(!fails))
}

/// What a dtype holds; a float holds no integer.
fn limits(dtype: Dtype) -> Range {
    match dtype {
        Dtype::Bool => (0, 1),
        Dtype::I32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
        Dtype::I64 => (i128::from(i64::MIN), i128::from(i64::MAX)),
        Dtype::U32 => (0, i128::from(u32::MAX)),
        Dtype::U64 => (0, i128::from(u64::MAX)),
        Dtype::F32 | Dtype::F64 => UNKNOWN,
    }
}

fn integer(l: Literal) -> Option<i128> {
    match l.dtype {
        Dtype::Bool | Dtype::U32 | Dtype::U64 => Some(i128::from(l.bits)),
        Dtype::I32 => Some(i128::from(l.bits as u32 as i32)),
        Dtype::I64 => Some(i128::from(l.bits as i64)),
        Dtype::F32 | Dtype::F64 => None,
    }
}
