//! Pipelines: the lists of passes on the loop IR. The order of passes is stated only here.
//!
//! A step of a list is a pass, with the reason why it runs at this place of the list. Tests run the lists that users
//! run, as a whole or step by step ([`List::observed`]).
//!
//! In debug builds, the program is verified after each step; an error names the step that broke it.

use super::pass::{Choice, Context, Invariant, Pass, Step};
use super::{
    clamp_bounds, copy_elimination, cut_pieces, elide_zero_fill, expand_library_calls,
    hoist_invariant, index_set_split, inline_bodies, interchange_sums, modulo_unroll, plan_memory,
    privatize_scalars, promote_memory, recognize_contractions, redundant_memory, reverse_loops,
    rotate_registers, simplify_indices, split_arrays, unroll, unroll_and_jam, vectorize,
};
use crate::loop_ir::{Program, visit};
use tapeloom_ir::Problem;

/// A list of passes, in the order in which they run.
#[derive(Debug)]
pub struct List {
    /// The name of the list.
    pub name: &'static str,
    /// A sentence that says for which target the list is.
    pub about: &'static str,
    /// The invariant that a program must satisfy before the list runs.
    pub begins: Invariant,
    /// The passes with their options and reasons.
    pub steps: &'static [Step],
}

const fn step(pass: &'static Pass, why_here: &'static str) -> Step {
    Step { pass, choice: Choice::Plain, why_here }
}

/// The passes before native code generation.
pub static NATIVE: List = List {
    name: "native",
    about: "the passes before machine code",
    begins: Invariant::Form,
    steps: &[
        step(&inline_bodies::PASS, "other passes do not see the accesses of a call"),
        step(
            &promote_memory::PASS,
            "bodies pass values of indices in memory; in variables their ranges stay known",
        ),
        step(
            &simplify_indices::PASS,
            "guards become comparisons of counters, at which loops are cut",
        ),
        Step {
            pass: &index_set_split::PASS,
            choice: Choice::WriteOut,
            why_here: "guards are comparisons of counters by now; in unrolled loops, elements have fixed indices",
        },
        step(
            &modulo_unroll::PASS,
            "guards that compare an index are gone, and a quotient is simplified by the next pass",
        ),
        step(&simplify_indices::PASS, "again: more values are known in a part of a split loop"),
        Step {
            pass: &promote_memory::PASS,
            choice: Choice::Private,
            why_here: "again: unrolled code updates elements at fixed indices; if loops were split, another part may read \
                       memory of the loop",
        },
        step(
            &copy_elimination::PASS,
            "addresses are sums of counters by now, so copies are recognized",
        ),
        step(
            &redundant_memory::PASS,
            "unrolling and eliminated copies leave adjacent accesses to one element",
        ),
        step(
            &privatize_scalars::PASS,
            "no later pass makes a variable that would make iterations sequential",
        ),
        step(
            &reverse_loops::PASS,
            "iterations may just have become independent; lanes need neighbours in one direction",
        ),
        step(
            &rotate_registers::PASS,
            "each iteration loads and stores an element once by now, and independent loops are known",
        ),
        step(
            &hoist_invariant::PASS,
            "contractions and lanes would hide values that iterations share",
        ),
        step(
            &recognize_contractions::PASS,
            "before lanes: a sum has as many lanes as its loop would have had",
        ),
        step(
            &interchange_sums::PASS,
            "before lanes, which stand around loops over terms; after contractions, whose sums are in registers \
             already",
        ),
        step(
            &vectorize::PASS,
            "loops have their final form, and the lanes of a sum determine its bits",
        ),
        step(&unroll_and_jam::PASS, "it applies to loops without lanes"),
        step(
            &elide_zero_fill::PASS,
            "after the passes that follow stored values, which then do not have to handle initial zeros",
        ),
        step(
            &cut_pieces::PASS,
            "loops have their final form and lanes; no private buffer shares memory with another \
             yet",
        ),
        step(&plan_memory::PASS, "no later pass removes a buffer or shortens a lifetime"),
        step(&clamp_bounds::PASS, "last: all other passes may help to prove accesses"),
    ],
};

/// The passes for object files, which run after `NATIVE`: library calls become loops, because an object file contains
/// all functions that it calls.
pub static OBJECT: List = List {
    name: "object",
    about: "the pass for objects, which follows `native`",
    begins: Invariant::Proved,
    steps: &[step(
        &expand_library_calls::PASS,
        "the rest of the program is that of machine code in memory, so that results have the same bits",
    )],
};

/// The passes for printed Rust source. Loops stay as in the lowered program, without lanes, pieces and shared memory,
/// so that people can read them.
pub static RUST_SOURCE: List = List {
    name: "rust_source",
    about: "the passes before Rust source, which leave loops as written; `object` follows",
    begins: Invariant::Form,
    steps: &[
        step(&inline_bodies::PASS, "a body stands in its loop, where a reader looks for it"),
        step(&simplify_indices::PASS, "indices are sums of counters, as a person would write them"),
        step(
            &copy_elimination::PASS,
            "addresses are sums of counters by now, so copies are recognized",
        ),
        step(&redundant_memory::PASS, "eliminated copies leave adjacent accesses to one element"),
        Step {
            pass: &clamp_bounds::PASS,
            choice: Choice::Few,
            why_here: "last: all other passes may help to prove accesses; an index outside of its array would panic",
        },
    ],
};

/// The passes for the simulated machine, which runs loops as they are written.
pub static AS_WRITTEN: List = List {
    name: "as_written",
    about: "the passes for the simulated machine, which leave loops as written",
    begins: Invariant::Form,
    steps: &[
        step(&inline_bodies::PASS, "other passes do not see the accesses of a call"),
        step(&plan_memory::PASS, "the machine runs loops as written, with the buffers as written"),
        step(
            &promote_memory::PASS,
            "values that iterations pass on at fixed indices are in registers on that machine too",
        ),
        step(&index_set_split::PASS, "a guard costs the machine an operation in each iteration"),
        Step {
            pass: &vectorize::PASS,
            choice: Choice::Few,
            why_here: "loops have their final form, and the lanes of a sum determine its bits; the machine has no vectors",
        },
        Step {
            pass: &clamp_bounds::PASS,
            choice: Choice::Few,
            why_here: "last: all other passes may help to prove accesses; it chooses lanes again",
        },
    ],
};

/// The passes for the simulated machine if loops are unrolled. They run after `AS_WRITTEN`.
pub static STUDY: List = List {
    name: "study",
    about: "the passes for the simulated machine if loops are unrolled, after `as_written`",
    begins: Invariant::Proved,
    steps: &[
        step(
            &simplify_indices::PASS,
            "sums of counters show where loops can be split and which addresses are equal",
        ),
        step(
            &index_set_split::PASS,
            "guards that became comparisons of counters are removed before they are copied",
        ),
        step(&unroll::PASS, "the steps after it work on copies of an iteration"),
        step(&simplify_indices::PASS, "again: more values are known in a copy of an iteration"),
        step(&redundant_memory::PASS, "copies load elements that other copies loaded or stored"),
        step(&split_arrays::PASS, "each store that is left fills an array"),
    ],
};

/// Debug builds verify a program after each pass if it has at most this many statements. Larger programs, like all
/// programs, are verified when they are compiled.
const VERIFIED: usize = 256;

impl List {
    /// All lists.
    pub const ALL: [&'static List; 5] = [&NATIVE, &OBJECT, &RUST_SOURCE, &AS_WRITTEN, &STUDY];

    /// Runs the passes of the list in order.
    ///
    /// # Errors
    /// An error of a pass; in a debug build also [`tapeloom_ir::Kind::Internal`] if a pass breaks the program.
    pub fn run(&self, program: &mut Program, context: &mut Context) -> Result<(), Problem> {
        self.observed(program, context, &mut |_, _| {})
    }

    /// Runs the passes of the list in order. After each of them, calls `after` with its step (the pass with its option)
    /// and the program.
    ///
    /// # Errors
    /// Like [`List::run`].
    pub fn observed(
        &self,
        program: &mut Program,
        context: &mut Context,
        after: &mut dyn FnMut(&'static Step, &Program),
    ) -> Result<(), Problem> {
        let mut holds = self.begins;
        for step in self.steps {
            context.choice = step.choice;
            let changed = step.pass.apply(program, context)?;
            holds = step.pass.ensures.map_or(holds, |ensured| ensured.max(holds));
            if changed {
                context.changed.push(step);
                if cfg!(debug_assertions) && statements(program) <= VERIFIED {
                    holds.check(program).map_err(|e| broken(step, program, &e))?;
                }
            }
            after(step, program);
        }
        Ok(())
    }
}

fn statements(program: &Program) -> usize {
    let mut n = 0;
    program.kernels().for_each(|(_, k)| visit(&k.body, &mut |_| n += 1));
    n
}

fn broken(step: &Step, program: &Program, problem: &Problem) -> Problem {
    Problem::internal(format!("`{step}` broke the program: {problem}\n{program}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_find_their_requirements() {
        for list in List::ALL {
            let mut holds = list.begins;
            for step in list.steps {
                assert!(step.pass.requires <= holds, "{}: {step}", list.name);
                holds = step.pass.ensures.map_or(holds, |ensured| ensured.max(holds));
            }
            assert!(
                holds >= Invariant::Proved,
                "{}: code generation needs proved accesses",
                list.name
            );
        }
    }

    /// If a pass runs a second time in a list, the reason of that step begins with "again: ".
    #[test]
    fn repetitions_have_their_reason() {
        for list in List::ALL {
            for (i, step) in list.steps.iter().enumerate() {
                let again = list.steps[..i].iter().any(|s| s.pass.name == step.pass.name);
                assert_eq!(again, step.why_here.starts_with("again: "), "{}: {step}", list.name);
            }
        }
    }
}
