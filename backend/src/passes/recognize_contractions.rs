//! Products of thin matrices, which the scheduler leaves as loops that fuse with others, as contractions.
//!
//! A vector times a matrix, a few rows times a matrix, or an outer product that is added to a matrix are two
//! loops around a multiplication. In those every element that is loaded is used once, and what the code
//! generator has are vectors of 128 bits; functions written for it have wider ones (`runtime/small_gemm`). So
//! a nest of two loops in which nothing happens but products becomes as many contractions, whose sums have as
//! many lanes as the loops would have had:
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
//! What is multiplied and added up is found in `nest.rs`, the contractions are written in `contract.rs`.
//!
//! Nothing is rounded otherwise: the same products are added in the same order, or in that of a fold in lanes.
//! Loops with one product inside go into it, and from those that do something else with it, too, it is taken
//! apart (`fission.rs`). Contractions that the functions would do element by element stay
//! loops, and so do those that are too small for a call.
//!
//! The simulated accelerator runs loops as they are written.

mod contract;
mod fission;
mod nest;
#[cfg(test)]
mod tests;

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{Contract, Kernel, Parallelism, Stmt, Sums};
use fission::{Alone, distributed};
use nest::{Nest, plain};
use std::collections::BTreeSet;
use tapeloom_ir::prim::Exactness;

/// The pass as a row.
pub(super) const PASS: Pass = Pass {
    name: "recognize_contractions",
    about: "loops that are products of thin matrices are contractions",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Reassociates,
    run: Run::Kernels(|kernel, _| recognize_contractions(kernel)),
};

// None of these numbers is one of a machine model: whether a loop is a contraction, and in how many lanes, is what it
// computes, in every bit.

/// Products with fewer multiplications are not worth a call,
const LEAST: usize = 64;

/// nor are those with fewer columns, or terms, side by side.
const NARROWEST: usize = 4;

/// What they sum up in was cleared so few statements before.
const NEAR: usize = 8;

/// Bytes of the partial sums of a contraction: a vector of 512 bits.
const SUMS_BYTES: usize = 64;

/// Makes contractions of the loops of a program that are products.
pub(super) fn recognize_contractions(kernel: &mut Kernel) {
    kernel.rewrite(block);
}

fn block(k: &mut Kernel, body: &mut Vec<Stmt>) {
    for mut stmt in std::mem::take(body) {
        let Some(found) = Found::of(k, &stmt, body).or_else(|| Found::apart(k, &stmt, body)) else {
            stmt.blocks_mut().into_iter().for_each(|inside| block(k, inside));
            body.push(around(&stmt).map_or(stmt, Stmt::Contract));
            continue;
        };
        for at in found.fills.into_iter().rev() {
            body.remove(at);
        }
        body.extend(found.stmts);
    }
}

/// What a nest becomes.
#[derive(Default)]
struct Found {
    /// Which statements before it clear what it sums up in, in order.
    fills: BTreeSet<usize>,
    stmts: Vec<Stmt>,
}

impl Found {
    /// The contractions that a nest is; `before` are the statements ahead of it.
    fn of(k: &Kernel, stmt: &Stmt, before: &[Stmt]) -> Option<Found> {
        Nest::of(k, stmt)?.contractions(before)
    }

    /// The contractions among what a loop becomes where each inner one is alone, if all of those are.
    fn apart(k: &mut Kernel, stmt: &Stmt, before: &[Stmt]) -> Option<Found> {
        let mut found = Found::default();
        for Alone { stmt, is_product } in distributed(k, stmt)? {
            if is_product {
                let product = Found::of(k, &stmt, before)?;
                found.fills.extend(product.fills);
                found.stmts.extend(product.stmts);
            } else {
                found.stmts.push(stmt);
            }
        }
        Some(found)
    }
}

/// A loop with one product inside, as one: more rows or columns, or a batch.
fn around(stmt: &Stmt) -> Option<Contract> {
    let Loop { index, extent, parallelism, body: [Stmt::Contract(c)], .. } = plain(stmt)? else {
        return None;
    };
    if c.sums == Sums::Library {
        return None;
    }
    let mut c = c.clone();
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
        // Each iteration overwrites what the one before it left, and those of a batch would add to it.
        return None;
    } else {
        c.batch.insert(0, (extent, lhs, rhs, out));
    }
    Some(c)
}
