//! The memory plan as a table, as `explain` prints it.
//!
//! ```text
//! buffer  what            type         bytes    place          steps  from
//! b2      exp             f64[8,100]   6400     workspace+0    0-1    src/main.rs:7
//! ```

use crate::loop_ir::{Buffer, BufferId, KernelId, Place, Program, Stmt, Tape, TapeId, visit};
use crate::passes::Hoisted;
use crate::report::columns::table;
use crate::report::loop_tape_warnings::LargeResidual;
use crate::report::rematerialized::Rematerialized;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::fmt;
use std::sync::Arc;
use tapeloom_ir::prim::Mark;
use tapeloom_ir::{ArrayType, Loc, Origin};

/// The memory plan: the memory (workspace or result) and the lifetime of every buffer of a program.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The table's rows, one for each buffer: results first, then buffers in the workspace.
    pub rows: Vec<Row>,
    /// The number of steps of the program: its top-level statements, in whose indices lifetimes are counted.
    pub steps: usize,
    /// The exact peak of a call's workspace in bytes, without arguments and results.
    pub peak: usize,
    /// The functions that the user requested to compile once, instead of inlining each call.
    pub calls: Vec<CallRow>,
    /// The dynamic tapes: residuals of loops whose trip count is known only at run time.
    pub tapes: PrimaryMap<TapeId, Tape>,
    /// The residuals that loops save in each iteration and that are as large as a carry of their loop.
    pub large_residuals: Vec<LargeResidual>,
    /// The equations whose results the reverse pass recomputes instead of reading them from the tape.
    pub rematerialized: Vec<Rematerialized>,
    /// The tapes that exist only while one step (top-level statement) runs, because a forward pass and its reverse pass
    /// both lie in that step (in an iteration of a loop, in a branch, or in a called function).
    pub inside: Vec<TapeInStep>,
    /// The scratch memory of steps (top-level statements) that call functions, in addition to the buffers that these
    /// steps read and write.
    pub workspaces: Vec<StepWorkspace>,
}

/// The scratch memory that one step (top-level statement of the program) uses in the workspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepWorkspace {
    /// The index of the step in the program.
    pub step: usize,
    /// The offset in bytes of the scratch memory in the workspace.
    pub offset: usize,
    /// The size in bytes of the step's scratch memory.
    pub bytes: usize,
}

/// A tape in the scratch memory of one step (top-level statement of the program): a forward pass and its reverse pass
/// both lie in that step.
#[derive(Clone, Debug)]
pub struct TapeInStep {
    /// The index of the step in the program.
    pub step: usize,
    /// The largest number of bytes that the residuals inside the step take at one time.
    pub bytes: usize,
    /// The table rows of the buffers of the tape inside the step (top-level statement), including those of nested
    /// statements.
    pub rows: Vec<Row>,
}

/// A function that the user requested to compile once instead of inlining it, and whether that was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// The name of the function.
    pub name: Arc<str>,
    /// The number of equations of the function, including those of the functions that it calls.
    pub equations: usize,
    /// The number of copies of the function's body that inlining all calls would make.
    pub sites: usize,
    /// The kernel into which the function is compiled; `None` if its calls are inlined nevertheless.
    pub kernel: Option<KernelId>,
}

/// A row of the memory plan: one buffer.
#[derive(Clone, Debug)]
pub struct Row {
    /// The id of the buffer in the loop program.
    pub buffer: BufferId,
    /// The type of the array that the buffer holds.
    pub ty: ArrayType,
    /// The memory in which the buffer lies (workspace, argument or result), with its offset there.
    pub place: Place,
    /// The index of the first step (top-level statement) that writes the buffer.
    pub first: usize,
    /// The index of the last step (top-level statement) that reads or writes the buffer.
    pub last: usize,
    /// The name of the primitive whose output the buffer holds. If several equations write the buffer, the name of the
    /// first equation's primitive.
    pub primitive: &'static str,
    /// The user's source line of the equation whose output the buffer holds.
    pub location: Loc,
    /// Whether a forward pass writes the buffer and a reverse pass reads it.
    pub tape: bool,
    /// The equations of the reverse pass that read the buffer, with their source lines.
    pub read_back: Vec<Origin>,
    /// The marks (`Mark`) of barriers on saved values in the buffer, such as residual, packed or rounded.
    pub kept: Vec<Mark>,
    /// The names that the user gave to values that the buffer holds.
    pub names: Vec<Arc<str>>,
}

/// The representation of a residual in its buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Representation {
    /// The value is stored unchanged.
    Stored,
    /// The value is packed into fewer bytes, without loss.
    Packed,
    /// The value is stored in fewer bytes, each number rounded ([`ROUNDING`](tapeloom_ir::ROUNDING)).
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
    /// Returns whether the buffer occupies workspace between a forward pass and its reverse pass. Results lie outside
    /// the workspace, so they do not count.
    pub fn is_tape(&self) -> bool {
        self.tape && self.is_workspace()
    }

    /// Returns the representation of the buffer's value: unchanged, packed or rounded.
    pub fn how(&self) -> Representation {
        let marked = |mark: Mark| self.kept.contains(&mark);
        match (marked(Mark::Packed), marked(Mark::Rounded)) {
            (_, true) => Representation::Rounded,
            (true, false) => Representation::Packed,
            (false, false) => Representation::Stored,
        }
    }

    /// Returns the text of the table's value column: the user's names, if there are any, and the type.
    pub fn value(&self) -> String {
        match self.names.join(", ") {
            names if names.is_empty() => self.ty.to_string(),
            names => format!("{names}: {}", self.ty),
        }
    }

    /// Returns whether the buffer lies in the workspace.
    pub fn is_workspace(&self) -> bool {
        self.offset().is_some()
    }

    /// Returns the offset in bytes of the buffer in the workspace; `None` if the buffer lies elsewhere.
    pub fn offset(&self) -> Option<usize> {
        match self.place {
            Place::Workspace(offset) => Some(offset),
            Place::Input(_)
            | Place::Output(_)
            | Place::Donated { .. }
            | Place::Private(_)
            | Place::Unplaced
            | Place::Record { .. } => None,
        }
    }

    /// Returns the cells of this buffer's row of the printed memory plan.
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
                Place::Private(offset) => format!("private+{offset}"),
                place @ (Place::Output(_)
                | Place::Donated { .. }
                | Place::Unplaced
                | Place::Record { .. }) => place.to_string(),
            },
            format!("{}-{}", self.first, self.last),
            self.location.map_or(String::new(), |l| format!("{}:{}", l.file(), l.line())),
        ]
    }
}

impl StepWorkspace {
    /// Returns the cells of the printed memory plan's row for the scratch memory of a step (top-level statement).
    pub(crate) fn cells(&self) -> [String; 7] {
        let StepWorkspace { step, offset, bytes } = *self;
        let [buffer, ty, line] = [const { String::new() }; 3];
        let (what, place) = ("inside of a step".to_owned(), format!("workspace+{offset}"));
        [buffer, what, ty, bytes.to_string(), place, format!("{step}-{step}"), line]
    }
}

impl Plan {
    /// Copies the buffers' memory and lifetimes, and the peak of the workspace, from the entry kernel after all passes.
    /// Adds rows for the buffers that passes allocated when they hoisted statements out of loops, and removes the rows
    /// of buffers that no longer have memory.
    pub(crate) fn complete(&mut self, program: &Program, made: &[Hoisted]) {
        let kernel = &program.entry;
        for Hoisted { buffer, operation } in made {
            let of = &kernel.buffers[*buffer];
            self.rows.push(Row {
                buffer: *buffer,
                ty: of.ty.clone(),
                place: of.place,
                first: 0,
                last: 0,
                primitive: operation,
                location: None,
                tape: false,
                read_back: Vec::new(),
                kept: Vec::new(),
                names: Vec::new(),
            });
        }
        let mut life: SecondaryMap<BufferId, Option<(usize, usize)>> = SecondaryMap::new();
        for (step, stmt) in kernel.body.iter().enumerate() {
            visit(std::slice::from_ref(stmt), &mut |stmt| {
                stmt.buffers(&mut |buffer| {
                    let (first, _) = life[buffer].unwrap_or((step, step));
                    life[buffer] = Some((first, step));
                });
            });
        }
        self.rows.retain_mut(|row| {
            row.place = kernel.buffers[row.buffer].place;
            (row.first, row.last) = life[row.buffer].unwrap_or((row.first, row.last));
            row.place != Place::Unplaced
        });
        self.peak = kernel.workspace;
        self.workspaces = self.inside_of_steps(program);
    }

    /// Returns the scratch memory of each step (top-level statement): the smallest range of workspace bytes that
    /// contains the step's buffers without a row in the plan and the frames of the kernels that the step calls.
    fn inside_of_steps(&self, program: &Program) -> Vec<StepWorkspace> {
        let Program { entry: kernel, callees, .. } = program;
        let mut listed: SecondaryMap<BufferId, bool> = SecondaryMap::new();
        self.rows.iter().for_each(|row| listed[row.buffer] = true);
        let of_step = |(step, stmt): (usize, &Stmt)| {
            let mut ranges: Vec<(usize, usize)> = Vec::new();
            visit(std::slice::from_ref(stmt), &mut |stmt| {
                stmt.buffers(&mut |buffer| {
                    let Buffer { ty, place, .. } = &kernel.buffers[buffer];
                    if let (Place::Workspace(at), false) = (place, listed[buffer]) {
                        ranges.push((*at, at + ty.bytes()));
                    }
                });
                if let Stmt::Call(call) = stmt {
                    ranges.push((call.frame, call.frame + callees[call.callee].workspace));
                }
            });
            let used = ranges.into_iter().filter(|(from, to)| from < to);
            let (from, to) = used.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
            Some(StepWorkspace { step, offset: from, bytes: to - from })
        };
        kernel.body.iter().enumerate().filter_map(of_step).collect()
    }

    /// Returns the peak of the tape: the largest number of bytes of workspace that residuals take at one time.
    pub fn tape(&self) -> usize {
        let rows = || self.rows.iter().filter(|row| row.is_tape());
        let at = |step: usize| {
            let alive = rows().filter(|row| row.first <= step && step <= row.last);
            let inside = self.inside.iter().filter(|inside| inside.step == step);
            let own: usize = alive.map(|row| row.ty.bytes()).sum();
            own + inside.map(|inside| inside.bytes).sum::<usize>()
        };
        // The maximum is reached in a step (top-level statement) where a residual's lifetime begins, or in a step with
        // a tape inside it.
        let steps = rows().map(|row| row.first).chain(self.inside.iter().map(|i| i.step));
        steps.map(at).max().unwrap_or(0)
    }

    /// Writes one line of text for each dynamic tape: the number of bytes by which each iteration extends the tape.
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
