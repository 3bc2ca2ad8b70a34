//! Vectorization of loops: which ones run in lanes, and in how many.
//!
//! `loop_ir/legal_lanes.rs` says what lanes mean and where they are legal. The pass chooses,
//! whatever lanes there were before, for a program whose loops are as they will be; its numbers
//! are the same everywhere, since bits depend on them.
//!
//! A loop that folds has as many partial values as two vectors of 512 bits have elements, or as one has if its body is
//! long. A loop whose body calls a function that takes eight arguments at once has eight lanes.
//!
//! Lanes are worth it where enough of the body has vector instructions. Any loop of a nest can be the one:
//! usually the innermost, but for rows of three elements the loop over the rows, whose body then holds
//! small loops.

use super::pass::{Choice, Invariant, Pass, Run};
use crate::loop_ir::legal_lanes::refused;
use crate::loop_ir::{Access, Assign, Extent, Flow, IndexId, Kernel, Stmt, VarId};
use tapeloom_ir::math::EIGHT;
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::prim::Gives;
use tapeloom_ir::{Code, Dtype};

/// The pass as a row.
pub(super) const PASS: Pass = Pass {
    name: "vectorize",
    about: "loops that are worth it run in lanes",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Reassociates,
    run: Run::Kernels(|kernel, context| vectorize(kernel, context.choice)),
};

// None of these numbers is one of a machine model: how many partial sums a loop has is what it computes, in every bit.

/// Iterations side by side where each variable is of 64 bits, and where some are of 32.
const ONE: usize = 2;
const ONE_NARROW: usize = 4;

/// Several partial values hide the latency of adding, so that a loop that folds and has at most so many statements takes
/// that many times as many iterations side by side; what is longer is bound by issue. A row ends the list: longer ones.
type Times = &'static [(usize, usize)];

/// Two vectors of 512 bits, or one.
const TIMES: Times = &[(8, 8), (usize::MAX, 4)];

/// Of loops in which others fold, which no wide code takes, and of a machine without vectors.
const FEW: Times = &[(8, 4), (24, 2), (usize::MAX, 1)];

/// Loops inside with fewer iterations are not worth lanes of their own.
const SMALL: usize = 8;

/// Gives lanes to every loop of a program that should run in them.
pub(super) fn vectorize(kernel: &mut Kernel, choice: Choice) {
    let times = if choice == Choice::Few { FEW } else { TIMES };
    // Lanes inside forbid lanes outside, so those of an earlier choice would decide this one.
    reset(&mut kernel.body);
    kernel.rewrite(|kernel, body| block(kernel, times, body));
}

fn reset(body: &mut [Stmt]) {
    for stmt in body {
        if let Stmt::For { lanes, .. } = stmt {
            *lanes = 1;
        }
        stmt.blocks_mut().into_iter().for_each(|inside| reset(inside));
    }
}

fn block(k: &Kernel, times: Times, body: &mut [Stmt]) {
    for stmt in body {
        match (plan(k, times, stmt), &mut *stmt) {
            (Some(plan), Stmt::For { lanes, .. }) => *lanes = plan.lanes,
            (_, other) => other.blocks_mut().into_iter().for_each(|inside| block(k, times, inside)),
        }
    }
}

/// How to run a loop in lanes.
struct Plan {
    lanes: usize,
    /// About how many scalar instructions a pair of lanes saves.
    gain: i64,
}

/// Plans a loop, if it should run in lanes.
fn plan(k: &Kernel, times: Times, stmt: &Stmt) -> Option<Plan> {
    let Stmt::For { index, extent: Extent::Constant(extent), body, .. } = stmt else { return None };
    if *extent < 2 {
        return None;
    }
    let mut s = Survey {
        k,
        times,
        index: *index,
        gain: 0,
        statements: 0,
        narrow: false,
        declared: Vec::new(),
        folds: false,
        folds_inside: false,
        inside: false,
        calls: false,
        eights: false,
        better_inside: false,
    };
    s.block(body);
    if s.better_inside || s.gain <= 0 {
        return None;
    }
    let one = if s.narrow { ONE_NARROW } else { ONE };
    let several = |times: Times| {
        one * times.iter().find(|(most, _)| s.statements <= *most).map_or(1, |t| t.1)
    };
    let calls = s.calls && !s.eights;
    let most = match (s.folds, s.folds_inside) {
        (true, false) if !calls => several(times),
        (true, _) | (_, true) if !s.calls => several(FEW),
        _ if s.eights => EIGHT,
        _ => one,
    };
    let lanes = std::iter::successors(Some(most), |w| Some(w / 2)).find(|w| w <= extent)?;
    let legal = lanes >= one && refused(k, stmt, lanes).is_none();
    legal.then_some(Plan { lanes, gain: s.gain })
}

/// What speaks for lanes in a loop's body, and against them.
struct Survey<'a> {
    k: &'a Kernel,
    times: Times,
    index: IndexId,
    /// Vector instructions gained, less the work of taking vectors apart and together.
    gain: i64,
    statements: usize,
    /// Whether f32 occurs: its vectors have four lanes.
    narrow: bool,
    declared: Vec<VarId>,
    /// Whether variables from outside are folded into, and whether loops inside fold into a lane's own.
    folds: bool,
    folds_inside: bool,
    /// Whether a loop inside is around.
    inside: bool,
    /// Whether functions are called, which leave no register alone.
    calls: bool,
    /// Whether some of them take eight arguments at once.
    eights: bool,
    /// Whether a loop inside gains more from lanes.
    better_inside: bool,
}

impl Survey<'_> {
    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.statements += 1;
            stmt.accesses(&mut |a| self.access(&a));
            let (before, around) = (self.gain, self.inside);
            let shape = stmt.shape();
            self.inside |= matches!(shape.flow, Flow::For { .. });
            shape.blocks.iter().for_each(|b| self.block(b));
            self.inside = around;
            if let Flow::For { extent: Extent::Constant(extent), .. } = shape.flow {
                let here = self.gain - before;
                self.better_inside |= extent >= SMALL
                    && plan(self.k, self.times, stmt).is_some_and(|p| p.gain >= here);
            }
            if let Some(value) = shape.defines {
                self.dtype(self.k.scalars[value]);
                if let (Some(code), Some(last)) = (shape.code, shape.operands.last()) {
                    self.code(code, self.k.dtype(*last));
                }
            }
            match shape.assigns {
                Some((var, Assign::Declare)) => {
                    self.dtype(self.k.vars[var]);
                    self.declared.push(var);
                }
                Some((var, Assign::Fold(code))) => {
                    let dtype = self.k.vars[var];
                    self.dtype(dtype);
                    self.code(code, dtype);
                    let own = self.declared.contains(&var);
                    self.folds |= !own;
                    self.folds_inside |= own && self.inside;
                }
                // What waits for itself in a loop inside is better off with others beside it.
                Some((var, Assign::Set)) => {
                    self.folds_inside |= self.inside && self.declared.contains(&var);
                }
                None => {}
            }
        }
    }

    fn dtype(&mut self, dtype: Dtype) {
        self.narrow |= dtype == Dtype::F32;
    }

    fn code(&mut self, code: Code, dtype: Dtype) {
        let called = code.called(dtype).is_some();
        let eight = code.of_eight(dtype).is_some();
        self.calls |= called;
        self.eights |= eight;
        self.gain += match code.row().gives {
            // A pair is a quarter of such a call.
            _ if eight => i64::from(code.row().flops),
            // Calls take vectors apart; the call itself costs more than that.
            _ if called => 0,
            Gives::Dtype(_) => -1,
            Gives::Same | Gives::Truth if dtype.is_float() => 2,
            Gives::Same | Gives::Truth => 0,
        };
    }

    fn access(&mut self, access: &Access<'_>) {
        let dtype = self.k.buffers[access.held.buffer].ty.dtype;
        let anywhere = access.address.dynamic.is_some() || access.guard.is_some();
        self.gain += match access.address.stride(self.index) {
            _ if anywhere || !dtype.is_float() => -1,
            0 if access.write => -1,
            0 => 0,
            1 => 2,
            _ => -1,
        };
    }
}
