//! Bounds clamping: an access without a proof that it stays within its buffer gets a clamped index.
//!
//! Machine code contains no unproved access. The search for proofs (`loop_ir/analysis/value_range.rs`) is bounded,
//! so it misses some. Lowering creates only accesses that are in bounds; if the search fails for such an access,
//! the program is not refused. The index is clamped between the first and the last element instead. That changes no
//! value at run time, and the verifier proves a clamped index at once.
//!
//! ```text
//!                                       %8: i64 = mul i0, 3
//!                                       %9: i64 = add %7, %8
//! %1: f64 = load b0[i0*3 + (%7)]   ->   %10: i64 = clamp 0, %9, 99
//!                                       %1: f64 = load b0[(%10)]
//! ```
//!
//! Kernels that do not come from lowering are refused instead of clamped ([`crate::loop_ir::verify`]).

use super::pass::{Choice, Invariant, Pass, Run};
use super::vectorize::vectorize;
use crate::loop_ir::verify::refused;
use crate::loop_ir::{
    Address, Arg, Expr, Kernel, KernelId, Program, ScalarId, Stmt, check, verify,
};
use std::collections::BTreeSet;
use tapeloom_ir::prim::Exactness;
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "clamp_bounds",
    about: "accesses that are not proved to stay within their buffer get clamped indices; lanes are chosen again for loops that this changes",
    requires: Invariant::Form,
    ensures: Some(Invariant::Proved),
    exactness: Exactness::Reassociates,
    run: Run::Program(|program, context| {
        context.clamped = clamp_bounds(program, context.choice)?;
        Ok(context.clamped > 0)
    }),
};

/// Verifies a program, and clamps the indices of loads and stores for which the verifier finds no proof that they stay
/// in bounds. Returns the number of clamped accesses.
///
/// # Errors
/// [`tapeloom_ir::Kind::Verify`] if the program violates any other rule of the verifier.
fn clamp_bounds(program: &mut Program, choice: Choice) -> Result<usize, Problem> {
    let errors = verify(program);
    let unproved: Option<BTreeSet<(Option<KernelId>, usize)>> =
        errors.iter().map(|e| Some((e.kernel, e.unproved?))).collect();
    let Some(unproved) = unproved.filter(|_| !errors.is_empty()) else {
        return refused(program, &errors).map(|()| 0);
    };
    let ids: Vec<Option<KernelId>> = program.callees.keys().map(Some).chain([None]).collect();
    for id in ids {
        let kernel = match id {
            Some(id) => &mut program.callees[id],
            None => &mut program.entry,
        };
        let unproved = |statement| unproved.contains(&(id, statement));
        kernel.rewrite(|kernel, body| block(kernel, body, &mut 0, &unproved));
    }
    // Clamping adds arithmetic that has no vector form, so choose again for all loops whether they run in vector lanes.
    program.kernels_mut().for_each(|kernel| _ = vectorize(kernel, choice));
    check(program)?;
    Ok(unproved.len())
}

/// Clamps the indices of those loads and stores in a block that are not proved to stay in bounds. `next` is
/// the number of the block's first statement within the kernel.
fn block(
    kernel: &mut Kernel,
    body: &mut Vec<Stmt>,
    next: &mut usize,
    unproved: &dyn Fn(usize) -> bool,
) {
    for mut stmt in std::mem::take(body) {
        if unproved(*next)
            && let Some(element) = stmt.shape_mut().element
        {
            let elements = kernel.buffers[element.held.buffer].ty.shape.elements();
            *element.address = inside(kernel, body, element.address, elements);
        }
        *next += 1;
        for inner in stmt.blocks_mut() {
            block(kernel, inner, next, unproved);
        }
        body.push(stmt);
    }
}

/// Returns the address `at`, clamped to the elements `0..elements` of its buffer. Appends the statements that compute
/// the clamped address to `body`.
fn inside(kernel: &mut Kernel, body: &mut Vec<Stmt>, at: &Address, elements: usize) -> Address {
    let number = |n: i64| Arg::Literal(Literal::i64(n));
    let mut emit = |code, args: Vec<Arg>| {
        let value: ScalarId = kernel.scalars.push(Dtype::I64);
        body.push(Stmt::Let { value, expr: Expr::Code(code, args) });
        Arg::Scalar(value)
    };
    let mut sum = number(at.offset);
    for (index, stride) in &at.terms {
        let term = emit(Code::Mul, vec![Arg::Index(*index), number(*stride)]);
        sum = emit(Code::Add, vec![sum, term]);
    }
    if let Some(dynamic) = at.dynamic {
        sum = emit(Code::Add, vec![sum, dynamic]);
    }
    let last = number(elements as i64 - 1);
    let dynamic = Some(emit(Code::Clamp, vec![number(0), sum, last]));
    Address { dynamic, ..Address::default() }
}
