//! Loop vectorization: chooses which loops run in lanes, and in how many.
//!
//! `loop_ir/legal_lanes.rs` defines what lanes mean and where they are legal. This pass discards earlier choices of
//! lanes and chooses again. Its thresholds are the same on all machines, because the bits of a result depend on them.
//!
//! A folding loop has a partial value for each element of two vectors of 512 bits, or of one vector if its body is
//! long. A loop that calls a function with an 8-lane version has eight lanes.
//!
//! Folds of integers and bools have lanes, too: their results are the same in any order. So `any` of a mask is computed
//! many elements at a time.
//!
//! Lanes are worth their cost if enough of the body has vector instructions. Any loop of a nest can be chosen. Usually
//! the innermost loop is chosen. For rows of three elements, it is the loop over the rows, whose body then contains
//! small loops.

use super::pass::{Choice, Invariant, Pass, Run};
use crate::loop_ir::legal_lanes::refused;
use crate::loop_ir::{Access, Assign, Extent, Flow, IndexId, Kernel, Stmt, VarId, visit};
use tapeloom_ir::math::EIGHT;
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::prim::ResultDtype;
use tapeloom_ir::{Code, Dtype};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "vectorize",
    about: "loops run in vector lanes where that pays",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Reassociates,
    run: Run::Kernels(|kernel, context| vectorize(kernel, context.choice)),
};

// These numbers are not part of the machine model: the number of partial sums of a loop determines the bits of its
// result.

/// The number of lanes of a 128-bit vector: `LANES_F64` if all variables have 64 bits, `LANES_F32` if some
/// have 32.
const LANES_F64: usize = 2;
const LANES_F32: usize = 4;

/// Rows of (statements, factor): a folding loop with at most this many statements in its body has `factor` times the
/// lanes of one 128-bit vector. Several partial values hide the latency of the additions; loops with longer bodies are
/// bound by instruction issue. The last row holds for all longer bodies.
type LaneFactors = &'static [(usize, usize)];

/// Lane factors for 512-bit code: two vectors if the body has at most 8 statements, and one vector otherwise.
const VECTOR_FACTORS: LaneFactors = &[(8, 8), (usize::MAX, 4)];

/// Lane factors for code without 512-bit vectors: loops around folding loops, and machines without vectors.
const SCALAR_FACTORS: LaneFactors = &[(8, 4), (24, 2), (usize::MAX, 1)];

/// The smallest trip count for which an inner loop gets lanes of its own.
const SMALL: usize = 8;

/// The gain of a fold of integers or bools: partial values are combined only after the loop, and their number does not
/// affect the result.
const FOLD: i64 = 4;

/// Chooses the lanes of every loop of a kernel. Returns whether the lanes of any loop changed.
pub(super) fn vectorize(kernel: &mut Kernel, choice: Choice) -> bool {
    let factors = if choice == Choice::Few { SCALAR_FACTORS } else { VECTOR_FACTORS };
    // A loop with lanes prevents lanes on the loops around it, so remove earlier choices first.
    let before = chosen(&kernel.body);
    reset(&mut kernel.body);
    kernel.rewrite(|kernel, body| block(kernel, factors, body));
    before != chosen(&kernel.body)
}

/// Returns the lanes of all loops of a block, in program order.
fn chosen(body: &[Stmt]) -> Vec<usize> {
    let mut all = Vec::new();
    visit(body, &mut |stmt| {
        if let Stmt::For { lanes, .. } = stmt {
            all.push(*lanes);
        }
    });
    all
}

fn reset(body: &mut [Stmt]) {
    for stmt in body {
        if let Stmt::For { lanes, .. } = stmt {
            *lanes = 1;
        }
        stmt.blocks_mut().into_iter().for_each(|inside| reset(inside));
    }
}

fn block(k: &Kernel, factors: LaneFactors, body: &mut [Stmt]) {
    for stmt in body {
        match (plan(k, factors, stmt), &mut *stmt) {
            (Some(plan), Stmt::For { lanes, .. }) => *lanes = plan.lanes,
            (_, other) => {
                other.blocks_mut().into_iter().for_each(|inside| block(k, factors, inside))
            }
        }
    }
}

/// The number of lanes chosen for a loop.
struct Plan {
    lanes: usize,
    /// The estimated number of scalar instructions that a pair of lanes saves.
    gain: i64,
}

/// Returns the lanes for a loop and the estimated gain; `None` if vectorization is not worth its cost.
fn plan(k: &Kernel, factors: LaneFactors, stmt: &Stmt) -> Option<Plan> {
    let Stmt::For { index, extent: Extent::Constant(extent), body, .. } = stmt else { return None };
    if *extent < 2 {
        return None;
    }
    let mut s = Survey {
        k,
        factors,
        index: *index,
        gain: 0,
        statements: 0,
        narrow: false,
        declared: Vec::new(),
        folds: false,
        folds_inside: false,
        inside: false,
        calls: false,
        inlined: false,
        better_inside: false,
    };
    s.block(body);
    if s.better_inside || s.gain <= 0 {
        return None;
    }
    let one = if s.narrow { LANES_F32 } else { LANES_F64 };
    let several = |factors: LaneFactors| {
        one * factors.iter().find(|(most, _)| s.statements <= *most).map_or(1, |t| t.1)
    };
    let calls = s.calls && !s.inlined;
    let most = match (s.folds, s.folds_inside) {
        (true, false) if !calls => several(factors),
        (true, _) | (_, true) if !s.calls => several(SCALAR_FACTORS),
        _ if s.inlined => EIGHT,
        _ => one,
    };
    let lanes = std::iter::successors(Some(most), |w| Some(w / 2)).find(|w| w <= extent)?;
    let legal = lanes >= one && refused(k, stmt, lanes).is_none();
    legal.then_some(Plan { lanes, gain: s.gain })
}

/// The costs and benefits of vectorizing a loop, collected from its body.
struct Survey<'a> {
    k: &'a Kernel,
    factors: LaneFactors,
    index: IndexId,
    /// The saved scalar instructions, less those that split and assemble vectors.
    gain: i64,
    statements: usize,
    /// Whether f32 occurs in the body: a 128-bit vector of f32 has four lanes.
    narrow: bool,
    declared: Vec<VarId>,
    /// Whether the loop folds into variables declared outside of it.
    folds: bool,
    /// Whether an inner loop folds into variables that this loop declares.
    folds_inside: bool,
    /// Whether the current statement is inside an inner loop.
    inside: bool,
    /// Whether the body calls functions. Calls preserve no vector register.
    calls: bool,
    /// Whether a library function in the body is inlined in vectors.
    inlined: bool,
    /// Whether an inner loop of at least `SMALL` iterations gains more from vectorization, so that the outer loop is
    /// not vectorized.
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
                    && plan(self.k, self.factors, stmt).is_some_and(|p| p.gain >= here);
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
                    if !own && !dtype.is_float() {
                        self.gain += FOLD;
                    }
                    self.folds |= !own;
                    self.folds_inside |= own && self.inside;
                }
                // Lanes of the outer loop run several of the inner loop's dependent chains side by side.
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
        let inlined = code.is_inlined_in_vectors(dtype);
        self.calls |= called;
        self.inlined |= inlined;
        self.gain += match code.row().gives {
            // The gain counts a pair of lanes: a quarter of the function's work for eight lanes.
            _ if inlined => i64::from(code.row().flops),
            // Any other function is called once per lane. The call itself costs more than extracting its argument from
            // a vector.
            _ if called => 0,
            ResultDtype::Dtype(_) => -1,
            ResultDtype::Same | ResultDtype::Truth if dtype.is_float() => 2,
            ResultDtype::Same | ResultDtype::Truth => 0,
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
