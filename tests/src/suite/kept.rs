//! What a compiled gradient keeps: bytes that lie in memory between forward and backward.

use super::{Given, Gradient};
use crate::Failure;
use tapeloom::prelude::*;
use tapeloom_backend::kernel::{Place, Stmt, visit};
use tapeloom_backend::{Options, Report, compile};
use tapeloom_ir::parse_module;

/// Bytes alive between forward and backward, and the most that a call uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept {
    /// What lies in the workspace when the result is complete, and is read again.
    pub planned: usize,
    /// What the rounds of loops kept at most whose number only the run knows, also of rounds that the
    /// backward pass ran again.
    pub records: usize,
    /// Arguments, results, workspace and records together.
    pub peak: usize,
}

impl Kept {
    /// All that is kept.
    pub fn bytes(self) -> usize {
        self.planned + self.records
    }

    /// Of a gradient, which is called once.
    ///
    /// # Errors
    /// What the compiler says.
    pub fn of(
        gradient: Gradient,
        (variables, data, seed): &Given<Tensor>,
    ) -> Result<Kept, Failure> {
        let f = jit(gradient);
        let arguments = (variables, data, seed);
        let explained = f.explain(arguments)?;
        let texts = explained.stages().iter().rev().map(|s| &s.text);
        let text = texts.clone().find(|t| !t.is_empty()).ok_or("no program")?;
        let m = parse_module(text).map_err(|e| e[0].clone())?;
        let (id, _) = m.iter().last().ok_or("no function")?;
        let compiled = compile(&m, id, &Options::default())?;
        let report = f.report(arguments)?.1;
        let planned = between(compiled.report());
        Ok(Kept { planned, records: report.records, peak: report.peak_bytes() })
    }
}

/// Bytes of the workspace that are written until the step in which the first result is complete, and read
/// after it. (What belongs to the backward pass alone and is made early by chance counts, too.)
fn between(report: &Report) -> usize {
    let entry = &report.program.entry;
    let writes = |step: &Stmt| {
        let mut found = false;
        visit(std::slice::from_ref(step), &mut |s| {
            s.accesses(&mut |a| {
                found |= a.write && entry.buffers[a.buffer].place == Place::Output(0);
            });
        });
        found
    };
    let Some(turn) = entry.body.iter().rposition(writes) else { return 0 };
    let lies = |place| matches!(place, Place::Workspace(_));
    let rows = report.plan.rows.iter();
    let alive = rows.filter(|r| lies(r.place) && r.first <= turn && turn < r.last);
    alive.map(|r| r.ty.bytes()).sum()
}
