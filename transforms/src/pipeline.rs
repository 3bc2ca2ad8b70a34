//! Pipelines: the lists of passes that functions go through. The order of passes is defined here alone.
//!
//! A step of a list is a pass and the reason for its position. Tests run the passes that users run: whole
//! lists, or a list step by step ([`List::observed`]). A debug build verifies the result of each step, and
//! names the step that broke it.

use crate::loops::{
    dedup_constants, drained_carries, flush_subnormals, fold_ranges, forward_stores,
    hoist_invariants, narrow_carries, promote_reads, rolling_buffer, stack_outputs,
    zero_trip_loops,
};
use crate::passes::pass::{Made, Pass};
use crate::passes::simplification::Simplification;
use crate::passes::{
    cse, dce, drop_shardings, egraph, inline, peephole, polyphase, slice_operands, unroll_routines,
};
use std::cell::RefCell;
use std::fmt;
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{FuncId, Kind, Module, Problem};

/// All passes, in alphabetical order of their names.
pub const PASSES: &[&Pass] = &[
    &cse::PASS,
    &dce::PASS,
    &dedup_constants::PASS,
    &drained_carries::PASS,
    &drop_shardings::PASS,
    &inline::EXPAND,
    &flush_subnormals::PASS,
    &fold_ranges::PASS,
    &forward_stores::PASS,
    &hoist_invariants::PASS,
    &hoist_invariants::GUARDED,
    &inline::PASS,
    &narrow_carries::PASS,
    &narrow_carries::EAGER,
    &peephole::PASS,
    &polyphase::PASS,
    &promote_reads::PASS,
    &rolling_buffer::PASS,
    &rolling_buffer::LAST,
    &egraph::PASS,
    &egraph::RELAXED,
    &slice_operands::PASS,
    &stack_outputs::PASS,
    &unroll_routines::PASS,
    &zero_trip_loops::PASS,
];

/// Returns the pass whose name is `name`.
///
/// # Errors
/// [`Kind::Parse`] if there is no such pass, with the names of all passes.
pub fn by_name(name: &str) -> Result<&'static Pass, Problem> {
    let found = PASSES.iter().copied().find(|pass| pass.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = PASSES.iter().map(|pass| pass.name).collect();
        Problem::new(
            Kind::Parse,
            format!("there is no pass `{name}`"),
            format!("the passes are {}", names.join(", ")),
        )
    })
}

/// A pass at its position in a list of passes.
#[derive(Debug)]
pub struct Step {
    /// The pass that runs at this step.
    pub pass: &'static Pass,
    /// If set to a later pass of the list, the step's result is discarded unless that later pass changes the function.
    pub kept_if: Option<&'static Pass>,
    /// The reason why the pass stands at this position of the list.
    pub why_here: &'static str,
}

/// Prints the pass's name with its condition, such as `stack_outputs if rolling_buffer_last`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pass.name)?;
        self.kept_if.map_or(Ok(()), |pass| write!(f, " if {}", pass.name))
    }
}

/// An ordered list of passes.
#[derive(Debug)]
pub struct List {
    /// The list's name.
    pub name: &'static str,
    /// The purpose of the list, in one sentence.
    pub about: &'static str,
    /// The passes, in the order in which they run.
    pub steps: &'static [Step],
}

const fn step(pass: &'static Pass, why_here: &'static str) -> Step {
    Step { pass, kept_if: None, why_here }
}

const fn step_if(kept_if: &'static Pass, pass: &'static Pass, why_here: &'static str) -> Step {
    Step { pass, kept_if: Some(kept_if), why_here }
}

const EXPAND: Step =
    step(&inline::EXPAND, "no derivatives follow, and other passes do not look into calls");
const DROP_SHARDINGS: Step = step(
    &drop_shardings::PASS,
    "there is one device, and the equations stand between others that simplify together",
);
const CSE: Step = step(&cse::PASS, "inlined bodies contain equal equations");
const DCE: Step = step(
    &dce::PASS,
    "many results of inlined bodies are not read, and passes on loops analyse readers",
);
const FOLD_RANGES: Step =
    step(&fold_ranges::PASS, "indices become sums of counters once they are known not to wrap");
const ZERO_TRIP_LOOPS: Step =
    step(&zero_trip_loops::PASS, "passes on loops and derivatives do not have to handle them");
const HOIST_INVARIANTS: Step = step(
    &hoist_invariants::PASS,
    "later passes analyse the reads of a loop, and its body then has fewer",
);
const PROMOTE_READS: Step =
    step(&promote_reads::PASS, "otherwise all of an array counts as read if it goes into a branch");
const SLICE_OPERANDS: Step = step(
    &slice_operands::PASS,
    "fewer elements are computed, so later passes find smaller carries and residuals",
);
const STACK_OUTPUTS: Step = step_if(
    &rolling_buffer::LAST,
    &stack_outputs::PASS,
    "rows that are written element by element are not recognized as rows; arrays of other loops are filled in \
     place",
);
const ROLLING_BUFFER_LAST: Step =
    step(&rolling_buffer::LAST, "rows are written whole by now, and their readers are known");

const NARROW_CARRIES: Step = step(
    &narrow_carries::PASS,
    "the elements that are read, in branches too, and the ranges of indices are known",
);
const DRAINED_CARRIES: Step = step(
    &drained_carries::PASS,
    "arrays that reverse mode empties element by element are narrow by now",
);
const FORWARD_STORES: Step = step(
    &forward_stores::PASS,
    "narrowed loops are surrounded by writes of their results and reads of these",
);
const DEAD_READS: Step = step_if(
    &rolling_buffer::LAST,
    &dce::PASS,
    "again: a dead read would count as a read of another row",
);
const POLYPHASE: Step = step(
    &polyphase::PASS,
    "no derivatives follow, which are shorter for one sum than for its parts; later rules simplify its equations",
);
const PEEPHOLE: Step = step(
    &peephole::PASS,
    "carries are final, and no pass that follows makes equations to simplify",
);
const SIMPLIFY_RELAXED: Step =
    step(&egraph::RELAXED, "it is the most expensive pass, so it runs on the smallest program");
const UNROLL_ROUTINES: Step = step(
    &unroll_routines::PASS,
    "no derivatives follow, and rules for arrays do not apply to the long unrolled code",
);
const LAST: Step =
    step(&dce::PASS, "again: results of calls and of unrolled code may not be read any more");

/// The passes that run before reverse mode.
pub static BEFORE_REVERSE: List = List {
    name: "before_reverse",
    about: "the first step of `linearize`, so that loops have little state to save",
    steps: &[
        step(
            &dedup_constants::PASS,
            "the cotangent of a constant is then one sum, however later plans split loops",
        ),
        FOLD_RANGES,
        ZERO_TRIP_LOOPS,
        step(
            &hoist_invariants::GUARDED,
            "reverse mode then saves the value once, and sums its cotangent before it differentiates the invariant equations",
        ),
        PROMOTE_READS,
        SLICE_OPERANDS,
        step(
            &narrow_carries::EAGER,
            "the elements that are read, in branches too, and the ranges of indices are known",
        ),
        STACK_OUTPUTS,
        step_if(
            &rolling_buffer::LAST,
            &dce::PASS,
            "a dead read would count as a read of another row",
        ),
        ROLLING_BUFFER_LAST,
    ],
};

/// The passes that run before planning within a byte budget.
pub static BEFORE_BUDGET: List = List {
    name: "before_budget",
    about: "the first step of a plan within a byte budget, after `before_reverse`",
    steps: &[
        step(&inline::PASS, "a plan may split loops in the bodies of called functions too"),
        step(
            &rolling_buffer::PASS,
            "a budget counts each version of a carry, and rows are smaller than arrays; without a budget arrays are \
             filled in place",
        ),
    ],
};

/// The steps before machine code is generated. The optional argument `$simplify` is a step that runs after `PEEPHOLE`.
macro_rules! before_code {
    ($($simplify:expr)?) => {
        &[
            EXPAND,
            DROP_SHARDINGS,
            CSE,
            DCE,
            FOLD_RANGES,
            ZERO_TRIP_LOOPS,
            HOIST_INVARIANTS,
            PROMOTE_READS,
            SLICE_OPERANDS,
            NARROW_CARRIES,
            DRAINED_CARRIES,
            FORWARD_STORES,
            STACK_OUTPUTS,
            DEAD_READS,
            ROLLING_BUFFER_LAST,
            POLYPHASE,
            PEEPHOLE,
            $($simplify,)?
            UNROLL_ROUTINES,
            LAST,
        ]
    };
}

/// The passes that run on the traced program if the user asks for subnormal numbers to be flushed to 0.
pub static FLUSHED: List = List {
    name: "flushed",
    about: "the first step of `jit(f).flush_subnormals()`, on every engine",
    steps: &[step(
        &flush_subnormals::PASS,
        "no derivatives follow; other passes simplify its equations",
    )],
};

/// The passes that run before lowering to machine code.
pub static BEFORE_CODE: List = List {
    name: "before_code",
    about: "the passes of `jit` before lowering",
    steps: before_code!(),
};

/// The passes of `BEFORE_CODE`, and equality saturation with rules that may reassociate sums.
pub static BEFORE_RELAXED_CODE: List = List {
    name: "before_relaxed_code",
    about: "the same for `jit(f).relaxed()`",
    steps: before_code!(SIMPLIFY_RELAXED),
};

/// The passes that run before lowering for the simulated accelerator.
pub static BEFORE_ACCELERATOR: List = List {
    name: "before_accelerator",
    about: "the same for the simulated accelerator, which runs loops as they are written",
    steps: &[
        EXPAND,
        DROP_SHARDINGS,
        CSE,
        DCE,
        FOLD_RANGES,
        ZERO_TRIP_LOOPS,
        POLYPHASE,
        PEEPHOLE,
        LAST,
    ],
};

/// The passes that run before a program is written as StableHLO. Engines that run StableHLO, such as XLA, have their
/// own passes on loops. Sums over windows stay whole, because these engines have convolutions.
pub static BEFORE_STABLEHLO: List = List {
    name: "before_stablehlo",
    about: "the passes of `jit(f).stablehlo(args)`",
    steps: &[
        EXPAND,
        CSE,
        DCE,
        FOLD_RANGES,
        ZERO_TRIP_LOOPS,
        HOIST_INVARIANTS,
        PROMOTE_READS,
        SLICE_OPERANDS,
        NARROW_CARRIES,
        PEEPHOLE,
        UNROLL_ROUTINES,
        LAST,
    ],
};

thread_local! {
    /// The steps that have changed a function, while `changes` records them on this thread; else `None`.
    static CHANGES: RefCell<Option<Vec<&'static Step>>> = const { RefCell::new(None) };
}

/// Calls `f`; returns its result and the steps of lists that changed a function during the call on this thread,
/// also inside transforms.
pub fn changes<T>(f: impl FnOnce() -> T) -> (T, Vec<&'static Step>) {
    let before = CHANGES.replace(Some(Vec::new()));
    let result = f();
    (result, CHANGES.replace(before).unwrap_or_default())
}

/// A program after a step of a list of passes, as an observer of the list gets it.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The step of the list that ran.
    pub step: &'static Step,
    /// The module of the program.
    pub module: &'a Module,
    /// The function after the step. If the step's result is discarded, the function from before the step.
    pub function: FuncId,
    /// The report of a step that simplifies, on all functions of the program together; `None` for other steps.
    pub simplification: Option<&'a Simplification>,
}

impl List {
    /// All lists of passes.
    pub const ALL: [&'static List; 7] = [
        &BEFORE_REVERSE,
        &BEFORE_BUDGET,
        &FLUSHED,
        &BEFORE_CODE,
        &BEFORE_RELAXED_CODE,
        &BEFORE_ACCELERATOR,
        &BEFORE_STABLEHLO,
    ];

    /// Runs the passes in order, and calls `after` after each step.
    pub(crate) fn run_with(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        mut f: FuncId,
        after: &mut dyn FnMut(Observed<'_>),
    ) -> Result<FuncId, Problem> {
        // `kept` is the function before the steps that may still be discarded; `waiting` has these steps, each with its
        // result.
        let (mut kept, mut waiting) = (f, Vec::new());
        for step in self.steps {
            let made = step.pass.run(regions, module, f)?;
            let changed = made.function != f;
            f = made.function;
            waiting.push((step, made));
            if step.kept_if.is_some() {
                continue;
            }
            let keep = changed || waiting.len() == 1;
            for (step, Made { function, report }) in waiting.drain(..) {
                let function = if keep { function } else { kept };
                if function != kept {
                    CHANGES.with_borrow_mut(|all| all.iter_mut().for_each(|all| all.push(step)));
                }
                kept = function;
                after(Observed { step, module, function, simplification: report.as_ref() });
            }
            f = kept;
        }
        Ok(kept)
    }
}
