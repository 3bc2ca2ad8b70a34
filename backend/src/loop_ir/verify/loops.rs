//! Verifies the claims of loops: the dependence of iterations, lanes, and carries.

use super::Verifier;
use super::calls::{Span, memory, overlapping};
use crate::loop_ir::analysis::dependence::{self, Dependence};
use crate::loop_ir::{
    BufferId, Carry, Parallelism, Place, Stmt, Version, concurrency, legal_lanes, visit,
};
use tapeloom_ir::OrderedSet;

impl Verifier<'_> {
    /// Checks that the analysis does not refute the claimed parallelism of a loop, and that the loop's number of
    /// vector lanes is legal.
    pub(super) fn claim(&mut self, stmt: &Stmt) {
        let Stmt::For { index, extent, parallelism: claimed, lanes, carries, body, .. } = stmt
        else {
            return;
        };
        let (index, claimed) = (*index, *claimed);
        if claimed == Parallelism::Serial && *lanes == 1 {
            return;
        }
        let mut valid = true;
        visit(body, &mut |s| {
            s.accesses(&mut |a| valid &= self.p.buffers.is_valid(a.held.buffer));
            s.args(&mut |a| valid &= self.p.declared(a).is_some());
            valid &= s.assigned().is_none_or(|(var, _)| self.p.vars.is_valid(var));
            valid &= s.defined().is_none_or(|value| self.p.scalars.is_valid(value));
        });
        if valid
            && *lanes != 1
            && let Some(why) = legal_lanes::refused(self.p, stmt, *lanes)
        {
            self.error(format!("{index} cannot run in {lanes} lanes: {why}"));
        }
        if claimed == Parallelism::Serial {
            return;
        }
        if claimed == Parallelism::Concurrent {
            let around = match (self.kernel, self.concurrent) {
                (Some(_), _) => Some("the kernel is not the entry".to_owned()),
                (None, Some(around)) => Some(format!("it is inside {around}, which is concurrent")),
                (None, None) => None,
            };
            let refused = || valid.then(|| concurrency::refused(self.p, stmt)).flatten();
            if let Some(why) = around.or_else(refused) {
                self.error(format!("{index} cannot be `concurrent`: {why}"));
            }
            return;
        }
        let (weakest, why) = dependence::variables(body);
        if weakest > claimed {
            self.error(format!(
                "the iterations of {index} are no `{claimed}`: {why}; say `{weakest}`"
            ));
        }
        if let Some(c) = carries.first() {
            self.error(format!(
                "the iterations of {index} are no `{claimed}`: {c} is carried; say `serial`"
            ));
        }
        if valid && let Dependence::Always(what) = dependence::memory(self.p, index, *extent, body)
        {
            self.error(format!(
                "the iterations of {index} are no `{claimed}`: {what}; say `serial`"
            ));
        }
    }

    /// Checks the carries of a loop, and adds the buffers that it exchanges (carries with two buffers) to `carried`.
    /// Returns the length of `carried` before, to which the caller truncates it after the loop.
    pub(super) fn carries(&mut self, carries: &[Carry], body: &[Stmt]) -> usize {
        let open = self.carried.len();
        if carries.is_empty() {
            return open;
        }
        let (mut touched, mut written) = (OrderedSet::default(), OrderedSet::default());
        visit(body, &mut |s| {
            s.accesses(&mut |x| {
                touched.insert(x.held.buffer);
                written.extend(x.write.then_some(x.held));
            });
            written.extend(s.carries().iter().map(|c| c.input));
        });
        for Carry { input, output } in carries {
            [input, output].into_iter().for_each(|h| self.named(*h));
            let (Some(a), Some(b)) =
                (self.p.buffers.get(input.buffer), self.p.buffers.get(output.buffer))
            else {
                self.error(format!("{} or {} does not exist", input.buffer, output.buffer));
                continue;
            };
            // If the version `output` continues `input`, `output` already has the elements of `input`, so iterations
            // need not write any.
            let versions = &self.p.versions[output.buffer];
            let own = output.version.checked_sub(1).and_then(|n| versions.get(n as usize));
            let goes_on = input.buffer == output.buffer
                && own.is_some_and(|v: &Version| v.continues == Some(input.version));
            if !written.contains(output) && b.ty.bytes() > 0 && !goes_on {
                self.error(format!("{output} is carried, but no iteration writes it"));
            }
            if input == output {
                self.error(format!("{input} is carried to itself"));
            }
            if matches!(a.place, Place::Input(_)) || matches!(b.place, Place::Input(_)) {
                self.error(format!("{input} = {output} carries an input"));
            }
            if input.buffer == output.buffer {
                continue;
            }
            if a.ty != b.ty {
                self.error(format!("{input} = {output} carries {} and {}", a.ty, b.ty));
            }
            self.carried.extend([input.buffer, output.buffer]);
        }
        let mut known: OrderedSet<BufferId> = self.carried[..open].iter().copied().collect();
        for buffer in self.carried.split_off(open) {
            match known.insert(buffer) {
                true => self.carried.push(buffer),
                false => self.error(format!("{buffer} is exchanged twice")),
            }
        }
        // No other buffer that the iterations access may overlap one of the exchanged buffers.
        let mut spans = Vec::new();
        touched.extend(known.iter().copied());
        for buffer in touched {
            let Some(b) = self.p.buffers.get(buffer) else { continue };
            let (place, from) = memory(b.place);
            let to = from.saturating_add(b.ty.bytes() as i128);
            let alone = known.get_index_of(&buffer).is_some_and(|i| i >= open);
            if from < to {
                spans.push(Span { place, from, to, what: buffer, alone });
            }
        }
        for (it, beside) in overlapping(&mut spans) {
            let (it, beside) = (it.what, beside.what);
            self.error(format!("{it} is exchanged, but shares bytes with {beside}"));
        }
        open
    }
}
