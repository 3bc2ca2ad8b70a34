//! Loop unrolling: several iterations of a loop become straight-line code.
//!
//! ```text
//! serial i0 in 10 {                        serial i1 in 2 {
//!   %0: f64 = load b0[i0]                    %1: f64 = load b0[i1*4]
//!   store b1[i0], %0            by 4 ->      store b1[i1*4], %1
//! }                                          ..                                  three times more
//!                                          }
//!                                          serial i2 in 2 {                      the remainder
//!                                            %5: f64 = load b0[i2 + 8]
//!                                            store b1[i2 + 8], %5
//!                                          }
//! ```
//!
//! The remainder follows the unrolled loop. If the addresses descend, the remainder precedes the unrolled loop: a
//! descending loop usually visits the elements of an ascending loop in reverse, and then both loops form the same
//! blocks of iterations. If the factor is at least the trip count, no loop is left.
//!
//! The simulated machine takes the address patterns of whole loops, so unrolling gains nothing there. Only the list
//! `STUDY` runs this pass, for comparisons with a compiler that unrolls
//! ([`RunConfig::unroll`](crate::accelerator::RunConfig)). Iterations keep their order, so results are bit-identical.

use super::index_set_split::{Range, copies, moves_cursor, size};
use super::pass::{Invariant, Pass, Run};
use super::reverse_loops::downward;
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{Carry, Kernel, Stmt, visit};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "unroll",
    about: "several iterations of a loop are written one after the other",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, context| unroll(kernel, &context.factors)),
};

/// The largest number of statements of an unrolled loop; larger loops are not unrolled.
const MOST_STATEMENTS: usize = 100_000;

/// Unrolls loops with constant trip counts: innermost loops by the first factor, the loops around them by the
/// second, and so on. Returns whether the kernel changed.
fn unroll(kernel: &mut Kernel, factors: &[u64]) -> bool {
    let mut changed = false;
    for step in std::mem::take(&mut kernel.body) {
        // Reports refer to top-level statements by position, so the replacement must be one statement (a nest).
        changed |= !step.is_nested();
        let origins = step.own_origins();
        let (step, _) = block(kernel, factors, vec![step], &mut changed);
        kernel.body.push(Stmt::nest(step, origins));
    }
    changed
}

/// Returns the statements with their loops unrolled, inner loops first, and how deep these loops are nested. Sets
/// `changed` if a loop was unrolled.
fn block(
    kernel: &mut Kernel,
    factors: &[u64],
    body: Vec<Stmt>,
    changed: &mut bool,
) -> (Vec<Stmt>, usize) {
    let (mut out, mut deepest) = (Vec::with_capacity(body.len()), 0);
    for mut stmt in body {
        let mut depth = 0;
        for inside in stmt.blocks_mut() {
            let (unrolled, within) = block(kernel, factors, std::mem::take(inside), changed);
            (*inside, depth) = (unrolled, depth.max(within));
        }
        let looped = stmt.shape().flow.is_loop();
        let factor = factors.get(depth).copied().unwrap_or(1);
        deepest = deepest.max(depth + usize::from(looped));
        let Some(found) = stmt.counted().filter(|found| may(*found, factor)) else {
            out.push(stmt);
            continue;
        };
        *changed = true;
        let down = downward(found.index, found.body);
        for ranges in parts(found.extent as i64, i64::try_from(factor).unwrap_or(i64::MAX), down) {
            copies(kernel, found, None, &ranges, &mut out);
        }
    }
    (out, deepest)
}

/// Returns whether a loop may be unrolled by `factor`, and the unrolled loop has at most `MOST_STATEMENTS` statements.
pub(super) fn may(found: Loop<'_>, factor: u64) -> bool {
    let Loop { extent: n, carries, body, .. } = found;
    let mut fits = found.lanes == 1 && (n == 1 || n > 1 && factor > 1) && !moves_cursor(body);
    // If a loop exchanges two carried buffers, their names are swapped in every second iteration, so copies of the body
    // would name the wrong buffer. The same holds for exchanges by an inner loop.
    fits &= carries.iter().all(|carry| carry.input.buffer == carry.output.buffer);
    visit(body, &mut |stmt| {
        fits &= !matches!(stmt, Stmt::Limit(_) | Stmt::Lap(_));
        let ours = |inner: &Carry| carries.iter().any(|c| c.input.buffer == inner.input.buffer);
        fits &= !stmt.carries().iter().any(ours);
    });
    let copies = usize::try_from(factor).unwrap_or(usize::MAX).min(n);
    fits && size(body).saturating_mul(copies) <= MOST_STATEMENTS
}

/// Returns the ranges of iterations of each new loop: the unrolled loop, with one range for each copy of the body, and
/// the remainder. If addresses descend (`down`), the remainder comes first.
pub(super) fn parts(iterations: i64, factor: i64, down: bool) -> Vec<Vec<Range>> {
    let by = factor.min(iterations);
    let rest = iterations % by;
    let first = if down && !planted(Fault::UnrolledRest) { rest } else { 0 };
    let blocks =
        (0..by).map(|n| Range { start: first + n, by, iterations: iterations / by }).collect();
    let remainder =
        Range { start: if down { 0 } else { iterations - rest }, by: 1, iterations: rest };
    match (rest, down) {
        (0, _) => vec![blocks],
        (_, true) => vec![vec![remainder], blocks],
        (_, false) => vec![blocks, vec![remainder]],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::unroll;
    use crate::loop_ir::{eval, parse, shadow, verify};
    use tapeloom_ir::Tensor;

    /// Returns the program unrolled by `factors`, innermost loops first. Checks that it is valid and computes the same
    /// results.
    fn unrolled(body: &str, factors: &[u64]) -> String {
        let text = format!(
            "program @x {{ buffer b0: f64[10] input 0 buffer b1: f64[10] output 0
               version b1.1 continues b1 buffer b2: f64[] output 1
               nest {{ store b2[0], 0.0 }} for i9 in 10 {{ store b1[i9], 0.5 }} {body} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        let x = [(0..10).map(|i| f64::from(i).sqrt()).collect::<Tensor>()];
        let want = shadow(&program, &x).unwrap();
        program.kernels_mut().for_each(|kernel| _ = unroll(kernel, factors));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(shadow(&program, &x).unwrap(), want, "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        program.to_string()
    }

    #[test]
    fn remainders_stand_where_a_loop_ends_in_memory() {
        let up = "serial i0 in 10 { %0: f64 = load b0[i0] store b1[i0], %0 }";
        let down = "serial i0 in 10 { %0: f64 = load b0[i0*-1 + 9] store b1[i0*-1 + 9], %0 }";
        let (up, down) = (unrolled(up, &[4]), unrolled(down, &[4]));
        assert!(up.contains("load b0[i13 + 8]"), "{up}");
        assert!(down.contains("load b0[i12*-1 + 9]"), "{down}");
        assert!(down.contains("load b0[i13*-4 + 4]"), "{down}");
    }

    #[test]
    fn a_loop_of_as_many_iterations_as_copies_is_none() {
        let body = "serial i0 in 10 { %0: f64 = load b0[i0] store b1[i0], %0 }";
        for factor in [10, 11, u64::MAX] {
            let text = unrolled(body, &[factor]);
            assert!(!text.contains("serial") && text.contains("load b0[9]"), "{text}");
        }
        assert!(unrolled(body, &[1]).contains("serial i0 in 10"));
        let once = "serial i0 in 1 { %0: f64 = load b0[i0] store b1[i0], %0 }";
        assert!(!unrolled(once, &[1]).contains("serial"));
    }

    #[test]
    fn factors_go_from_the_inner_loops_to_the_outer_ones() {
        let body = "serial i0 in 2 { serial i1 in 5 {
            %0: f64 = load b0[i0*5 + i1] store b1[i0*5 + i1], %0 } }";
        let inner = unrolled(body, &[5]);
        assert!(inner.contains("serial i0 in 2") && inner.contains("b0[i0*5 + 4]"), "{inner}");
        let outer = unrolled(body, &[1, 2]);
        assert!(!outer.contains("i0 in 2") && outer.contains(" + 5]"), "{outer}");
        assert!(!unrolled(body, &[5, 2]).contains("serial"));
    }

    /// Unrolling must not change the results of loops whose iterations depend on the previous one. The loops have
    /// variables, indices as values, comparisons of indices, and a carried buffer.
    #[test]
    fn iterations_stay_in_order() {
        for factor in [2, 3, 4, 7] {
            unrolled(
                "nest { var v0: f64 = 0.0 serial i0 in 10 { %0: f64 = convert{to=f64} i0
                   %1: f64 = load b0[i0] %2: f64 = mul %0, %1 %3: f64 = convert{to=f64} v0
                   %4: bool = eq i0, 5 %5: f64 = select %4, -1.0, %3 %6: f64 = add %5, %2 v0 = %6
                   store b1[i0], %6 } store b2[0], v0 }",
                &[factor],
            );
            unrolled(
                "serial i0 in 10 carry b1 = b1.1 { %0: f64 = load b1[0] %1: f64 = load b0[i0]
                   %2: f64 = add %0, %1 store b1.1[0], %2 }",
                &[factor],
            );
        }
    }
}
