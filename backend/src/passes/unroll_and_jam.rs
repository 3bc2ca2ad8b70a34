//! Unroll and jam (Allen and Cocke, 1971): several chains of dependent operations run side by side.
//!
//! ```text
//! serial i0 in 8 {                         serial i2 in 2 {
//!   var v0 = 0.0                             var v1 = 0.0    .. v4
//!   serial i1 in 100 {                       serial i3 in 100 {
//!     %0 = load b0[i0*100 + i1]     ->         %1 = load b0[i2*400 + i3]
//!     %1 = add v0, %0                          %2 = add v1, %1
//!     v0 = %1                                  v1 = %2
//!   }                                          ..                                    three times more
//!   store b1[i0], v0                         }
//! }                                          store b1[i2*4], v1    ..
//!                                          }
//! ```
//!
//! A sum is a chain of additions. Each addition waits three or four cycles for the previous one, while the machine
//! could start two in every cycle. Sums in different iterations of the outer loop are independent chains, so a few
//! outer iterations run through the inner loop together. Each chain keeps its order, so results are bit-identical.
//! The pass applies to loops with independent iterations that contain one inner loop, where all other code is
//! straight-line. Vectorized loops are excluded, since their lanes are independent chains already.

use super::index_set_split::{Range, copies, size};
use super::pass::{Invariant, Pass, Run};
use crate::loop_ir::analysis::dependence::{Dependence, memory, variables};
use crate::loop_ir::shape::Loop;
use crate::loop_ir::{Carry, Extent, Kernel, Parallelism, Stmt};
use crate::machine::MachineModel;
use std::collections::BTreeSet;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Exactness;

/// The entry of this pass in the table `super::PASSES`: its name, effect and requirements.
pub(super) const PASS: Pass = Pass {
    name: "unroll_and_jam",
    about: "several iterations of an outer loop run together in its sequential inner loop",
    requires: Invariant::Form,
    ensures: None,
    exactness: Exactness::Exact,
    run: Run::Kernels(|kernel, context| unroll_and_jam(kernel, &context.machine)),
};

/// The largest number of statements of all copies of the outer loop's body. It bounds the code size, since a loop
/// around a jammed loop may be jammed next.
const MOST_STATEMENTS: usize = 512;

/// Jams the outer loops of a kernel whose inner loops are chains of dependent operations. Returns whether the kernel
/// changed.
fn unroll_and_jam(kernel: &mut Kernel, machine: &MachineModel) -> bool {
    let mut changed = false;
    for step in std::mem::take(&mut kernel.body) {
        // Reports refer to top-level statements by position, so the replacement must be one statement (a nest).
        changed |= !step.is_nested();
        let origins = step.own_origins();
        let step = block(kernel, machine, vec![step], &mut changed);
        kernel.body.push(Stmt::nest(step, origins));
    }
    changed
}

/// Returns the statements with their loops jammed, inner loops first. Sets `changed` if a loop was jammed.
fn block(
    kernel: &mut Kernel,
    machine: &MachineModel,
    body: Vec<Stmt>,
    changed: &mut bool,
) -> Vec<Stmt> {
    let mut out = Vec::with_capacity(body.len());
    for mut stmt in body {
        for inside in stmt.blocks_mut() {
            *inside = block(kernel, machine, std::mem::take(inside), changed);
        }
        let Some(Chains { outer, inner, chains }) = Chains::of(kernel, machine, &stmt) else {
            out.push(stmt);
            continue;
        };
        *changed = true;
        let (by, blocks) = (chains as i64, (outer.extent / chains) as i64);
        let rest = outer.extent % chains;
        let all = (0..by).map(|start| Range { start, by, iterations: blocks });
        let last = (0..rest as i64).map(|n| Range { start: by * blocks + n, by: 1, iterations: 1 });
        for ranges in [all.collect::<Vec<_>>(), last.collect()] {
            copies(kernel, outer, Some(inner), &ranges, &mut out);
        }
    }
    out
}

/// An outer loop whose inner loop is a chain of dependent operations.
struct Chains<'a> {
    outer: Loop<'a>,
    /// The position of the inner loop in the body of the outer one.
    inner: usize,
    /// The number of outer iterations that run together.
    chains: usize,
}

impl<'a> Chains<'a> {
    fn of(kernel: &Kernel, machine: &MachineModel, stmt: &'a Stmt) -> Option<Chains<'a>> {
        let outer = stmt.counted().filter(|l| l.lanes == 1)?;
        let Loop { index, extent: n, carries, body, .. } = outer;
        let at = body.iter().position(|s| !s.blocks().is_empty())?;
        let (before, behind) = (&body[..at], &body[at + 1..]);
        let inner = body[at].counted().filter(|l| l.lanes == 1 && l.carries.is_empty())?;
        let alone = before.iter().chain(behind).all(is_straight);
        let in_place = |c: &Carry| c.input.buffer == c.output.buffer;
        let shaped = alone && inner.body.iter().all(is_straight);
        if !shaped
            || !carries.iter().all(in_place)
            || inner.extent < machine.jammed_inner_iterations
            || !waits(kernel, inner.body)
        {
            return None;
        }
        let most = machine.jammed_statements / size(inner.body).max(1);
        let divides = |c: &usize| n.is_multiple_of(*c) && *c <= most;
        // Prefer numbers of chains that divide the trip count: first `jammed_iterations`, then one more, then fewer. If
        // none divides it, there is a remainder.
        let best = machine.jammed_iterations;
        let mut numbers = [best, best + 1].into_iter().chain((2..best).rev());
        let chains = numbers.find(divides).unwrap_or(best.min(most));
        let independent = || {
            variables(body).0 == Parallelism::Parallel
                && (memory(kernel, index, Extent::Constant(n), body) == Dependence::Never
                    || planted(Fault::JammedMeets))
        };
        let copies = chains + n % chains.max(1);
        let little = size(body).saturating_mul(copies) <= MOST_STATEMENTS;
        let worth = chains > 1 && n >= chains && little && independent();
        worth.then_some(Chains { outer, inner: at, chains })
    }
}

/// Returns whether a statement is scalar code without effects.
fn is_straight(stmt: &Stmt) -> bool {
    stmt.shape().is_scalar()
}

/// Returns whether iterations set a float variable that is declared outside of the loop, so that each iteration waits
/// for the previous one.
fn waits(kernel: &Kernel, body: &[Stmt]) -> bool {
    let assigned = |s: &Stmt| s.assigned().map(|(var, _)| var);
    let declares = |s: &&Stmt| matches!(s, Stmt::Var { .. });
    let own: BTreeSet<_> = body.iter().filter(declares).filter_map(assigned).collect();
    let mut handed = body.iter().filter_map(assigned).filter(|var| !own.contains(var));
    handed.any(|var| kernel.vars[var].is_float())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::Executable;
    use crate::codegen::clif::tests::Random;
    use crate::loop_ir::{eval, parse, shadow, verify};
    use crate::sweeps::Sweep;
    use tapeloom_ir::Tensor;

    /// Returns the text of a program over `n` rows of 20 numbers after the pass. Checks that its results are
    /// bit-identical.
    fn jammed(n: usize, inside: &str) -> String {
        jammed_of(n, 20, inside)
    }

    fn jammed_of(n: usize, columns: usize, inside: &str) -> String {
        let all = n * columns;
        let text = format!(
            "program @p {{ buffer b0: f64[{all}] input 0 buffer b1: f64[{n}] output 0
               buffer b2: f64[{all}] output 1
               for i9 in {all} {{ store b2[i9], 1.0 }} for i8 in {n} {{ store b1[i8], 2.0 }}
               serial i0 in {n} {{ {inside} }} }}"
        );
        let mut program = parse(&text, &|_| None).unwrap();
        let x = [(0..all).map(|i| (i as f64).sin()).collect::<Tensor>()];
        let want = shadow(&program, &x).unwrap();
        let machine = crate::machine::MachineModel::MEASURED;
        program.kernels_mut().for_each(|kernel| _ = super::unroll_and_jam(kernel, &machine));
        assert_eq!(verify(&program), [], "{program}");
        assert_eq!(shadow(&program, &x).unwrap(), want, "{program}");
        assert_eq!(eval(&program, &x).unwrap(), want, "{program}");
        assert_eq!(Executable::new(&program).unwrap().call(&[&x[0]]).unwrap(), want, "{program}");
        program.to_string()
    }

    const SUM: &str = "var v0: f64 = 0.5 serial i1 in 20 { %0: f64 = load b0[i0*20 + i1]
        %1: f64 = add v0, %0 v0 = %1 } store b1[i0], v0";

    #[test]
    fn sums_of_rows_go_together() {
        for (n, chains) in [(8, 4), (10, 5), (3, 3), (11, 4 + 3), (4, 4), (1, 1)] {
            let text = jammed(n, SUM);
            assert_eq!(text.matches("add v").count(), chains, "{text}");
            assert_eq!(text.contains(" in 2 {"), n > 5, "{text}");
        }
    }

    #[test]
    fn loops_without_independent_chains_are_not_jammed() {
        // None of the following loops is jammed. In `before`, each outer iteration adds to a result of the previous
        // one.
        let before = SUM.replace("var v0: f64 = 0.5", "%5: f64 = load b1[0] var v0: f64 = %5");
        let before = before.replace("store b1[i0], v0", "store b1[i0], v0 store b1[0], v0");
        // Not jammed, because the inner loop is no chain of dependent operations.
        let free = "store b1[i0], 1.0 for i1 in 20 { %0: f64 = load b0[i0*20 + i1]
            store b2[i0*20 + i1], %0 }";
        // Not jammed, because the inner loop is too short.
        let short = SUM.replace("i1 in 20", "i1 in 3");
        // Not jammed, because there are too many statements around the inner loop.
        let step = |i: usize| format!("%{}: f64 = mul %{}, 0.5 ", 101 + i, 100 + i);
        let much: String = (0..200).map(step).collect();
        let long = format!("%100: f64 = load b0[i0*20] {much} {SUM} store b2[i0], %300");
        for inside in [&before, free, &short, &long] {
            let text = jammed(8, inside);
            assert!(text.contains("in 8 {"), "{text}");
        }
    }

    /// Random nests of two loops, in which an iteration may read elements that another one writes: results
    /// must stay bit-identical.
    #[test]
    fn no_bit_changes() {
        let (mut r, mut together) = (Random(Sweep::Jam.seed()), 0);
        for case in 0..Sweep::Jam.cases() {
            let (n, m) = (2 + r.below(9), 4 + r.below(4));
            let all = n * m;
            // In three of four cases an iteration accesses its own row, otherwise one fixed row.
            let row = |r: &mut Random| {
                let at = r.below(n).to_string();
                r.of(&["i0", "i0", "i0", &at]).to_owned()
            };
            let cell = |r: &mut Random| {
                let (column, at) = (r.below(m), r.below(all));
                let row = format!("i0*{m}");
                r.of(&[
                    &format!("{row} + i1"),
                    &row,
                    &format!("{row} + {column}"),
                    "i1",
                    &at.to_string(),
                ])
                .to_owned()
            };
            let (first, last) = (row(&mut r), row(&mut r));
            let mut inside = String::new();
            for step in 0..1 + r.below(3) {
                let (read, written) = (cell(&mut r), cell(&mut r));
                let (chain, from) = (r.below(2), r.of(&["b0", "b2"]));
                inside += &format!("%{step}: f64 = load {from}[{read}] ");
                let code = r.of(&["add", "sub", "mul", "max"]);
                inside += &format!("%1{step}: f64 = {code} v{chain}, %{step} ");
                inside += &match r.below(4) {
                    0 => format!("store b2[{written}], %1{step} "),
                    1 => format!("store b2[{written}], %1{step} v{chain} = %{step} "),
                    _ => format!("v{chain} = %1{step} "),
                };
            }
            let text = jammed_of(
                n,
                m,
                &format!(
                    "%90: f64 = load b1[{first}] var v0: f64 = %90 var v1: f64 = 0.25
                     serial i1 in {m} {{ {inside} }} store b1[{last}], v0 store b2[i0*{m}], v1"
                ),
            );
            let stays = text.contains(&format!("serial i0 in {n} "));
            together += usize::from(!stays);
            assert!(case < 599 || together > 60, "{together} of 600 were jammed");
        }
    }
}
