//! Zeros that are there already: a large result begins as new memory, which the system has cleared.
//!
//! ```text
//! buffer b1: f64[4,8192] output 0              buffer b1: f64[4,8192] output 0
//! for i0 in 32768 { store b1[i0], 0.0 }   ->
//! for i1 in 8192 { .. adds to b1 .. }          for i1 in 8192 { .. adds to b1 .. }
//! ```
//!
//! It is how every sum over the iterations of a loop begins, and storing zeros takes as long as the system took. It
//! goes only on the way to machine code: text, interpreters and proofs have every store, and what is left then does
//! not fill the result, which is why the caller clears it: new memory is clear already, and memory
//! that was given back and is used again is cleared at once.

use super::pass::{Invariant, Pass};
use crate::loop_ir::{Arg, Kernel, Program, Stmt};
use std::collections::BTreeSet;
use tapeloom_ir::LARGE_BYTES;
use tapeloom_ir::prim::Exactness;

/// The pass as a row.
pub(super) const PASS: Pass = Pass {
    name: "elide_zero_fill",
    about: "zeros that a large result begins with are not stored, since its memory is new",
    requires: Invariant::Form,
    ensures: Some(Invariant::ZeroFilled),
    exactness: Exactness::Exact,
    run: |program, _| {
        elide_zero_fill(program);
        Ok(())
    },
};

/// Leaves out of a program what its caller has done, who clears what it does not fill.
fn elide_zero_fill(program: &mut Program) {
    let mut steps = std::mem::take(&mut program.entry.body);
    without(&program.entry, &mut steps, &mut BTreeSet::new());
    program.entry.body = steps;
}

/// Leaves out loops that store zeros where nothing has been, and nothing else. What is in a loop runs again and again,
/// so only what stands in none is looked at. `touched` are the results, by number, that something before has touched.
fn without(kernel: &Kernel, steps: &mut Vec<Stmt>, touched: &mut BTreeSet<usize>) {
    steps.retain_mut(|step| {
        if let Stmt::Nest { body } = step {
            without(kernel, body, touched);
            return !body.is_empty();
        }
        let clears = clears(kernel, step, touched);
        if !clears {
            touch(kernel, step, touched);
        }
        !clears
    });
}

/// Whether a statement only stores zeros to large results that are new. Of smaller ones the caller would clear as the
/// program does, by writing.
fn clears(kernel: &Kernel, stmt: &Stmt, touched: &BTreeSet<usize>) -> bool {
    match stmt {
        Stmt::Nest { body } => body.iter().all(|s| clears(kernel, s, touched)),
        Stmt::For { carries, body, .. } => {
            carries.is_empty() && body.iter().all(|s| clears(kernel, s, touched))
        }
        Stmt::Store { buffer, value: Arg::Literal(zero), .. } => {
            let of = &kernel.buffers[*buffer];
            let new = of.place.output().is_some_and(|n| !touched.contains(&n));
            zero.bits == 0 && new && of.ty.bytes() >= LARGE_BYTES
        }
        _ => false,
    }
}

fn touch(kernel: &Kernel, stmt: &Stmt, touched: &mut BTreeSet<usize>) {
    let mut meets = |buffer| touched.extend(kernel.buffers[buffer].place.output());
    stmt.accesses(&mut |access| meets(access.buffer));
    for carry in stmt.carries() {
        meets(carry.now.buffer);
        meets(carry.next.buffer);
    }
    for block in stmt.blocks() {
        block.iter().for_each(|s| touch(kernel, s, touched));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::Executable;
    use crate::loop_ir::{filled, parse};
    use tapeloom_ir::Tensor;

    /// What is left of a program on a large result that begins with these statements.
    fn left(steps: &str) -> (String, Vec<bool>) {
        let text = format!(
            "program @p {{\n  buffer b0: f64[524288] output 0\n  buffer b1: f64[8] output 1\n  \
             buffer b2: f64[524288] input 0\n{steps}{OTHER}}}\n"
        );
        let program = parse(&text, &|_| None).unwrap();
        let mut cleared = program.clone();
        super::elide_zero_fill(&mut cleared);
        let x = Tensor::full(&[1 << 19], 2.0).unwrap();
        let got = Executable::new(&program).unwrap().call(&[&x]).unwrap();
        assert_eq!(got, crate::loop_ir::eval(&program, &[x]).unwrap());
        let all = cleared.to_string();
        let steps = all.lines().skip_while(|l| l.contains("program") || l.contains("buffer"));
        let steps = steps.map(|l| format!("{l}\n")).collect::<String>();
        (steps.replace(&format!("{OTHER}}}\n"), ""), filled(&cleared))
    }

    const OTHER: &str = "  for i9 in 8 {\n    store b1[i9], 1.0\n  }\n";
    const CLEARS: &str = "  for i0 in 524288 lanes 2 {\n    store b0[i0], 0.0\n  }\n";
    const ADDS: &str = "  for i1 in 524288 {\n    %0: f64 = load b0[i1]\n    %1: f64 = load b2[i1]\n    \
                        %2: f64 = add %0, %1\n    store b0[i1], %2\n  }\n";

    #[test]
    fn zeros_of_new_memory_are_not_stored() {
        let (steps, filled) = left(&format!("{CLEARS}{ADDS}"));
        assert_eq!((&steps[..], filled), (ADDS, vec![false, true]));
        // Nothing else, and a part of it.
        assert_eq!(left(CLEARS).0, "");
        let part = "  nest {\n    for i2 in 524287 {\n      store b0[i2], 0.0\n    }\n    store b0[524287], 1.0\n  }\n";
        let (steps, _) = left(part);
        assert_eq!(steps, "  nest {\n    store b0[524287], 1.0\n  }\n");
    }

    #[test]
    fn other_zeros_are_stored() {
        let minus = CLEARS.replace("0.0", "-0.0");
        let small = format!("  for i0 in 8 {{\n    store b1[i0], 0.0\n  }}\n{ADDS}");
        let late = format!("{ADDS}{CLEARS}");
        let again = format!("  for i3 in 2 {{\n{CLEARS}{ADDS}  }}\n").replace("i0", "i4");
        for kept in [&minus, &small, &late, &again] {
            let (steps, _) = left(kept);
            assert_eq!(steps.matches("store").count(), kept.matches("store").count(), "{steps}");
        }
    }
}
