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
use tapeloom_ir::{Code, Dtype};

/// `at + Σ counter * stride`.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Affine {
    /// The constant part.
    pub at: i64,
    /// Counters in order, with their strides, of which none is 0.
    pub terms: Vec<(IndexId, i64)>,
}

impl Affine {
    pub(super) fn constant(at: i64) -> Affine {
        Affine { at, terms: Vec::new() }
    }

    pub(super) fn counter(index: IndexId) -> Affine {
        Affine { at: 0, terms: vec![(index, 1)] }
    }

    /// Its value, if it depends on no counter.
    pub(super) fn value(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.at)
    }

    pub(super) fn times(&self, by: i64) -> Option<Affine> {
        let mut all = Affine::constant(self.at.checked_mul(by)?);
        for (index, stride) in self.terms.iter().filter(|_| by != 0) {
            all.terms.push((*index, stride.checked_mul(by)?));
        }
        Some(all)
    }

    pub(super) fn plus(&self, other: &Affine) -> Option<Affine> {
        let mut all = self.clone();
        all.at = all.at.checked_add(other.at)?;
        for (index, stride) in &other.terms {
            match all.terms.binary_search_by_key(index, |t| t.0) {
                Ok(i) => all.terms[i].1 = all.terms[i].1.checked_add(*stride)?,
                Err(i) => all.terms.insert(i, (*index, *stride)),
            }
        }
        all.terms.retain(|t| t.1 != 0);
        Some(all)
    }

    pub(super) fn minus(&self, other: &Affine) -> Option<Affine> {
        self.plus(&other.times(-1)?)
    }

    /// The same without a counter, and the stride of that.
    pub(super) fn without(&self, index: IndexId) -> (Affine, i64) {
        let mut rest = self.clone();
        match rest.terms.iter().position(|t| t.0 == index) {
            Some(i) => {
                let (_, stride) = rest.terms.remove(i);
                (rest, stride)
            }
            None => (rest, 0),
        }
    }

    /// At that iteration of each loop.
    pub(super) fn at_iteration(&self, iterations: &[(IndexId, i64)]) -> Option<i64> {
        self.terms.iter().try_fold(self.at, |sum, (index, stride)| {
            let iteration = iterations.iter().find(|r| r.0 == *index)?.1;
            sum.checked_add(stride.checked_mul(iteration)?)
        })
    }

    /// The most that it is while those loops run; inner extents may depend on outer counters.
    fn most(&self, loops: &[Loop]) -> Option<i64> {
        let mut all = self.clone();
        for l in loops.iter().rev() {
            let (rest, stride) = all.without(l.index);
            all = rest;
            if stride > 0 {
                let last = l.extent.plus(&Affine::constant(-1))?;
                all = all.plus(&last.times(stride)?)?;
            }
        }
        all.value()
    }

    /// The least and the most that it is.
    pub(super) fn range(&self, loops: &[Loop]) -> Option<(i64, i64)> {
        let least = self.times(-1)?.most(loops)?.checked_neg()?;
        Some((least, self.most(loops)?))
    }
}

/// A loop around a statement.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Loop {
    /// Its counter.
    pub index: IndexId,
    /// How often it runs, which may depend on the counters of loops around it.
    pub extent: Affine,
}

impl Loop {
    /// How many iterations it has, if that is always the same.
    pub(super) fn iterations(&self) -> Option<i64> {
        self.extent.value().filter(|n| *n > 0)
    }
}

/// What is known of a scalar.
#[derive(Clone, PartialEq, Debug)]
enum Known {
    Number(Affine),
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
            Arg::Index(i) => Some(Known::Number(Affine::counter(i))),
            Arg::Literal(l) if l.dtype == Dtype::I64 => {
                Some(Known::Number(Affine::constant(l.bits as i64)))
            }
            Arg::Literal(l) if l.dtype == Dtype::Bool => Some(Known::Truth(l.bits != 0)),
            Arg::Literal(_) | Arg::Var(_) => None,
        }
    }

    /// An integer as a sum of counters.
    pub(super) fn number(&self, arg: Arg) -> Option<Affine> {
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

    pub(super) fn extent(&self, extent: &Extent) -> Option<Affine> {
        match extent {
            Extent::Constant(n) => Some(Affine::constant(i64::try_from(*n).ok()?)),
            Extent::Scalar(n) => self.number(*n),
        }
    }

    pub(super) fn address(&self, address: &Address) -> Option<Affine> {
        let mut all = Affine::constant(address.offset);
        for (index, stride) in &address.terms {
            all = all.plus(&Affine::counter(*index).times(*stride)?)?;
        }
        match address.dynamic {
            Some(arg) => all.plus(&self.number(arg)?),
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
        let truth = |i: usize| args.get(i).and_then(|a| self.truth(*a));
        // The first operand less the second one: its least and its most.
        let apart = || number(0)?.minus(&number(1)?)?.range(loops);
        let product = || {
            let (x, y) = (number(0)?, number(1)?);
            y.value().map_or_else(|| y.times(x.value()?), |by| x.times(by))
        };
        if self.k.scalars[value] == Dtype::I64 {
            return Some(Known::Number(match code {
                Code::Add => number(0)?.plus(&number(1)?)?,
                Code::Sub => number(0)?.minus(&number(1)?)?,
                Code::Mul => product()?,
                Code::Neg => number(0)?.times(-1)?,
                Code::Max | Code::Min => {
                    let (least, most) = apart()?;
                    let larger = matches!(code, Code::Max);
                    let first = if larger { least >= 0 } else { most <= 0 };
                    let second = if larger { most <= 0 } else { least >= 0 };
                    match (first, second) {
                        (true, _) => number(0)?,
                        (false, true) => number(1)?,
                        (false, false) => return None,
                    }
                }
                Code::Convert(_) => number(0)?,
                _ => return None,
            }));
        }
        let decided = |yes: bool, no: bool| (yes || no).then_some(yes);
        Some(Known::Truth(match code {
            Code::Lt => apart().and_then(|(least, most)| decided(most < 0, least >= 0))?,
            Code::Le => apart().and_then(|(least, most)| decided(most <= 0, least > 0))?,
            Code::Gt => apart().and_then(|(least, most)| decided(least > 0, most <= 0))?,
            Code::Ge => apart().and_then(|(least, most)| decided(least >= 0, most < 0))?,
            Code::And => match (truth(0), truth(1)) {
                (Some(false), _) | (_, Some(false)) => false,
                (Some(true), Some(true)) => true,
                _ => return None,
            },
            Code::Or => match (truth(0), truth(1)) {
                (Some(true), _) | (_, Some(true)) => true,
                (Some(false), Some(false)) => false,
                _ => return None,
            },
            Code::Not => !truth(0)?,
            _ => return None,
        }))
    }
}
