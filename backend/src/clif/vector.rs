//! Which loops run in lanes, and how many.
//!
//! A loop in lanes does `width` iterations at once: scalars become vectors of them (see [`lanes`]),
//! accumulators become one accumulator per lane, combined after the loop. That is legal when no
//! iteration reads what another of the same `width` writes, and worth it when enough of the body has
//! vector instructions. Any loop of a nest can be the one: usually the innermost, but for rows of
//! three elements the loop over the rows, whose body then holds small loops.
//!
//! [`lanes`]: super::lanes

use crate::kernel::rounds::{Overlap, distance, overlap};
use crate::kernel::{Access, Arg, Expr, Extent, IndexId, Kernel, Rounds, Stmt, VarId};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Gives;
use tapeloom_ir::{Code, Dtype, Literal};

/// How to run a loop in lanes.
pub(super) struct Plan {
    /// Iterations at once: a power of two, at most the extent.
    pub(super) width: usize,
    /// Accumulators declared outside, each with the code that folds into it.
    pub(super) folds: Vec<(VarId, Code)>,
    /// About how many scalar instructions a pair of lanes saves.
    gain: i64,
}

/// Loops inside with fewer iterations are not worth lanes of their own.
const SMALL: usize = 8;

/// Plans the loop, if it should run in lanes.
pub(super) fn plan(p: &Kernel, stmt: &Stmt) -> Option<Plan> {
    let Stmt::For { index, extent: Extent::Constant(extent), rounds, carries, body } = stmt else {
        return None;
    };
    let (index, extent) = (*index, *extent);
    if extent < 2 || !carries.is_empty() {
        return None;
    }
    let mut s = Survey {
        p,
        index,
        accesses: Vec::new(),
        inside: Vec::new(),
        declared: Vec::new(),
        folds: Vec::new(),
        read: Vec::new(),
        legal: true,
        gain: 0,
        statements: 0,
        narrow: false,
        folds_inside: false,
        calls: false,
        better_inside: false,
    };
    s.block(body);
    let outside = |v: &VarId| !s.declared.contains(v);
    s.folds.retain(|(v, _)| outside(v));
    // An accumulator's value is not known before the loop ends.
    let known = s.folds.iter().all(|(v, _)| !s.read.contains(v));
    if !s.legal || !known || s.better_inside || s.gain <= 0 {
        return None;
    }
    let one = if s.narrow { 4 } else { 2 };
    // Several accumulators hide the latency of adding; bodies without one are bound by issue.
    let accumulates = !s.folds.is_empty() || s.folds_inside;
    let most = match s.statements {
        _ if !accumulates || s.calls => one,
        0..=8 => 4 * one,
        9..=24 => 2 * one,
        _ => one,
    };
    let width = std::iter::successors(Some(most), |w| Some(w / 2)).find(|w| *w <= extent)?;
    // In order is good enough where so few rounds at a time do not meet.
    let independent = *rounds != Rounds::Serial || s.independent(width);
    (width >= one && independent).then_some(Plan { width, folds: s.folds, gain: s.gain })
}

/// The value that changes nothing when folded in; `None` where lanes may not be folded separately.
pub(super) fn identity(code: Code, dtype: Dtype) -> Option<Literal> {
    let neutral = code.neutral(dtype);
    if planted(Fault::MinIdentity) && matches!(code, Code::Min) && dtype == Dtype::I32 {
        return neutral.map(|_| Literal::zero(dtype));
    }
    neutral
}

/// What a loop's body does.
struct Survey<'a> {
    p: &'a Kernel,
    index: IndexId,
    accesses: Vec<Access<'a>>,
    /// Loops inside and their extents.
    inside: Vec<(IndexId, usize)>,
    declared: Vec<VarId>,
    folds: Vec<(VarId, Code)>,
    /// Variables whose value is used or set.
    read: Vec<VarId>,
    legal: bool,
    /// Vector instructions gained, less the work of taking vectors apart and together.
    gain: i64,
    statements: usize,
    /// Whether f32 occurs: its vectors have four lanes.
    narrow: bool,
    /// Whether accumulators of a lane's own are folded into.
    folds_inside: bool,
    /// Whether functions are called, which leave no register alone.
    calls: bool,
    /// Whether a loop inside gains more from lanes.
    better_inside: bool,
}

impl<'a> Survey<'a> {
    fn block(&mut self, body: &'a [Stmt]) {
        for stmt in body {
            self.statements += 1;
            stmt.accesses(&mut |a| self.access(a));
            match stmt {
                Stmt::Nest { body } => self.block(body),
                // Lanes go the same way and as often.
                Stmt::For { extent: Extent::Scalar(_), .. }
                | Stmt::While { .. }
                | Stmt::If { .. }
                | Stmt::Contract(_)
                | Stmt::Call(_)
                | Stmt::Probe { .. } => self.legal = false,
                Stmt::For { index, extent: Extent::Constant(extent), carries, body, .. } => {
                    self.legal &= carries.is_empty();
                    self.inside.push((*index, *extent));
                    let before = self.gain;
                    self.block(body);
                    let here = self.gain - before;
                    self.better_inside |=
                        *extent >= SMALL && plan(self.p, stmt).is_some_and(|p| p.gain >= here);
                }
                Stmt::Let { value, expr } => {
                    self.dtype(self.p.scalars[*value]);
                    stmt.args(&mut |a| self.arg(a));
                    if let Expr::Code(code, args) = expr
                        && let Some(last) = args.last()
                    {
                        self.code(*code, self.p.dtype(*last));
                    }
                }
                Stmt::Var { var, init } => {
                    self.dtype(self.p.vars[*var]);
                    self.declared.push(*var);
                    self.arg(*init);
                }
                Stmt::Set { var, value } => {
                    self.arg(*value);
                    // Outside the loop it would carry a value from one iteration to the next.
                    self.legal &= self.declared.contains(var);
                }
                Stmt::Fold { var, code, value } => {
                    self.arg(*value);
                    let dtype = self.p.vars[*var];
                    self.dtype(dtype);
                    self.code(*code, dtype);
                    if self.declared.contains(var) {
                        self.folds_inside |= !self.inside.is_empty();
                        continue;
                    }
                    self.legal &= identity(*code, dtype).is_some();
                    match self.folds.iter().find(|(v, _)| v == var) {
                        None => self.folds.push((*var, *code)),
                        Some((_, other)) => {
                            self.legal &= other.row().name == code.row().name;
                        }
                    }
                }
                Stmt::Store { .. } => stmt.args(&mut |a| self.arg(a)),
            }
        }
    }

    fn dtype(&mut self, dtype: Dtype) {
        self.narrow |= dtype == Dtype::F32;
    }

    fn arg(&mut self, arg: Arg) {
        if let Arg::Var(v) = arg
            && !self.declared.contains(&v)
        {
            self.read.push(v);
        }
    }

    fn code(&mut self, code: Code, dtype: Dtype) {
        let called = code.called(dtype).is_some();
        self.calls |= called;
        self.gain += match code.row().gives {
            // Calls take vectors apart; the call itself costs more than that.
            _ if called => 0,
            Gives::Dtype(_) => -1,
            Gives::Same | Gives::Truth if dtype.is_float() => 2,
            Gives::Same | Gives::Truth => 0,
        };
    }

    fn access(&mut self, access: Access<'a>) {
        let dtype = self.p.buffers[access.buffer].ty.dtype;
        let anywhere = access.address.dynamic.is_some() || access.guard.is_some();
        self.gain += match access.address.stride(self.index) {
            _ if anywhere || !dtype.is_float() => -1,
            0 if access.write => -1,
            0 => 0,
            1 => 2,
            _ => -1,
        };
        self.accesses.push(access);
    }

    /// Whether no iteration touches what another of the same `width` writes.
    fn independent(&self, width: usize) -> bool {
        /// Comparisons worth the time that they take to compile; no real body comes near.
        const MOST: usize = 1 << 22;
        let stores = self.accesses.iter().filter(|a| a.write).count();
        if stores.saturating_mul(self.accesses.len()) > MOST {
            return false;
        }
        self.accesses.iter().enumerate().filter(|(_, a)| a.write).all(|(i, store)| {
            self.accesses.iter().enumerate().all(|(k, other)| {
                match overlap(self.p, store.buffer, other.buffer) {
                    Overlap::None => true,
                    Overlap::Unknown => false,
                    Overlap::Same => self.apart(store, other, i == k, width),
                }
            })
        })
    }

    /// Whether two accesses of one array never meet in different lanes.
    fn apart(&self, store: &Access<'_>, other: &Access<'_>, itself: bool, width: usize) -> bool {
        if store.address.dynamic.is_some() || other.address.dynamic.is_some() {
            // One statement writes its lanes in order, so it may meet itself.
            return itself && self.inside.is_empty();
        }
        let Some((step, between, reach)) = distance(store, other, self.index, &self.inside) else {
            return false;
        };
        if step == 0 {
            return false;
        }
        if reach > 0 {
            // Each lane has a range of its own.
            return step.abs() > reach + between.abs();
        }
        between == 0 || between % step != 0 || (between / step).abs() >= width as i128
    }
}
