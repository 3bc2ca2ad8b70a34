//! Pipelines: the lists of passes that functions go through. The order of passes is defined here alone.
//!
//! A step of a list is a pass and the reason for its position. Tests run the passes that users run: whole
//! lists, or a list step by step ([`List::observed`]). A debug build verifies the result of each step, and
//! names the step that broke it.

use crate::loops::{
    dedup_constants, drained_carries, fold_ranges, forward_stores, hoist_invariants,
    narrow_carries, promote_reads, rolling_buffer, stack_outputs, zero_trip_loops,
};
use crate::passes::pass::Pass;
use crate::passes::{
    cse, dce, egraph, inline, peephole, polyphase, slice_operands, unroll_routines,
};
use std::cell::RefCell;
use std::fmt;
use tapeloom_ir::prim::Regions;
use tapeloom_ir::{FuncId, Kind, Module, Problem};

/// All passes, in the order of names.
pub const PASSES: &[&Pass] = &[
    &cse::PASS,
    &dce::PASS,
    &dedup_constants::PASS,
    &drained_carries::PASS,
    &inline::EXPAND,
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

/// Returns the pass of that name.
///
/// # Errors
/// [`Kind::Parse`] if there is none, with the names of all passes.
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

/// A pass at its position in a list.
#[derive(Debug)]
pub struct Step {
    /// The pass.
    pub pass: &'static Pass,
    /// If set, the step's result is discarded unless that pass, which follows, changes the function.
    pub kept_if: Option<&'static Pass>,
    /// The reason for the position.
    pub why_here: &'static str,
}

/// Prints `stack_outputs if rolling_buffer_last`.
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
    /// The list's purpose, in a sentence.
    pub about: &'static str,
    /// The passes.
    pub steps: &'static [Step],
}

const fn step(pass: &'static Pass, why_here: &'static str) -> Step {
    Step { pass, kept_if: None, why_here }
}

const fn step_if(kept_if: &'static Pass, pass: &'static Pass, why_here: &'static str) -> Step {
    Step { pass, kept_if: Some(kept_if), why_here }
}

const EXPAND: Step = step(
    &inline::EXPAND,
    "no more derivatives are taken, and a call hides from all other passes what it does",
);
const CSE: Step = step(&cse::PASS, "calls that are opened compute the same in several places");
const DCE: Step = step(
    &dce::PASS,
    "of what was opened many results are not read, and passes on loops ask who reads",
);
const FOLD_RANGES: Step = step(
    &fold_ranges::PASS,
    "indices are sums of counters where it is known that they do not wrap",
);
const ZERO_TRIP_LOOPS: Step =
    step(&zero_trip_loops::PASS, "neither passes on loops nor derivatives need to look at them");
const HOIST_INVARIANTS: Step = step(
    &hoist_invariants::PASS,
    "the passes that follow ask what a loop reads, and find less in its body",
);
const PROMOTE_READS: Step = step(
    &promote_reads::PASS,
    "of an array that goes into a branch it is not known what is read of it",
);
const SLICE_OPERANDS: Step = step(
    &slice_operands::PASS,
    "less is computed, and passes behind it find that loops carry and keep less",
);
const STACK_OUTPUTS: Step = step_if(
    &rolling_buffer::LAST,
    &stack_outputs::PASS,
    "a loop that writes a row place by place hides that it writes a row; arrays of other loops are filled where \
     they lie",
);
const ROLLING_BUFFER_LAST: Step =
    step(&rolling_buffer::LAST, "rows are written whole, and it is known who reads them");

const NARROW_CARRIES: Step = step(
    &narrow_carries::PASS,
    "which elements are read is known, in branches as well, and which indices there can be",
);
const DRAINED_CARRIES: Step = step(
    &drained_carries::PASS,
    "what reverse mode takes out of an array place by place is narrow by now",
);
const FORWARD_STORES: Step = step(
    &forward_stores::PASS,
    "around narrow loops stand writes of what they made, and reads of it",
);
const DEAD_READS: Step = step_if(
    &rolling_buffer::LAST,
    &dce::PASS,
    "again: a dead read would count as one of another row",
);
const POLYPHASE: Step = step(
    &polyphase::PASS,
    "no more derivatives are taken, which are shorter of one sum than of its parts; rules tidy its equations behind it",
);
const PEEPHOLE: Step =
    step(&peephole::PASS, "what loops carry is settled; what is tidy is cheaper to simplify");
const SIMPLIFY: Step = step(&egraph::PASS, "it costs the most, so it gets what all others leave");
const SIMPLIFY_RELAXED: Step =
    step(&egraph::RELAXED, "it costs the most, so it gets what all others leave");
const UNROLL_ROUTINES: Step = step(
    &unroll_routines::PASS,
    "no more derivatives are taken, and unrolled code needs no simplification that is worth its length",
);
const LAST: Step = step(
    &dce::PASS,
    "again: calls may return what is not read any more, and of unrolled code not all results are read",
);

/// Before reverse mode.
pub static BEFORE_REVERSE: List = List {
    name: "before_reverse",
    about: "what `linearize` does first, so that loops have little state to keep",
    steps: &[
        step(
            &dedup_constants::PASS,
            "the cotangent of a constant is one running total, however plans cut loops behind this",
        ),
        FOLD_RANGES,
        ZERO_TRIP_LOOPS,
        step(
            &hoist_invariants::GUARDED,
            "reverse mode then saves the value once, and adds up its cotangent before it differentiates further",
        ),
        PROMOTE_READS,
        SLICE_OPERANDS,
        step(
            &narrow_carries::EAGER,
            "which elements are read is known, in branches as well, and which indices there can be",
        ),
        STACK_OUTPUTS,
        step_if(&rolling_buffer::LAST, &dce::PASS, "a dead read would count as one of another row"),
        ROLLING_BUFFER_LAST,
    ],
};

/// Before planning within a byte budget.
pub static BEFORE_BUDGET: List = List {
    name: "before_budget",
    about: "what a plan within a number of bytes does first, behind `before_reverse`",
    steps: &[
        step(&inline::PASS, "plans cut loops, and those of functions that are called, too"),
        step(
            &rolling_buffer::PASS,
            "a budget counts each version of what a loop carries, and rows are less than arrays; otherwise arrays are \
             filled where they lie",
        ),
    ],
};

/// Returns the steps before machine code, with `simplify` as the pass of equality saturation.
const fn before_code(simplify: Step) -> [Step; 19] {
    [
        EXPAND,
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
        simplify,
        UNROLL_ROUTINES,
        LAST,
    ]
}

/// Before machine code.
pub static BEFORE_CODE: List = List {
    name: "before_code",
    about: "what `jit` does before it makes loops",
    steps: &before_code(SIMPLIFY),
};

/// As `BEFORE_CODE`, with sums that may be reassociated.
pub static BEFORE_RELAXED_CODE: List = List {
    name: "before_relaxed_code",
    about: "the same for `jit(f).relaxed()`",
    steps: &before_code(SIMPLIFY_RELAXED),
};

/// Before the simulated accelerator.
pub static BEFORE_ACCELERATOR: List = List {
    name: "before_accelerator",
    about: "the same for the simulated accelerator, which runs loops as they are written",
    steps: &[EXPAND, CSE, DCE, FOLD_RANGES, ZERO_TRIP_LOOPS, POLYPHASE, PEEPHOLE, SIMPLIFY, LAST],
};

thread_local! {
    /// The steps that changed a function, if [recording](changes) is on.
    static CHANGES: RefCell<Option<Vec<&'static Step>>> = const { RefCell::new(None) };
}

/// Calls `f` and returns the steps of lists that changed a function meanwhile on this thread, passes inside
/// transforms included.
pub fn changes<T>(f: impl FnOnce() -> T) -> (T, Vec<&'static Step>) {
    let before = CHANGES.replace(Some(Vec::new()));
    let result = f();
    (result, CHANGES.replace(before).unwrap_or_default())
}

impl List {
    /// All lists.
    pub const ALL: [&'static List; 5] =
        [&BEFORE_REVERSE, &BEFORE_BUDGET, &BEFORE_CODE, &BEFORE_RELAXED_CODE, &BEFORE_ACCELERATOR];

    /// Runs the passes, and calls `after` after each. Discarded results are not passed to `after`.
    pub(crate) fn run_with(
        &self,
        regions: &mut dyn Regions,
        module: &mut Module,
        mut f: FuncId,
        after: &mut dyn FnMut(&'static Step, &Module, FuncId),
    ) -> Result<FuncId, Problem> {
        // The function if the waiting steps are discarded, and the steps whose results may be discarded.
        let (mut kept, mut waiting) = (f, Vec::new());
        for step in self.steps {
            let made = step.pass.run(regions, module, f)?;
            let changed = made != f;
            waiting.push((step, made));
            f = made;
            if step.kept_if.is_some() {
                continue;
            }
            let keep = changed || waiting.len() == 1;
            for (step, made) in waiting.drain(..) {
                let made = if keep { made } else { kept };
                if made != kept {
                    CHANGES.with_borrow_mut(|all| all.iter_mut().for_each(|all| all.push(step)));
                }
                kept = made;
                after(step, module, kept);
            }
            f = kept;
        }
        Ok(kept)
    }
}
