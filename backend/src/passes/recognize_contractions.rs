//! Contraction recognition: loops that multiply thin matrices become contractions. Lowering may have fused such
//! products with other loops.
//!
//! A vector times a matrix, a few rows times a matrix, or an outer product that is added to a matrix is a nest of two
//! loops around a multiplication. Such loops use each loaded element once. Cranelift offers vectors of 128 bits for
//! them; hand-written functions (`runtime/small_gemm`) use larger vectors. So a nest of two loops that only computes
//! products becomes contractions. The sums of these contractions have the number of lanes that the loops would have
//! had:
//!
//! ```text
//! for i0 in 32 {                                          contract f64 1 x 32 x 32 lanes 1:
//!   store b2[i0], 0.0                                       b2[0; 0, 1] = b0[0; 0, 1] * b1[0; 32, 1]
//! }
//! serial i1 in 32 {                                     ->
//!   %0: f64 = load b0[i1]
//!   for i2 in 32 {
//!     %1: f64 = load b1[i1*32 + i2]
//!     %2: f64 = mul %0, %1
//!     %3: f64 = load b2[i2]
//!     %4: f64 = add %3, %2
//!     store b2[i2], %4
//!   }
//! }
//! ```
//!
//! `nest.rs` finds the products and sums, and `contract.rs` builds the contractions.
//!
//! Rounding does not change: the same products are added in the same order, or in the order of a fold in lanes. If a
//! loop surrounds a single product, the loop becomes a dimension of the product. If a loop also does something else
//! with the product, it is split first (`fission.rs`). Loops remain loops if they are too small to be worth a call, or
//! if the hand-written functions would have no vector form for them.
//!
//! The simulated accelerator does not run this pass.

mod contract;
mod fission;
mod nest;
#[cfg(test)]
mod tests;

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{Contract, Kernel, Parallelism, Stmt, Sums};
use fission::{SplitLoop, distributed};
use nest::{Nest, plain};
use std::collections::BTreeSet;
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "recognize_contractions",
    about: "loops that compute products of thin matrices become contractions",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Reassociates,
    run: Run::Kernels(|kernel, _| recognize_contractions(kernel)),
};

// These numbers are not in the machine model, because they must be equal on all machines: whether a loop becomes a
// contraction, and with how many lanes, determines the bits of its result.

/// The smallest number of multiplications for which a contraction is worth a call.
const LEAST: usize = 64;

/// The smallest number of adjacent columns (or adjacent rows, if rows are adjacent in memory) for which a contraction
/// is worth a call.
const NARROWEST: usize = 4;

/// The largest distance, in statements, between a product and the earlier statement that stores zeros to its result.
const NEAR: usize = 8;

/// The number of bytes of a contraction's partial sums: a vector of 512 bits.
const SUMS_BYTES: usize = 64;

/// Replaces the loops of a kernel that are products by contractions. Returns whether there were any.
pub(super) fn recognize_contractions(kernel: &mut Kernel) -> bool {
    kernel.rewrite(block)
}

fn block(k: &mut Kernel, body: &mut Vec<Stmt>) -> bool {
    let mut changed = false;
    for mut stmt in std::mem::take(body) {
        let Some(found) = NestReplacement::of(k, &stmt, body)
            .or_else(|| NestReplacement::after_fission(k, &stmt, body))
        else {
            stmt.blocks_mut().into_iter().for_each(|inside| changed |= block(k, inside));
            let extended = extend_by_loop(&stmt).map(Stmt::Contract);
            changed |= extended.is_some();
            body.push(extended.unwrap_or(stmt));
            continue;
        };
        for at in found.fills.into_iter().rev() {
            body.remove(at);
        }
        body.extend(found.stmts);
        changed = true;
    }
    changed
}

/// The statements that replace a nest of two loops.
#[derive(Default)]
struct NestReplacement {
    /// The positions of the preceding statements that store zeros to the results, ascending. These statements are
    /// removed.
    fills: BTreeSet<usize>,
    stmts: Vec<Stmt>,
}

impl NestReplacement {
    /// Returns the contractions that a nest equals; `before` holds the statements ahead of it.
    fn of(k: &Kernel, stmt: &Stmt, before: &[Stmt]) -> Option<NestReplacement> {
        Nest::of(k, stmt)?.contractions(before)
    }

    /// Splits a loop into a sequence of loops: one for each inner loop and one for the statements between inner loops.
    /// Returns the resulting statements if all inner loops become contractions. `before` holds the statements ahead of
    /// the loop.
    fn after_fission(k: &mut Kernel, stmt: &Stmt, before: &[Stmt]) -> Option<NestReplacement> {
        let mut found = NestReplacement::default();
        for SplitLoop { stmt, is_product } in distributed(k, stmt)? {
            if is_product {
                let product = NestReplacement::of(k, &stmt, before)?;
                found.fills.extend(product.fills);
                found.stmts.extend(product.stmts);
            } else {
                found.stmts.push(stmt);
            }
        }
        Some(found)
    }
}

/// If a loop contains only a contraction, returns one contraction for the whole loop, with more rows, more columns or
/// another batch dimension.
fn extend_by_loop(stmt: &Stmt) -> Option<Contract> {
    let Loop { index, extent, parallelism, body: [Stmt::Contract(c)], origins, .. } = plain(stmt)?
    else {
        return None;
    };
    if c.sums == Sums::Library {
        return None;
    }
    let mut c = Contract { origins: origins.united(&c.origins), ..c.clone() };
    let mut strides = [0; 3];
    for (stride, matrix) in strides.iter_mut().zip([&mut c.lhs, &mut c.rhs, &mut c.out]) {
        *stride = matrix.at.stride(index);
        matrix.at.terms.retain(|(i, _)| *i != index);
    }
    let [lhs, rhs, out] = strides;
    let more = c.batch.is_empty() && parallelism == Parallelism::Parallel;
    if more && c.m == 1 && rhs == 0 {
        (c.m, c.lhs.row, c.out.row) = (extent, lhs, out);
    } else if more && c.n == 1 && lhs == 0 {
        (c.n, c.rhs.column, c.out.column) = (extent, rhs, out);
    } else if out == 0 && !c.accumulate {
        // Each iteration overwrites the result of the previous one, but iterations of a batch loop would be added.
        return None;
    } else {
        c.batch.insert(0, (extent, lhs, rhs, out));
    }
    Some(c)
}
