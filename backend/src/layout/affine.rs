//! What an index is: a constant, and counters of loops times strides.
//!
//! Kernels clamp the indices that nobody proved, count backward by subtracting, and compute all of it with
//! scalars. So a scalar is followed to what it is made of, and `max`, `min` and comparisons are decided by
//! how far counters go:
//!
//! ```text
//! serial i0 in 8 {
//!   %1: i64 = sub 7, i0          7 - i0
//!   %2: i64 = max %1, 0          7 - i0, which is never less than 0
//!   %3: i64 = mul %2, 64         448 - 64 i0
//! ```
//!
//! A loop may have an extent that is itself such a sum (a triangle). What else an index depends on, memory
//! or a variable, nobody knows before the run.

use crate::loop_ir::{Address, Arg, Expr, Extent, IndexId, Kernel, ScalarId};
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::{Code, Dtype};

/// A loop around a statement.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Loop {
    /// Its counter.
    pub index: IndexId,
    /// How often it runs, which may depend on the counters of loops around it.
    pub extent: Affine<IndexId>,
}

impl Loop {
    /// How many iterations it has, if that is always the same.
    pub(super) fn iterations(&self) -> Option<i64> {
        self.extent.value().filter(|n| *n > 0)
    }
}

/// The least and the most that a sum is while those loops run; inner extents may depend on outer counters.
pub(super) fn range(sum: &Affine<IndexId>, loops: &[Loop]) -> Option<Interval> {
    let least = most(&sum.checked_times(-1)?, loops)?.checked_neg()?;
    Some(Interval::new(least, most(sum, loops)?))
}

fn most(sum: &Affine<IndexId>, loops: &[Loop]) -> Option<i64> {
    let mut all = sum.clone();
    for l in loops.iter().rev() {
        let (rest, stride) = all.without(l.index);
        all = rest;
        if stride > 0 {
            let last = l.extent.checked_plus(&Affine::constant(1), -1)?;
            all = all.checked_plus(&last, stride)?;
        }
    }
    all.value()
}

/// What is known of a scalar.
#[derive(Clone, PartialEq, Debug)]
enum Known {
    Number(Affine<IndexId>),
    Truth(bool),
}

/// What is known of the scalars of a kernel, while somebody walks through it.
pub(super) struct Scalars<'k> {
    k: &'k Kernel,
    known: SecondaryMap<ScalarId, Option<Known>>,
}

impl<'k> Scalars<'k> {
    pub(super) fn new(k: &'k Kernel) -> Scalars<'k> {
        Scalars { k, known: SecondaryMap::new() }
    }

    fn of(&self, arg: Arg) -> Option<Known> {
        match arg {
            Arg::Scalar(s) => self.known[s].clone(),
            Arg::Index(i) => Some(Known::Number(Affine::atom(i))),
            Arg::Literal(l) if l.dtype == Dtype::I64 => {
                Some(Known::Number(Affine::constant(l.bits as i64)))
            }
            Arg::Literal(l) if l.dtype == Dtype::Bool => Some(Known::Truth(l.bits != 0)),
            Arg::Literal(_) | Arg::Var(_) => None,
        }
    }

    /// An integer as a sum of counters.
    pub(super) fn number(&self, arg: Arg) -> Option<Affine<IndexId>> {
        match self.of(arg)? {
            Known::Number(x) => Some(x),
            Known::Truth(_) => None,
        }
    }

    /// A bool that is always the same.
    pub(super) fn truth(&self, arg: Arg) -> Option<bool> {
        match self.of(arg)? {
            Known::Truth(x) => Some(x),
            Known::Number(_) => None,
        }
    }

    pub(super) fn extent(&self, extent: &Extent) -> Option<Affine<IndexId>> {
        match extent {
            Extent::Constant(n) => Some(Affine::constant(i64::try_from(*n).ok()?)),
            Extent::Scalar(n) => self.number(*n),
        }
    }

    pub(super) fn address(&self, address: &Address) -> Option<Affine<IndexId>> {
        let mut all = Affine::constant(address.offset);
        for (index, stride) in &address.terms {
            all = all.checked_plus(&Affine::atom(*index), *stride)?;
        }
        match address.dynamic {
            Some(arg) => all.checked_plus(&self.number(arg)?, 1),
            None => Some(all),
        }
    }

    /// A scalar is defined, within those loops.
    pub(super) fn define(&mut self, value: ScalarId, expr: &Expr, loops: &[Loop]) {
        self.known[value] = match expr {
            Expr::Code(code, args) => self.code(value, *code, args, loops),
            Expr::Load { .. } => None,
        };
    }

    fn code(&self, value: ScalarId, code: Code, args: &[Arg], loops: &[Loop]) -> Option<Known> {
        let number = |i: usize| args.get(i).and_then(|a| self.number(*a));
        // The first operand less the second one.
        let apart = || range(&number(0)?.checked_plus(&number(1)?, -1)?, loops);
        if self.k.scalars[value] == Dtype::I64 {
            return Some(Known::Number(match code {
                Code::Add => number(0)?.checked_plus(&number(1)?, 1)?,
                Code::Sub => number(0)?.checked_plus(&number(1)?, -1)?,
                Code::Mul => {
                    let (x, y) = (number(0)?, number(1)?);
                    match y.value() {
                        Some(by) => x.checked_times(by)?,
                        None => y.checked_times(x.value()?)?,
                    }
                }
                Code::Neg => number(0)?.checked_times(-1)?,
                Code::Max | Code::Min => {
                    let (apart, max) = (apart()?, matches!(code, Code::Max));
                    let [first, second] =
                        if max { [Code::Ge, Code::Le] } else { [Code::Le, Code::Ge] };
                    let is = |code| truth(code, &[apart, Interval::number(0)]) == Some(true);
                    match (is(first), is(second)) {
                        (true, _) => number(0)?,
                        (false, true) => number(1)?,
                        (false, false) => return None,
                    }
                }
                Code::Convert(_) => number(0)?,
                _ => return None,
            }));
        }
        if code.compares() {
            return truth(code, &[apart()?, Interval::number(0)]).map(Known::Truth);
        }
        let known = |a: &Arg| self.truth(*a).map_or(Interval::of(Dtype::Bool), Interval::number);
        match code {
            Code::And | Code::Or | Code::Not => {
                let args: SmallVec<[Interval; 2]> = args.iter().map(known).collect();
                truth(code, &args).map(Known::Truth)
            }
            _ => None,
        }
    }
}

/// The truth value that a code certainly gives.
fn truth(code: Code, args: &[Interval]) -> Option<bool> {
    Interval::computed(code, args, Dtype::Bool).only().map(|x| x != 0)
}
