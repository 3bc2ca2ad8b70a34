//! What loops say of themselves: how their rounds depend on each other, and what they carry.

use super::Verifier;
use crate::kernel::rounds::{self, Meet};
use crate::kernel::{Carry, Place, Rounds, Stmt, lanes, visit};

impl Verifier<'_> {
    /// What a loop claims of its rounds must not be seen to be wrong, and lanes must be legal.
    pub(super) fn claim(&mut self, stmt: &Stmt) {
        let Stmt::For { index, extent, rounds: claimed, lanes, carries, body } = stmt else {
            return;
        };
        let (index, claimed) = (*index, *claimed);
        if claimed == Rounds::Serial && *lanes == 1 {
            return;
        }
        let mut valid = true;
        visit(body, &mut |s| {
            s.accesses(&mut |a| valid &= self.p.buffers.is_valid(a.buffer));
        });
        if valid
            && *lanes != 1
            && let Some(why) = lanes::refused(self.p, stmt, *lanes)
        {
            self.error(format!("{index} cannot run in {lanes} lanes: {why}"));
        }
        if claimed == Rounds::Serial {
            return;
        }
        let (weakest, why) = rounds::variables(body);
        if weakest > claimed {
            self.error(format!("the rounds of {index} are no `{claimed}`: {why}; say `{weakest}`"));
        }
        if let Some(c) = carries.first() {
            self.error(format!(
                "the rounds of {index} are no `{claimed}`: {c} is carried; say `serial`"
            ));
        }
        if valid && let Meet::Always(what) = rounds::memory(self.p, index, *extent, body) {
            self.error(format!("the rounds of {index} are no `{claimed}`: {what}; say `serial`"));
        }
    }

    /// Checks what a loop carries; how many buffers exchanged places before.
    pub(super) fn carries(&mut self, carries: &[Carry], body: &[Stmt]) -> usize {
        let open = self.carried.len();
        for Carry { now, next } in carries {
            for h in [now, next] {
                self.version(h.buffer, h.version);
            }
            let (Some(a), Some(b)) =
                (self.p.buffers.get(now.buffer), self.p.buffers.get(next.buffer))
            else {
                self.error(format!("{} or {} does not exist", now.buffer, next.buffer));
                continue;
            };
            let mut written = false;
            visit(body, &mut |s| {
                s.accesses(&mut |x| {
                    written |= x.write && x.buffer == next.buffer && x.version == next.version;
                });
                let handed = |c: &Carry| c.now == *next;
                written |= s.carries().iter().any(handed);
            });
            if !written && b.ty.bytes() > 0 {
                self.error(format!("{next} is carried, but no round writes it"));
            }
            if now == next {
                self.error(format!("{now} is carried to itself"));
            }
            if matches!(a.place, Place::Input(_)) || matches!(b.place, Place::Input(_)) {
                self.error(format!("{now} = {next} carries an input"));
            }
            if now.buffer == next.buffer {
                continue;
            }
            if a.ty != b.ty {
                self.error(format!("{now} = {next} carries {} and {}", a.ty, b.ty));
            }
            self.carried.extend([now.buffer, next.buffer]);
        }
        let known = self.carried.clone();
        for (i, buffer) in known.iter().enumerate() {
            if i >= open && known[..i].contains(buffer) {
                self.error(format!("{buffer} exchanges places twice"));
            }
        }
        for buffer in &known[open..] {
            // Whatever else the rounds touch must lie beside both places.
            let mut others = Vec::new();
            visit(body, &mut |s| s.accesses(&mut |a| others.push(a.buffer)));
            others.extend(known.iter().copied());
            for other in others {
                let both = [*buffer, other].iter().all(|b| self.p.buffers.is_valid(*b));
                if other != *buffer && both && !rounds::disjoint(self.p, *buffer, other) {
                    self.error(format!("{buffer} exchanges places, but shares bytes with {other}"));
                    break;
                }
            }
        }
        open
    }
}
