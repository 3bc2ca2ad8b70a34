//! The memory plan as a table, as `explain` prints it.
//!
//! ```text
//! buffer  what            type         bytes    place          steps  from
//! b2      exp             f64[8,100]   6400     workspace+0    0-1    src/main.rs:7
//! ```

use crate::loop_ir::{BufferId, Kernel, KernelId, Place, Tape, TapeId};
use crate::passes::Hoisted;
use crate::report::columns::table;
use crate::report::loop_tape_warnings::LargeResidual;
use crate::report::rematerialized::Rematerialized;
use cranelift_entity::PrimaryMap;
use std::fmt;
use std::sync::Arc;
use tapeloom_ir::prim::Mark;
use tapeloom_ir::{ArrayType, Loc, Origin};

/// The memory plan: the place and the lifetime of every buffer of a program.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The buffers: results first, then the workspace.
    pub rows: Vec<Row>,
    /// The number of steps (top-level statements) of the program.
    pub steps: usize,
    /// The bytes of workspace of one call: the exact peak, without arguments and results.
    pub peak: usize,
    /// The functions for which the user requested that they be compiled once instead of inlined.
    pub calls: Vec<CallRow>,
    /// The dynamic tapes: residuals of loops whose trip count is known only at run time.
    pub tapes: PrimaryMap<TapeId, Tape>,
    /// The residuals that loops save in each iteration and that are as large as a carry of their loop.
    pub large_residuals: Vec<LargeResidual>,
    /// The equations that the reverse pass recomputes instead of reading a saved result.
    pub rematerialized: Vec<Rematerialized>,
    /// The tapes that exist only while one step runs, because a forward pass and its reverse pass both lie in that
    /// step: in an iteration of a loop, in a branch, or in a called function.
    pub inside: Vec<TapeInStep>,
    /// The scratch memory of steps that call functions, beside the buffers that the steps read and write.
    pub workspaces: Vec<StepWorkspace>,
}

/// The scratch memory of one step in the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepWorkspace {
    /// The number of the step in the program.
    pub step: usize,
    /// The offset of the scratch memory in the workspace, in bytes.
    pub offset: usize,
    /// The size of the scratch memory in bytes.
    pub bytes: usize,
}

/// The tape in the scratch memory of one step, if a forward pass and its reverse pass both lie in that step.
#[derive(Clone, Debug)]
pub struct TapeInStep {
    /// The number of the step in the program.
    pub step: usize,
    /// The largest number of bytes of residuals that the step holds at one time.
    pub bytes: usize,
    /// The buffers of the tape inside the step, including those of nested steps.
    pub rows: Vec<Row>,
}

/// A function for which the user requested that it be compiled once, and the outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// The name of the function.
    pub name: Arc<str>,
    /// The number of equations of the function, including those of the functions that it calls.
    pub equations: usize,
    /// The number of copies of the function that inlining would make.
    pub sites: usize,
    /// The kernel as which the function is compiled; `None` if its calls are inlined.
    pub kernel: Option<KernelId>,
}

/// A row of the memory plan: one buffer.
#[derive(Clone, Debug)]
pub struct Row {
    /// The id of the buffer.
    pub buffer: BufferId,
    /// The type of the array that the buffer holds.
    pub ty: ArrayType,
    /// The memory in which the buffer lies, with its offset.
    pub place: Place,
    /// The index of the first step that writes the buffer.
    pub first: usize,
    /// The index of the last step that reads or writes the buffer.
    pub last: usize,
    /// The primitive whose output the buffer holds: the first primitive, if several equations write the buffer one
    /// after the other.
    pub primitive: &'static str,
    /// The user's source line of that equation.
    pub location: Loc,
    /// Whether a forward pass writes the buffer and a reverse pass reads it.
    pub tape: bool,
    /// The equations of the reverse pass that read the buffer.
    pub read_back: Vec<Origin>,
    /// The marks of the values in the buffer that are saved for the reverse pass.
    pub kept: Vec<Mark>,
    /// The names that the user gave to values in the buffer.
    pub names: Vec<Arc<str>>,
}

/// The representation of a value in its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Representation {
    /// The unchanged value.
    Stored,
    /// In fewer bytes, without loss.
    Packed,
    /// In fewer bytes, rounded to nearby numbers ([`ROUNDING`](tapeloom_ir::ROUNDING)).
    Rounded,
}

impl fmt::Display for Representation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Representation::Stored => "stored",
            Representation::Packed => "packed",
            Representation::Rounded => "rounded",
        })
    }
}

impl Row {
    /// Whether the buffer takes workspace between a forward pass and its reverse pass. Results lie outside the
    /// workspace, so they do not count.
    pub fn is_tape(&self) -> bool {
        self.tape && self.is_workspace()
    }

    /// Returns the representation of the value: unchanged, packed or rounded.
    pub fn how(&self) -> Representation {
        let marked = |mark: Mark| self.kept.contains(&mark);
        match (marked(Mark::Packed), marked(Mark::Rounded)) {
            (_, true) => Representation::Rounded,
            (true, false) => Representation::Packed,
            (false, false) => Representation::Stored,
        }
    }

    /// Returns the text of the table's value column: the type, after the user's names if there are any.
    pub fn value(&self) -> String {
        match self.names.join(", ") {
            names if names.is_empty() => self.ty.to_string(),
            names => format!("{names}: {}", self.ty),
        }
    }

    /// Whether the buffer lies in the workspace.
    pub fn is_workspace(&self) -> bool {
        self.offset().is_some()
    }

    /// Returns the offset of the buffer in the workspace, in bytes; `None` if it lies elsewhere.
    pub fn offset(&self) -> Option<usize> {
        match self.place {
            Place::Workspace(offset) => Some(offset),
            Place::Input(_) | Place::Output(_) | Place::Donated { .. } | Place::Record { .. } => {
                None
            }
        }
    }

    /// Returns the cells of this row of the printed table.
    pub(crate) fn cells(&self) -> [String; 7] {
        [
            self.buffer.to_string(),
            {
                let named = self.names.iter().map(|name| Mark::Named(name.clone()));
                let marks = named.chain(self.kept.iter().cloned()).map(|mark| mark.to_string());
                match marks.collect::<Vec<_>>() {
                    marks if marks.is_empty() => self.primitive.to_owned(),
                    marks => format!("{}, kept {}", self.primitive, marks.join(", ")),
                }
            },
            self.ty.to_string(),
            self.ty.bytes().to_string(),
            match self.place {
                Place::Input(i) => format!("input {i}"),
                Place::Workspace(offset) => format!("workspace+{offset}"),
                place @ (Place::Output(_) | Place::Donated { .. } | Place::Record { .. }) => {
                    place.to_string()
                }
            },
            format!("{}-{}", self.first, self.last),
            self.location.map_or(String::new(), |l| format!("{}:{}", l.file(), l.line())),
        ]
    }
}

impl StepWorkspace {
    /// Returns the cells of the table row for the step's scratch memory.
    pub(crate) fn cells(&self) -> [String; 7] {
        let StepWorkspace { step, offset, bytes } = *self;
        let [buffer, ty, line] = [const { String::new() }; 3];
        let (what, place) = ("inside of a step".to_owned(), format!("workspace+{offset}"));
        [buffer, what, ty, bytes.to_string(), place, format!("{step}-{step}"), line]
    }
}

impl Plan {
    /// Adds rows for the buffers that passes allocated when they hoisted statements out of loops.
    pub(crate) fn ahead(&mut self, kernel: &Kernel, made: &[Hoisted]) {
        for Hoisted { buffer, step, operation } in made {
            let of = &kernel.buffers[*buffer];
            self.rows.push(Row {
                buffer: *buffer,
                ty: of.ty.clone(),
                place: of.place,
                first: *step,
                last: *step,
                primitive: operation,
                location: None,
                tape: false,
                read_back: Vec::new(),
                kept: Vec::new(),
                names: Vec::new(),
            });
        }
        self.peak = self.peak.max(kernel.workspace);
    }

    /// Returns the largest number of bytes of workspace that residuals take at one time.
    pub fn tape(&self) -> usize {
        let rows = || self.rows.iter().filter(|row| row.is_tape());
        let at = |step: usize| {
            let alive = rows().filter(|row| row.first <= step && step <= row.last);
            let inside = self.inside.iter().filter(|inside| inside.step == step);
            let own: usize = alive.map(|row| row.ty.bytes()).sum();
            own + inside.map(|inside| inside.bytes).sum::<usize>()
        };
        // The maximum is reached where a residual's lifetime begins, or in a step with a tape inside.
        let steps = rows().map(|row| row.first).chain(self.inside.iter().map(|i| i.step));
        steps.map(at).max().unwrap_or(0)
    }

    /// Writes one text line for each dynamic tape: the bytes that each iteration adds to the tape.
    pub(crate) fn records(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, Tape { record, loc, within }) in &self.tapes {
            let at =
                |loc: &Loc| loc.map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
            write!(f, "{id}: {record} bytes more for each iteration of the loop{}", at(loc))?;
            for outer in within {
                write!(f, ", in each of that{}", at(outer))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let heads = ["buffer", "what", "type", "bytes", "place", "steps", "from"];
        let mut lines = vec![heads.map(String::from)];
        lines.extend(self.rows.iter().map(Row::cells));
        lines.extend(self.workspaces.iter().map(StepWorkspace::cells));
        table(f, &lines)?;
        let s = if self.steps == 1 { "" } else { "s" };
        writeln!(f, "{} step{s}, workspace of {} bytes", self.steps, self.peak)?;
        self.records(f)?;
        for residual in &self.large_residuals {
            writeln!(f, "{residual}")?;
        }
        for CallRow { name, equations, sites, kernel } in &self.calls {
            let kept = kernel.map_or("inlined".to_owned(), |k| format!("compiled once, as {k}"));
            writeln!(f, "@{name}: {kept} ({equations} equations, {sites} times)")?;
        }
        Ok(())
    }
}
