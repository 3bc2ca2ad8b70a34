//! The memory plan as a table: what `explain` prints.
//!
//! ```text
//! buffer  what            type         bytes    place          steps  from
//! b2      exp             f64[8,100]   6400     workspace+0    0-1    src/main.rs:7
//! ```

use crate::keeping::Keeping;
use crate::kernel::{BufferId, KernelId, Place, Tape, TapeId};
use cranelift_entity::PrimaryMap;
use std::fmt;
use std::sync::Arc;
use tapeloom_ir::{ArrayType, Loc};

/// Where every value that needs memory lies, and when.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Results first, then the workspace.
    pub rows: Vec<Row>,
    /// Number of steps of the program.
    pub steps: usize,
    /// Bytes of workspace: the exact peak beside arguments and results.
    pub peak: usize,
    /// The functions that were asked to be compiled once.
    pub calls: Vec<CallRow>,
    /// What the rounds of loops keep of which only the run knows how many there are.
    pub tapes: PrimaryMap<TapeId, Tape>,
    /// What rounds keep that is as large as what they carry.
    pub keeping: Vec<Keeping>,
}

/// A function that was asked to be compiled once, and what became of that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallRow {
    /// Its name.
    pub name: Arc<str>,
    /// Its equations, with those of what it calls.
    pub equations: usize,
    /// How often it would be written out.
    pub sites: usize,
    /// What it is compiled to; `None` where its calls are inlined.
    pub kernel: Option<KernelId>,
}

/// A buffer of the plan.
#[derive(Clone, Debug)]
pub struct Row {
    /// The buffer.
    pub buffer: BufferId,
    /// What it holds.
    pub ty: ArrayType,
    /// Where it is.
    pub place: Place,
    /// The first step that writes it.
    pub first: usize,
    /// The last step that reads or writes it.
    pub last: usize,
    /// The primitive whose output it holds (the first, where several write it in turn).
    pub primitive: &'static str,
    /// The user's line.
    pub location: Loc,
    /// The names under which values in it are kept for the backward pass.
    pub kept: Vec<Arc<str>>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines =
            vec![["buffer", "what", "type", "bytes", "place", "steps", "from"].map(String::from)];
        for r in &self.rows {
            lines.push([
                r.buffer.to_string(),
                match r.kept.join(", ") {
                    names if names.is_empty() => r.primitive.to_owned(),
                    names => format!("{}, kept {names}", r.primitive),
                },
                r.ty.to_string(),
                r.ty.bytes().to_string(),
                match r.place {
                    Place::Input(i) => format!("input {i}"),
                    Place::Workspace(offset) => format!("workspace+{offset}"),
                    place @ (Place::Output(_) | Place::Given { .. } | Place::Record { .. }) => {
                        place.to_string()
                    }
                },
                format!("{}-{}", r.first, r.last),
                r.location.map_or(String::new(), |l| format!("{}:{}", l.file(), l.line())),
            ]);
        }
        let mut widths = [0; 7];
        for line in &lines {
            for (w, cell) in widths.iter_mut().zip(line) {
                *w = cell.len().max(*w);
            }
        }
        for line in &lines {
            let cells: Vec<String> =
                line.iter().zip(widths).map(|(cell, w)| format!("{cell:w$}")).collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        let s = if self.steps == 1 { "" } else { "s" };
        writeln!(f, "{} step{s}, workspace of {} bytes", self.steps, self.peak)?;
        for (id, Tape { record, loc, within }) in &self.tapes {
            let at =
                |loc: &Loc| loc.map_or(String::new(), |l| format!(" at {}:{}", l.file(), l.line()));
            write!(f, "{id}: {record} bytes more for each round of the loop{}", at(loc))?;
            for outer in within {
                write!(f, ", in each of that{}", at(outer))?;
            }
            writeln!(f)?;
        }
        for keeping in &self.keeping {
            writeln!(f, "{keeping}")?;
        }
        for CallRow { name, equations, sites, kernel } in &self.calls {
            let kept = kernel.map_or("inlined".to_owned(), |k| format!("compiled once, as {k}"));
            writeln!(f, "@{name}: {kept} ({equations} equations, {sites} times)")?;
        }
        Ok(())
    }
}
