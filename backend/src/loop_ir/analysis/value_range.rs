//! Value-range analysis of integers: proves that run-time indices stay in bounds.
//!
//! An index is written as a sum of multiples of *atoms* (loop indices, and values that are no sums). Every condition
//! that holds where the index is used is written as a sum that is at least 0:
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
//! The range of an atom follows from its definition (`min`, `max`, `clamp`, `rem`, `select`, ..) and its dtype. Since
//! the sum of a condition is at least 0, a sum is at least the rest after subtracting the condition: so `4 %0 + i0`
//! loses its first term by the first condition. Sums of machine integers wrap; a sum that might wrap is an atom. A
//! variable is an atom until it is assigned: every value records the time of its definition, and thus which value of
//! a variable it read. This is interval arithmetic, in which a short search finds the combination of conditions that
//! Farkas' lemma promises. The analysis is sound and incomplete: a value that is not proved impossible counts as
//! possible.

use crate::loop_ir::analysis::constants::fold;
use crate::loop_ir::{Address, Arg, Expr, Extent, IndexId, Kernel, ScalarId, Stmt, VarId, visit};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::{Code, Dtype, Literal, OrderedMap};

/// The maximal number of conditions that the search for the range of one access subtracts.
const STEPS: usize = 4_000;
/// Limits of following definitions. The search follows at most `DEPTH` nested definitions. It visits a definition again
/// under every branch of a `select`. After `LOOKS` visits it follows only `SPENT` nested definitions at a time, which
/// still finds a clamp at the end of a chain, the most important case.
const DEPTH: usize = 48;
const LOOKS: usize = 4_000;
const SPENT: usize = 4;

/// An atom: a value in a sum that is not itself a sum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Atom {
    Index(IndexId),
    Scalar(ScalarId),
    /// The value that a variable has after this number of its changes.
    Var(VarId, usize),
}

/// A sum of multiples of atoms, over unbounded integers.
type Sum = Affine<Atom>;

/// The facts that are known at the current statement: definitions, loop extents, conditions and changes of variables.
pub(crate) struct ValueRanges<'a> {
    k: &'a Kernel,
    /// The definition of every scalar, and the time (number of changes of variables) at which it was made.
    definitions: SecondaryMap<ScalarId, Option<(&'a Expr, usize)>>,
    /// For each scalar that is certainly equal to another scalar, an index or a constant: that operand.
    pub(crate) same: SecondaryMap<ScalarId, Option<Arg>>,
    /// The extent of every loop, and the time (number of changes of variables) at which the loop began.
    extents: SecondaryMap<IndexId, Option<(Extent, usize)>>,
    /// The number of changes of variables so far, which serves as a clock.
    now: usize,
    /// For each variable, the times (numbers of changes of any variable) at which it changed.
    changes: SecondaryMap<VarId, Vec<usize>>,
    /// The conditions of the enclosing branches, each with the value (true or false) that it has at the current
    /// statement.
    pub(crate) facts: Vec<(Arg, bool)>,
    /// The indices of enclosing loops with a run-time trip count, each with that trip count.
    pub(crate) below: Vec<(IndexId, Arg)>,
}

impl<'a> ValueRanges<'a> {
    pub(crate) fn of(k: &'a Kernel) -> ValueRanges<'a> {
        let (definitions, extents) = (SecondaryMap::new(), SecondaryMap::new());
        let (same, changes) = (SecondaryMap::new(), SecondaryMap::new());
        let (facts, below) = (Vec::new(), Vec::new());
        ValueRanges { k, definitions, same, extents, now: 0, changes, facts, below }
    }

    /// Records that a variable may have another value from the current statement on.
    pub(crate) fn invalidate(&mut self, var: VarId) {
        self.now += 1;
        self.changes[var].push(self.now);
    }

    /// Records that all variables assigned in a block may have another value. Called before and after a block that may
    /// run several times or not at all.
    pub(crate) fn invalidate_all(&mut self, body: &[Stmt]) {
        visit(body, &mut |stmt| {
            if let Some((var, _)) = stmt.assigned() {
                self.invalidate(var);
            }
        });
    }

    /// Records the definition of a scalar, with the number of changes of variables before it: the definition reads the
    /// values that variables have then.
    pub(crate) fn define(&mut self, value: ScalarId, expr: &'a Expr) {
        self.definitions[value] = Some((expr, self.now));
    }

    /// Records the definition of a scalar, and in `same` the operand or constant to which the scalar is certainly
    /// equal.
    pub(crate) fn simplify(&mut self, value: ScalarId, expr: &'a Expr) {
        if let Expr::Code(code, args) = expr {
            let args: Vec<Arg> = args.iter().map(|a| self.simplified(*a)).collect();
            let known = self.constant_or_operand(*code, &args).or_else(|| fold(*code, &args));
            // Do not record equality with a variable, because the variable may have another value where the scalar is
            // used.
            self.same[value] = known.filter(|a| !matches!(a, Arg::Var(_)));
        }
        self.define(value, expr);
    }

    /// Returns the operand or constant that is certainly equal to `arg`; `arg` itself if none is known.
    pub(crate) fn simplified(&self, arg: Arg) -> Arg {
        if let Arg::Scalar(s) = arg { self.same[s].unwrap_or(arg) } else { arg }
    }

    /// Returns the operand as an affine form of loop indices; `None` if it depends on other values.
    pub(crate) fn counters(&self, arg: Arg) -> Option<Affine<IndexId>> {
        let sum = Search::with_guard(self, None).sum(arg)?;
        let start = Some(Affine::constant(sum.offset()));
        sum.terms().iter().fold(start, |all, (atom, factor)| match atom {
            Atom::Index(i) => all?.checked_plus(&Affine::atom(*i), *factor),
            Atom::Scalar(_) | Atom::Var(..) => None,
        })
    }

    /// Records that a loop with this index and trip count begins.
    pub(crate) fn count(&mut self, index: IndexId, extent: Extent) {
        self.extents[index] = Some((extent, self.now));
    }

    /// Returns the range of the trip count of a loop; never below 0.
    pub(crate) fn iterations(&self, extent: Extent) -> Interval {
        match extent {
            Extent::Constant(n) => Interval::number(n as i128),
            Extent::Scalar(a) => {
                let Interval { least, most } = Search::with_guard(self, None).arg(a);
                Interval::new(least.max(0), most.max(0))
            }
        }
    }

    /// Returns the range of an address, in elements from the start of the buffer, if the guard is true; `None` if the
    /// guard cannot be true.
    pub(crate) fn address(&self, address: &Address, guard: Option<Arg>) -> Option<Interval> {
        let mut search = Search::with_guard(self, guard);
        if search.dead {
            return None;
        }
        let sum = search.address(address);
        Some(sum.map_or(Interval::ALL, |sum| search.range(&sum)))
    }

    /// Returns the only value that an integer can have while the guard and the conditions of the enclosing branches are
    /// true; `None` if no value is possible (the statement never runs), or if more than one is.
    pub(crate) fn decided(&self, arg: Arg, guard: Option<Arg>) -> Option<i64> {
        if guard.is_none() && self.facts.is_empty() {
            return None;
        }
        let address = Address { dynamic: Some(arg), ..Address::default() };
        let Interval { least, most } = self.address(&address, guard)?;
        i64::try_from(least).ok().filter(|_| least == most)
    }

    /// Returns the address rewritten as an affine form of loop indices and at most one i64 scalar; `None` if that is
    /// impossible or changes nothing.
    pub(crate) fn sum(&self, address: &Address) -> Option<Address> {
        let mut search = Search::with_guard(self, None);
        let all = search.sum(address.dynamic?)?;
        let mut found = Address { dynamic: None, ..address.clone() };
        found.offset = found.offset.checked_add(all.offset())?;
        for (atom, factor) in all.terms().iter().copied() {
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

    /// Rewrites an integer comparison such as `i + c < 0` as a comparison of a loop index with a constant; `None` if
    /// that is impossible or the comparison already has this form.
    pub(crate) fn compared(&self, code: Code, args: &[Arg]) -> Option<(Code, Arg, Arg)> {
        let [x, y] = *args else { return None };
        if !code.compares() || ![x, y].iter().all(|a| self.k.dtype(*a).is_integer()) {
            return None;
        }
        if let (Arg::Index(_), Arg::Literal(_)) = (x, y) {
            return None;
        }
        let mut search = Search::with_guard(self, None);
        let sum = search.sum(x)?.checked_plus(&search.sum(y)?, -1)?;
        let [(Atom::Index(index), factor @ (1 | -1))] = *sum.terms() else { return None };
        // `i + c < 0` means `i < -c`, and `c - i < 0` means `i > c`: a negative factor turns the comparison around.
        let code = match (code, factor) {
            (Code::Lt, -1) => Code::Gt,
            (Code::Gt, -1) => Code::Lt,
            (Code::Le, -1) => Code::Ge,
            (Code::Ge, -1) => Code::Le,
            _ => code,
        };
        let number = sum.offset().checked_mul(-factor)?;
        Some((code, Arg::Index(index), Arg::Literal(Literal::i64(number))))
    }

    /// Returns the operand or the constant to which the result of a code on integers is certainly equal; `None` if
    /// there is none.
    pub(crate) fn constant_or_operand(&self, code: Code, args: &[Arg]) -> Option<Arg> {
        let integer = |a: &Arg| self.k.dtype(*a).is_integer();
        if !args.iter().all(integer) {
            return None;
        }
        let truth = |holds| Arg::Literal(Literal::bool(holds));
        let mut search = Search::with_guard(self, None);
        // Returns whether `x + by <= y` holds in every run.
        let mut ordered = |x: Arg, y: Arg, by: i128| search.difference(y, x).least >= by;
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

/// A search for the range of one sum, under the facts of `ValueRanges` and a guard that is assumed to be true.
struct Search<'r, 'a> {
    r: &'r ValueRanges<'a>,
    /// The conditions that hold, each as a sum that is at least 0.
    conditions: Vec<Sum>,
    /// Whether the conditions contradict each other, so that the statement never runs.
    dead: bool,
    /// The ranges of scalars that are already computed under the current conditions.
    known: OrderedMap<ScalarId, Interval>,
    /// The sums to which scalars are equal under the current conditions; `None` for a scalar whose sum may wrap.
    sums: OrderedMap<ScalarId, Option<Sum>>,
    /// The time at which the statement under examination read its operands, counted in assignments to variables. A
    /// variable that was assigned later has another value now.
    now: usize,
    steps: usize,
    depth: usize,
    looks: usize,
}

impl<'r, 'a> Search<'r, 'a> {
    /// Returns a search under all known facts, and under the guard if there is one.
    fn with_guard(r: &'r ValueRanges<'a>, guard: Option<Arg>) -> Self {
        let (known, sums) = (OrderedMap::default(), OrderedMap::default());
        let conditions = Vec::new();
        let (dead, now) = (false, r.now);
        let mut search =
            Search { r, conditions, dead, known, sums, now, steps: 0, depth: 0, looks: 0 };
        for (index, extent) in &r.below {
            search.ordered(Arg::Index(*index), *extent, 1);
        }
        // Add the conditions twice, since a later condition may prove that a scalar in an earlier condition is a sum.
        for _ in 0..2 {
            for (fact, holds) in r.facts.iter().copied().chain(guard.map(|g| (g, true))) {
                search.assume(fact, holds);
            }
        }
        search
    }

    /// Calls `f` to follow a definition that was made at time `then` (number of changes of variables). If definitions
    /// are nested too deep (`DEPTH`), does not call `f` and returns `None`.
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

    /// Adds the conditions that hold if the bool `fact` has the value `holds`.
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

    /// Adds the conditions that hold if `code`, applied to `args`, has the bool result `holds`.
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
            // The negation of `x < y` is `y <= x`, and the negation of `x <= y` is `y + 1 <= x`.
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

    /// Adds the condition `x + by <= y`, if `x` and `y` are integers.
    fn ordered(&mut self, x: Arg, y: Arg, by: i64) {
        if !self.r.k.declared(x).is_some_and(Dtype::is_integer) {
            return;
        }
        let sums = (self.sum(y), self.sum(x));
        let (Some(y), Some(x)) = sums else { return };
        let sum = y.checked_plus(&x, -1).and_then(|sum| sum.checked_plus(&Sum::constant(by), -1));
        let Some(sum) = sum else { return };
        self.dead |= sum.value().is_some_and(|value| value < 0);
        if !self.conditions.contains(&sum) {
            self.conditions.push(sum);
            self.known.clear();
            self.sums.clear();
        }
    }

    /// Returns an operand as a sum of atoms; `None` for a literal that is not representable as i64.
    fn sum(&mut self, arg: Arg) -> Option<Sum> {
        Some(match arg {
            Arg::Literal(l) => Sum::constant(integer(l)?),
            Arg::Var(v) => {
                let changes = self.r.changes[v].partition_point(|at| *at <= self.now);
                Sum::atom(Atom::Var(v, changes))
            }
            Arg::Index(i) => Sum::atom(Atom::Index(i)),
            Arg::Scalar(s) => match self.r.same[s] {
                Some(same) => self.sum(same)?,
                None => self.definition(s).unwrap_or_else(|| Sum::atom(Atom::Scalar(s))),
            },
        })
    }

    /// Returns an address as a sum of atoms, in elements; `None` if the sum overflows.
    fn address(&mut self, address: &Address) -> Option<Sum> {
        let mut sum = Sum::constant(address.offset);
        for (index, stride) in &address.terms {
            sum = sum.checked_plus(&Sum::atom(Atom::Index(*index)), *stride)?;
        }
        match address.dynamic {
            Some(d) => sum.checked_plus(&self.sum(d)?, 1),
            None => Some(sum),
        }
    }

    /// Returns the sum to which a scalar is equal; `None` if its definition is no sum or the sum may wrap.
    fn definition(&mut self, s: ScalarId) -> Option<Sum> {
        if let Some(known) = self.sums.get(&s) {
            return known.clone();
        }
        let Some((Expr::Code(code, args), then)) = self.r.definitions[s] else { return None };
        let dtype = *self.r.k.scalars.get(s)?;
        if !dtype.is_integer() {
            return None;
        }
        let found = self.at(then, |search| search.sum_of(*code, args, dtype)).flatten();
        self.sums.insert(s, found.clone());
        found
    }

    /// Returns the sum that a code computes, if the code adds, subtracts, negates, multiplies or divides by a constant or
    /// converts, and the sum does not wrap in `dtype`.
    fn sum_of(&mut self, code: Code, args: &[Arg], dtype: Dtype) -> Option<Sum> {
        let sum = match (code, args) {
            (Code::Add, [x, y]) => self.sum(*x)?.checked_plus(&self.sum(*y)?, 1)?,
            (Code::Sub, [x, y]) => self.sum(*x)?.checked_plus(&self.sum(*y)?, -1)?,
            (Code::Neg, [x]) => self.sum(*x)?.checked_times(-1)?,
            (Code::Mul, [x, Arg::Literal(by)] | [Arg::Literal(by), x]) => {
                self.sum(*x)?.checked_times(integer(*by)?)?
            }
            (Code::Div | Code::Rem, [x, Arg::Literal(by)]) => {
                self.divided(code, *x, integer(*by).filter(|by| *by > 0)?)?
            }
            // A conversion between integers does not change the sum (if it fits in `dtype`); a bool is no sum.
            (Code::Convert(_), [x]) if self.r.k.declared(*x).is_some_and(Dtype::is_integer) => {
                self.sum(*x)?
            }
            _ => return None,
        };
        self.range(&sum).within(Interval::of(dtype)).then_some(sum)
    }

    /// Returns the sum that the division of `x` by a positive constant computes, or the sum of the remainder: of
    /// `4 i + 5`, divided by 2, they are `2 i + 2` and 1. Returns `None` if they are no sums or if `x` may be negative,
    /// since `div` rounds to 0.
    fn divided(&mut self, code: Code, x: Arg, by: i64) -> Option<Sum> {
        let x = self.sum(x)?;
        if self.range(&x).least < 0 {
            return None;
        }
        let atoms: SmallVec<[(Atom, Interval); 4]> =
            x.terms().iter().map(|(atom, _)| (*atom, self.atom(*atom))).collect();
        let range = |atom| atoms.iter().find(|a| a.0 == atom).map_or(Interval::ALL, |a| a.1);
        let (quotient, remainder) = x.divide(by, range).exact()?;
        Some(if matches!(code, Code::Div) { quotient } else { remainder })
    }

    fn arg(&mut self, arg: Arg) -> Interval {
        match (arg, self.sum(arg)) {
            (_, Some(sum)) => self.range(&sum),
            (Arg::Literal(l), None) => Interval::literal(l),
            (Arg::Scalar(_) | Arg::Var(_) | Arg::Index(_), None) => Interval::ALL,
        }
    }

    /// Returns the range of the difference `x - y` of two operands.
    fn difference(&mut self, x: Arg, y: Arg) -> Interval {
        let sums = (self.sum(x), self.sum(y));
        match sums {
            (Some(x), Some(y)) if let Some(sum) = x.checked_plus(&y, -1) => self.range(&sum),
            _ => self.arg(x).plus(self.arg(y).times(-1)),
        }
    }

    fn range(&mut self, sum: &Sum) -> Interval {
        let least = self.least(sum, &mut SmallVec::new());
        let most = match sum.checked_times(-1) {
            // The upper bound is the negated lower bound of the negated sum. A saturated lower bound means that the sum
            // is unbounded; then the upper bound saturates, too.
            Some(negative) => self.least(&negative, &mut SmallVec::new()).saturating_neg(),
            None => sum.interval(|atom| self.atom(atom)).most,
        };
        Interval { least, most }
    }

    /// Returns a lower bound of a sum under the conditions; `used` has the indices of the conditions that are already
    /// subtracted.
    fn least(&mut self, sum: &Sum, used: &mut SmallVec<[usize; 8]>) -> i128 {
        let mut best = sum.interval(|atom| self.atom(atom)).least;
        for i in 0..self.conditions.len() {
            if used.contains(&i) || used.len() == used.inline_size() {
                continue;
            }
            // For each term of the sum, try to subtract the multiple of a condition that cancels the term.
            let mut tried = 0;
            for (atom, factor) in sum.terms() {
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
                let Some(left) = sum.checked_plus(&self.conditions[i], -by) else { continue };
                used.push(i);
                best = best.max(self.least(&left, used));
                used.pop();
            }
        }
        best
    }

    /// Returns the range of an atom under the current conditions.
    fn atom(&mut self, atom: Atom) -> Interval {
        match atom {
            Atom::Index(i) => match self.r.extents[i] {
                Some((Extent::Constant(n), _)) => Interval::below(n),
                Some((Extent::Scalar(a), then)) => {
                    let range = self.at(then, |search| search.arg(a));
                    let most = range.unwrap_or(Interval::of(Dtype::I64)).most;
                    Interval::new(0, most.saturating_sub(1).max(0))
                }
                None => Interval::of(Dtype::I64),
            },
            Atom::Var(v, _) => self.r.k.vars.get(v).map_or(Interval::ALL, |d| Interval::of(*d)),
            Atom::Scalar(s) => {
                if let Some(known) = self.known.get(&s) {
                    return *known;
                }
                // An undeclared scalar has any value; the verifier reports it elsewhere.
                let Some(dtype) = self.r.k.scalars.get(s).copied() else { return Interval::ALL };
                let all = Interval::of(dtype);
                // Record a preliminary range, so that the search ends if definitions are cyclic. (The verifier reports
                // cycles elsewhere.)
                self.known.insert(s, all);
                let found = match self.r.definitions[s] {
                    Some((Expr::Code(code, args), then)) if !dtype.is_float() => {
                        self.at(then, |search| search.code(*code, args, dtype)).unwrap_or(all)
                    }
                    Some(_) | None => all,
                };
                self.known.insert(s, found);
                found
            }
        }
    }

    /// Returns the range of the result of a code that is no sum (such as `min` or `rem`), computed from the ranges of
    /// its operands.
    fn code(&mut self, code: Code, args: &[Arg], dtype: Dtype) -> Interval {
        if let (Code::Select, [c, x, y]) = (code, args) {
            let (x, y) = (self.range_if(*c, true, *x), self.range_if(*c, false, *y));
            let both = [x, y].into_iter().flatten().reduce(Interval::join);
            return both.unwrap_or(Interval::of(dtype));
        }
        let args: SmallVec<[Interval; 3]> = args.iter().map(|a| self.arg(*a)).collect();
        Interval::computed(code, &args, dtype)
    }

    /// Returns the range of `x` if `condition` has the value `holds`; `None` if `condition` cannot have that value.
    fn range_if(&mut self, condition: Arg, holds: bool, x: Arg) -> Option<Interval> {
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

fn integer(l: Literal) -> Option<i64> {
    l.to_integer().and_then(|n| i64::try_from(n).ok())
}
