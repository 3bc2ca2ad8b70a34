//! Register allocation: a linear scan over live intervals.
//!
//! An interval is from the first assignment of a register to its last use; where a loop reads what was assigned before
//! it, to the end of that loop. Where more intervals are open than there are registers, the one that costs least by its
//! length goes to the frame, for all of its life; a constant or a word of the row costs least, since it is read where it is.
//!
//! Poletto and Sarkar, *Linear scan register allocation* (1999).

use super::form::{Class, Form, Inst, Reg};
use cranelift_entity::SecondaryMap;

/// Where a virtual register is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Home {
    /// Nothing uses it.
    #[default]
    Nowhere,
    /// In a register of the machine.
    Register(u8),
    /// In the frame: the number of a slot of its class.
    Slot(usize),
    /// Where it comes from: a constant, or a word of the row.
    Source,
}

/// Where every virtual register is.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) homes: SecondaryMap<Reg, Home>,
    /// From the first assignment to the last use, as positions.
    pub(crate) live: SecondaryMap<Reg, Option<(usize, usize)>>,
    /// Slots of vectors and of masks.
    pub(crate) slots: (usize, usize),
}

struct Interval {
    reg: Reg,
    start: usize,
    end: usize,
    /// What it costs to be in memory, by its length.
    weight: f64,
    rematerialized: bool,
}

/// Allocates registers of the machine, from those given. Where there are none for masks, they are vectors.
pub(crate) fn allocate(form: &Form, vectors: &[u8], masks: &[u8]) -> Allocation {
    let intervals = intervals(form);
    let mut all =
        Allocation { homes: SecondaryMap::new(), live: SecondaryMap::new(), slots: (0, 0) };
    for i in &intervals {
        all.live[i.reg] = Some((i.start, i.end));
    }
    let pools: &[(&[Class], &[u8])] = match masks {
        [] => &[(&[Class::Vector, Class::Mask], vectors)],
        _ => &[(&[Class::Vector], vectors), (&[Class::Mask], masks)],
    };
    for (classes, machine) in pools {
        let mut free: Vec<u8> = machine.iter().rev().copied().collect();
        let mut active: Vec<&Interval> = Vec::new();
        let mut slots = 0;
        for i in intervals.iter().filter(|i| classes.contains(&form.regs[i.reg])) {
            active.retain(|a| {
                // A register may be assigned by the instruction that reads another one for the last time.
                let open = a.end > i.start;
                if !open && let Home::Register(r) = all.homes[a.reg] {
                    free.push(r);
                }
                open
            });
            let mut spill = |of: &Interval| {
                if of.rematerialized {
                    return Home::Source;
                }
                slots += 1;
                Home::Slot(slots - 1)
            };
            if let Some(r) = free.pop() {
                all.homes[i.reg] = Home::Register(r);
                active.push(i);
                continue;
            }
            let least =
                (0..active.len()).min_by(|a, b| active[*a].weight.total_cmp(&active[*b].weight));
            match least {
                Some(at) if active[at].weight < i.weight => {
                    let victim = std::mem::replace(&mut active[at], i);
                    all.homes[i.reg] = all.homes[victim.reg];
                    all.homes[victim.reg] = spill(victim);
                }
                _ => all.homes[i.reg] = spill(i),
            }
        }
        if classes.contains(&Class::Vector) {
            all.slots.0 = slots;
        } else {
            all.slots.1 = slots;
        }
    }
    all
}

/// The intervals, by their starts.
fn intervals(form: &Form) -> Vec<Interval> {
    let mut span: SecondaryMap<Reg, Option<(usize, usize)>> = SecondaryMap::new();
    let mut cost: SecondaryMap<Reg, f64> = SecondaryMap::new();
    let mut source: SecondaryMap<Reg, bool> = SecondaryMap::new();
    let mut loops: Vec<(usize, usize)> = Vec::new();
    let mut open = Vec::new();
    let mut weight = 1.0;
    for (at, inst) in form.body.iter().enumerate() {
        match inst {
            Inst::Loop { .. } => {
                open.push(at);
                weight *= 8.0;
            }
            Inst::Lanes { .. } => {
                open.push(at);
                weight *= 8.0;
            }
            Inst::LoopEnd { .. } | Inst::LanesEnd { .. } => {
                loops.extend(open.pop().map(|from| (from, at)));
                weight /= 8.0;
            }
            _ => {}
        }
        let (to, read) = inst.registers();
        for reg in read.iter().copied().chain(to) {
            let (start, _) = span[reg].unwrap_or((at, at));
            span[reg] = Some((start, at));
            cost[reg] += weight;
        }
        if let (Inst::Constant { to, .. } | Inst::Word { to, .. }, true) = (inst, true) {
            source[*to] = true;
        }
    }
    // A word that is assigned again, as variables are, is not where it comes from.
    for inst in &form.body {
        if let Some(to) = inst.registers().0
            && !matches!(inst, Inst::Constant { .. } | Inst::Word { .. })
        {
            source[to] = false;
        }
    }
    // What was assigned before a loop and is read in it is read again: inner loops first.
    for (from, to) in &loops {
        for at in *from..=*to {
            let (assigned, read) = form.body[at].registers();
            for reg in read.iter().copied().chain(assigned) {
                if let Some((start, end)) = span[reg]
                    && start < *from
                    && end < *to
                {
                    span[reg] = Some((start, *to));
                }
            }
        }
    }
    let mut all: Vec<Interval> = form
        .regs
        .keys()
        .filter_map(|reg| {
            let (start, end) = span[reg]?;
            let cheap = if source[reg] { 0.25 } else { 1.0 };
            let weight = cheap * cost[reg] / (end - start + 1) as f64;
            Some(Interval { reg, start, end, weight, rematerialized: source[reg] })
        })
        .collect();
    all.sort_by_key(|i| i.start);
    all
}
