//! A pass as a row: its name, what it does, what it may rely on, and whether it keeps every bit.
//!
//! A row stands in the file of its pass, and [`PASSES`](super::PASSES) lists them. Nothing outside of this folder
//! calls a pass but through its row, by name or as a step of a [list](super::pipeline).
//!
//! ```
//! use tapeloom_backend::loop_ir;
//! use tapeloom_backend::passes::{Context, by_name};
//! let text = "program @twice {
//!   buffer b0: f64[4] input 0
//!   buffer b1: f64[4] output 0
//!   for i0 in 4 {
//!     %0: f64 = load b0[i0]
//!     %1: f64 = load b0[i0]
//!     %2: f64 = add %0, %1
//!     store b1[i0], %2
//!   }
//! }";
//! let mut program = loop_ir::parse(text, &|_| None)?;
//! by_name("redundant_memory")?.apply(&mut program, &mut Context::default())?;
//! assert!(program.to_string().contains("add %0, %0"));
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::loop_ir::{BufferId, Kernel, Program, check, check_form};
use crate::machine::MachineModel;
use std::fmt;
use tapeloom_ir::Problem;
use tapeloom_ir::prim::Exactness;

/// A pass on the loop IR: another program that computes the same.
#[derive(Clone, Copy)]
pub struct Pass {
    /// The field's name for it, which is that of its file.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// What must hold of a program that it is given.
    pub requires: Invariant,
    /// What holds behind it; none where that is what held before.
    pub ensures: Option<Invariant>,
    /// Whether results keep every bit, or sums may be taken in another order.
    pub exactness: Exactness,
    pub(super) run: Run,
}

/// What a pass runs on.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// Each kernel by itself.
    Kernels(fn(&mut Kernel, &Context)),
    /// The whole.
    Program(fn(&mut Program, &mut Context) -> Result<(), Problem>),
}

impl Pass {
    /// A pass of one's own, for tests of [lists](super::List): it may be given any program, and is held to computing the
    /// same bits.
    pub const fn custom(
        name: &'static str,
        run: fn(&mut Program, &mut Context) -> Result<(), Problem>,
    ) -> Pass {
        let (requires, exactness, run) = (Invariant::Form, Exactness::Exact, Run::Program(run));
        Pass {
            name,
            about: "a pass that no list of tapeloom runs",
            requires,
            ensures: None,
            exactness,
            run,
        }
    }

    /// Runs the pass on a program.
    ///
    /// # Errors
    /// Where the program breaks what the pass [requires](Pass::requires), and that is noticed.
    pub fn apply(&self, program: &mut Program, context: &mut Context) -> Result<(), Problem> {
        match self.run {
            Run::Kernels(run) => program.kernels_mut().for_each(|kernel| run(kernel, context)),
            Run::Program(run) => run(program, context)?,
        }
        Ok(())
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What holds of a program at some stage; each holds where a later one does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Invariant {
    /// The program is [well-formed](check_form). Proofs that addresses stay within their buffers may be missing.
    Form,
    /// And every access is [proved](check) to stay within its buffer.
    Proved,
}

impl Invariant {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Invariant::Form => "well-formed",
            Invariant::Proved => "proved",
        }
    }

    /// Checks of a program what the verifier knows of that.
    ///
    /// # Errors
    /// [`tapeloom_ir::Kind::Verify`], with what is broken.
    pub fn check(self, program: &Program) -> Result<(), Problem> {
        match self {
            Invariant::Form => check_form(program),
            Invariant::Proved => check(program),
        }
    }
}

/// What a place in a list asks of its pass beside the program.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Choice {
    /// Nothing.
    #[default]
    Plain,
    /// Of `index_set_split`: that tiny loops inside loops are written out.
    WriteOut,
    /// Of `promote_memory`: memory alone that one loop works in.
    Private,
    /// Of `vectorize` and `clamp_bounds`: few lanes, for a machine that has no vectors.
    Few,
}

impl Choice {
    /// All of them.
    pub const ALL: [Choice; 4] = [Choice::Plain, Choice::WriteOut, Choice::Private, Choice::Few];

    /// Its name behind that of the pass.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Plain => "",
            Choice::WriteOut => "write_out",
            Choice::Private => "private",
            Choice::Few => "few",
        }
    }
}

/// A pass at its place in a list.
#[derive(Debug)]
pub struct Step {
    /// The pass.
    pub pass: &'static Pass,
    /// What is asked of it here.
    pub choice: Choice,
    /// Why it stands here.
    pub why_here: &'static str,
}

/// `promote_memory private`.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pass.name)?;
        match self.choice {
            Choice::Plain => Ok(()),
            Choice::WriteOut | Choice::Private | Choice::Few => {
                write!(f, " {}", self.choice.name())
            }
        }
    }
}

/// An array that a step of a program computes first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hoisted {
    /// The array.
    pub(crate) buffer: BufferId,
    /// The step.
    pub(crate) step: usize,
    /// The operation that gives its elements.
    pub(crate) what: &'static str,
}

/// What passes are told beside the program, and what they have to tell.
#[derive(Default)]
pub struct Context {
    /// What is fast.
    pub(crate) machine: MachineModel,
    /// What the place in the list asks for.
    pub choice: Choice,
    /// Of `unroll`: by what loops are unrolled, those with none inside first.
    pub factors: Vec<u64>,
    /// Of `redundant_memory`: whether arrays are taken to overlap.
    pub overlap: bool,
    /// Of `hoist_invariant`: the arrays that steps compute ahead of their loops.
    pub(crate) hoisted: Vec<Hoisted>,
    /// Of `clamp_bounds`: how many loads and stores are held within their buffers.
    pub clamped: usize,
    /// The steps that changed the program, as they are named in the list.
    pub changed: Vec<&'static Step>,
}
