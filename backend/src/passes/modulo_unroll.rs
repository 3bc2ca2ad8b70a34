//! Modulo unrolling (Barua, Lee, Amarasinghe, Agarwal, 1999): a loop whose index is divided by a small constant is
//! unrolled by this constant, so that each copy of the body has one remainder.
//!
//! If arrays are interleaved (the gradient of a strided convolution or of a pooling, a `reshape` after a `stack`, a
//! `repeat`), an element is chosen by the remainder of its index. In a copy of the body the remainder is a constant and
//! the quotient is the index of the new loop:
//!
//! ```text
//! for i0 in 100 {                          for i1 in 50 {
//!   %0: i64 = div i0, 2                      %6: f64 = load b0[i1]
//!   %1: i64 = rem i0, 2                      store b2[i1*2], %6
//!   %2: bool = lt %1, 1             ->       %7: f64 = load b1[i1]
//!   %3: f64 = load b0[(%0)] if %2            store b2[i1*2 + 1], %7
//!   %4: f64 = load b1[(%0)] if not %2      }
//!   %5: f64 = select %2, %3, %4
//!   store b2[i0], %5
//! }
//! ```
//!
//! This pass makes the copies. [`simplify_indices`](super::simplify_indices) computes quotients and remainders and
//! removes what they decide. Iterations keep their order, so results are bit-identical.

use super::index_set_split::{copies, size};
use super::pass::{Invariant, Pass, Run};
use super::unroll::{may, parts};
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{Arg, Expr, IndexId, Kernel, Parallelism, ScalarId, Stmt, visit};
use cranelift_entity::EntitySet;
use tapeloom_ir::Code;
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "modulo_unroll",
    about: "loops whose index is divided by a small constant are unrolled by it",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, _| modulo_unroll(kernel)),
};

/// The largest divisor by which a loop is unrolled.
const MOST_COPIES: u64 = 8;
/// The largest number of statements of an unrolled loop.
const MOST_STATEMENTS: usize = 2_000;

/// Unrolls the loops of a kernel whose index is divided by a constant. Returns whether the kernel changed.
fn modulo_unroll(kernel: &mut Kernel) -> bool {
    let mut changed = false;
    for step in std::mem::take(&mut kernel.body) {
        // Reports refer to top-level statements by position, so the replacement must be one statement (a nest).
        let origins = step.own_origins();
        let nested = step.is_nested();
        let mut unrolled = false;
        let parts = block(kernel, vec![step], &mut unrolled);
        changed |= unrolled || !nested;
        kernel.body.push(Stmt::nest(parts, origins));
    }
    changed
}

/// Returns the statements with their loops unrolled, inner loops first. Sets `changed` if a loop was unrolled.
fn block(kernel: &mut Kernel, body: Vec<Stmt>, changed: &mut bool) -> Vec<Stmt> {
    let mut out = Vec::with_capacity(body.len());
    for mut stmt in body {
        for inside in stmt.blocks_mut() {
            *inside = block(kernel, std::mem::take(inside), changed);
        }
        let found = stmt.counted().and_then(|found| Some((found, copies_of(found)?)));
        let Some((found, by)) = found else {
            out.push(stmt);
            continue;
        };
        *changed = true;
        for ranges in parts(found.extent as i64, by as i64, false) {
            copies(kernel, found, None, &ranges, &mut out);
        }
    }
    out
}

/// Returns the divisor by which a loop is unrolled; `None` if it is not unrolled.
fn copies_of(found: Loop<'_>) -> Option<u64> {
    let by = divisor(found.body, found.index)?;
    // The pass `vectorize` decides how a fold is split into partial values.
    let fits = found.parallelism != Parallelism::Fold
        && size(found.body).saturating_mul(by as usize) <= MOST_STATEMENTS
        && may(found, by);
    fits.then_some(by)
}

/// Returns the largest constant from 2 to `MOST_COPIES` by which a block divides the sum of `index` and a constant.
fn divisor(body: &[Stmt], index: IndexId) -> Option<u64> {
    let mut sums: EntitySet<ScalarId> = EntitySet::new();
    let mut found = None;
    visit(body, &mut |stmt| {
        let Stmt::Let { value, expr: Expr::Code(code, args) } = stmt else { return };
        let (x, number) = match args[..] {
            [x, Arg::Literal(number)] => (x, number),
            [Arg::Literal(number), x] if matches!(code, Code::Add) => (x, number),
            _ => return,
        };
        let counts = match x {
            Arg::Index(i) => i == index,
            Arg::Scalar(s) => sums.contains(s),
            Arg::Var(_) | Arg::Literal(_) => false,
        };
        match code {
            Code::Add | Code::Sub if counts => _ = sums.insert(*value),
            Code::Div | Code::Rem if counts => {
                let by = Some(number.bits).filter(|by| (2..=MOST_COPIES).contains(by));
                found = found.max(by);
            }
            _ => {}
        }
    });
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::modulo_unroll;
    use crate::loop_ir::{eval, parse, verify};
    use tapeloom_ir::Tensor;

    /// Returns the program after the pass. Checks that it is valid and computes the same results.
    fn unrolled(extent: usize, body: &str) -> String {
        let text = format!(
            "program @x {{ buffer b0: f64[9] input 0 buffer b1: f64[9] input 1
               buffer b2: f64[{extent}] output 0 for i0 in {extent} {{ {body} }} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        assert_eq!(verify(&program), []);
        let args = [(0..9).map(f64::from).collect::<Tensor>(), (10..19).map(f64::from).collect()];
        let want = eval(&program, &args).unwrap();
        program.kernels_mut().for_each(|kernel| _ = modulo_unroll(kernel));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &args).unwrap(), want, "{program}");
        program.to_string()
    }

    #[test]
    fn a_loop_is_unrolled_by_its_divisor_at_every_extent() {
        for (extent, by) in (1..9).flat_map(|extent| (2..5).map(move |by| (extent, by))) {
            let text = unrolled(
                extent,
                &format!(
                    "%0: i64 = add i0, 1 %1: i64 = div %0, {by} %2: i64 = rem %0, {by}
                       %3: bool = lt %2, 1 %4: f64 = load b0[(%1)] %5: f64 = load b1[(%1)]
                       %6: f64 = select %3, %4, %5 store b2[i0], %6"
                ),
            );
            let stores = by.min(extent) + if extent > by { extent % by } else { 0 }.min(1);
            assert_eq!(text.matches("store").count(), stores, "{text}");
        }
    }

    #[test]
    fn other_loops_stay() {
        for body in [
            "%0: i64 = div i0, 9 %1: f64 = load b0[(%0)] store b2[i0], %1",
            "%0: i64 = mul i0, 2 %1: i64 = rem %0, 3 %2: f64 = load b0[(%1)] store b2[i0], %2",
            "%0: i64 = add i0, 1 %1: f64 = load b0[i0 + 1] store b2[i0], %1",
        ] {
            assert_eq!(unrolled(8, body).matches("store").count(), 1);
        }
    }
}
