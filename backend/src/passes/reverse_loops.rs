//! Loop reversal: parallel loops with descending addresses count upwards.
//!
//! The reverse pass reads from last to first the elements that the forward pass wrote from first to last, so its
//! counter ascends while its addresses descend. If iterations are independent, their order does not matter, and
//! only ascending addresses can be loaded as vectors:
//!
//! ```text
//! for i0 in 100 {                               for i0 in 100 {
//!   %0: f64 = load b0[i0*-1 + 99]        ->       %0: f64 = load b0[i0]
//!   store b1[i0*-1 + 99], %0                      store b1[i0], %0
//! }                                             }
//! ```
//!
//! The simulated accelerator does not run this pass: its streams read the last written element first.

use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::{
    Address, Arg, BufferVersion, Extent, IndexId, Kernel, Parallelism, Rewriter, Stmt, visit,
};
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "reverse_loops",
    about: "loops with independent iterations that count down are made to count up",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, _| reverse_loops(kernel)),
};

/// Reverses the parallel loops of a kernel whose addresses descend, if their index occurs only in addresses. Returns
/// whether there were any.
fn reverse_loops(kernel: &mut Kernel) -> bool {
    block(&mut kernel.body)
}

fn block(body: &mut [Stmt]) -> bool {
    let mut changed = false;
    for stmt in body {
        if let Stmt::For {
            index,
            extent: Extent::Constant(n),
            parallelism: Parallelism::Parallel,
            body: inside,
            ..
        } = stmt
            && downward(*index, inside)
        {
            let mut reversal = Reversal { index: *index, last: *n as i64 - 1, counted: false };
            let reversed = reversal.block(inside);
            if !reversal.counted {
                *inside = reversed;
                changed = true;
            }
        }
        stmt.blocks_mut().into_iter().for_each(|inside| changed |= block(inside));
    }
    changed
}

/// Returns whether, as an index counts up, more accesses have descending addresses than ascending ones.
pub(super) fn downward(index: IndexId, body: &[Stmt]) -> bool {
    let mut up = 0;
    visit(body, &mut |stmt| stmt.accesses(&mut |a| up += a.address.stride(index).signum()));
    up < 0
}

/// A rewriter that reverses the direction of an index in addresses.
struct Reversal {
    index: IndexId,
    last: i64,
    /// Whether the index is read outside of addresses, so that the loop cannot be reversed.
    counted: bool,
}

impl Rewriter for Reversal {
    fn arg(&mut self, arg: Arg) -> Arg {
        self.counted |= matches!(arg, Arg::Index(i) if i == self.index);
        arg
    }

    fn element(&mut self, held: BufferVersion, address: &Address) -> (BufferVersion, Address) {
        let mut address = address.clone();
        for (index, stride) in &mut address.terms {
            if *index == self.index {
                address.offset = address.offset.wrapping_add(stride.wrapping_mul(self.last));
                *stride = stride.wrapping_neg();
            }
        }
        (held, address)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::reverse_loops;
    use crate::loop_ir::{eval, parse, verify};
    use tapeloom_ir::Tensor;

    fn reversed(body: &str) -> String {
        let text =
            format!("program @x {{ buffer b0: f64[4] input 0 buffer b1: f64[4] output 0 {body} }}");
        let mut program = parse(&text, &|_| None).unwrap();
        let x = [Tensor::from([1.0, 2.0, 3.0, 4.0])];
        let want = eval(&program, &x).unwrap();
        program.kernels_mut().for_each(|kernel| _ = reverse_loops(kernel));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        program.to_string()
    }

    #[test]
    fn independent_iterations_go_up() {
        let text = reversed(
            "for i0 in 4 { %0: f64 = load b0[i0*-1 + 3] %1: f64 = add %0, 1.0 store b1[i0*-1 + 3], %1 }",
        );
        assert!(text.contains("load b0[i0]") && text.contains("store b1[i0]"), "{text}");
    }

    /// A loop of one iteration may have any stride: the computation must not overflow for extreme strides.
    #[test]
    fn strides_at_the_end_of_the_range() {
        for stride in [i64::MIN, i64::MIN + 1] {
            reversed(&format!(
                "for i0 in 4 {{ for i1 in 1 {{ store b1[i0 + i1*{stride}], 2.0 }} }}"
            ));
        }
    }

    #[test]
    fn iterations_in_order_and_numbers_stay() {
        for body in [
            "nest { store b1[3], 0.0 } serial i0 in 3 { %0: f64 = load b1[i0*-1 + 3] store b1[i0*-1 + 2], %0 }",
            "for i0 in 4 { %0: f64 = convert{to=f64} i0 store b1[i0*-1 + 3], %0 }",
        ] {
            assert!(reversed(body).contains("i0*-1"));
        }
    }
}
