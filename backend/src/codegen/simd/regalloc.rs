//! Register allocation: a linear scan over live intervals (Poletto and Sarkar, 1999).
//!
//! An interval begins with the first assignment of a virtual register and ends with its last use. If a loop reads a
//! value from before the loop, the interval extends to the end of that loop. If more intervals overlap than there are
//! machine registers, the interval with the least spill cost per length is in the frame from its start to its end. A
//! constant or a word of the row (the nest's arguments) costs least to spill, because it is read from its source.
//!
//! Poletto and Sarkar, *Linear scan register allocation* (1999).

use super::form::{Class, Inst, Reg, VectorProgram};
use cranelift_entity::SecondaryMap;

/// The location of a virtual register's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Location {
    /// The virtual register is unused.
    #[default]
    Nowhere,
    /// A register of the machine, by its number.
    Register(u8),
    /// A slot of the stack frame, by its number among the slots for vectors, or for masks.
    Slot(usize),
    /// The value has no register and no slot: each use reads the constant, or the word of the row (the nest's
    /// arguments), that defines the value.
    Source,
}

/// The result of register allocation: the location of every virtual register.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) locations: SecondaryMap<Reg, Location>,
    /// Per virtual register: its live interval from the first assignment to the last use, as indices of instructions.
    pub(crate) live: SecondaryMap<Reg, Option<(usize, usize)>>,
    /// How many slots of the stack frame there are for vectors, and how many for masks.
    pub(crate) slots: (usize, usize),
}

struct Interval {
    reg: Reg,
    start: usize,
    end: usize,
    /// The cost of spilling the register, divided by the length of its live interval.
    weight: f64,
    rematerialized: bool,
}

/// Assigns to each virtual register one of the machine registers numbered `vectors` or `masks`, or a slot of the stack
/// frame.
/// If `masks` is empty, masks are in vector registers.
pub(crate) fn allocate(program: &VectorProgram, vectors: &[u8], masks: &[u8]) -> Allocation {
    let intervals = intervals(program);
    let mut all =
        Allocation { locations: SecondaryMap::new(), live: SecondaryMap::new(), slots: (0, 0) };
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
        for i in intervals.iter().filter(|i| classes.contains(&program.regs[i.reg])) {
            active.retain(|a| {
                // An interval that ends where the new one starts does not overlap it: an instruction may write its
                // result to the register of an operand that it reads for the last time.
                let open = a.end > i.start;
                if !open && let Location::Register(r) = all.locations[a.reg] {
                    free.push(r);
                }
                open
            });
            let mut spill = |of: &Interval| {
                if of.rematerialized {
                    return Location::Source;
                }
                slots += 1;
                Location::Slot(slots - 1)
            };
            if let Some(r) = free.pop() {
                all.locations[i.reg] = Location::Register(r);
                active.push(i);
                continue;
            }
            let least =
                (0..active.len()).min_by(|a, b| active[*a].weight.total_cmp(&active[*b].weight));
            match least {
                Some(at) if active[at].weight < i.weight => {
                    let victim = std::mem::replace(&mut active[at], i);
                    all.locations[i.reg] = all.locations[victim.reg];
                    all.locations[victim.reg] = spill(victim);
                }
                _ => all.locations[i.reg] = spill(i),
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

/// Returns the live intervals of the virtual registers, sorted by their starts.
fn intervals(program: &VectorProgram) -> Vec<Interval> {
    let mut span: SecondaryMap<Reg, Option<(usize, usize)>> = SecondaryMap::new();
    let mut cost: SecondaryMap<Reg, f64> = SecondaryMap::new();
    let mut source: SecondaryMap<Reg, bool> = SecondaryMap::new();
    let mut loops: Vec<(usize, usize)> = Vec::new();
    let mut open = Vec::new();
    let mut weight = 1.0;
    for (at, inst) in program.body.iter().enumerate() {
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
    // A virtual register that any instruction except `Constant` and `Word` assigns, such as the register of a variable,
    // cannot be reloaded from a constant or a word of the row.
    for inst in &program.body {
        if let Some(to) = inst.registers().0
            && !matches!(inst, Inst::Constant { .. } | Inst::Word { .. })
        {
            source[to] = false;
        }
    }
    // A value from before a loop that is read inside the loop is live until the loop's end. `loops` lists inner loops
    // before outer loops.
    for (from, to) in &loops {
        for at in *from..=*to {
            let (assigned, read) = program.body[at].registers();
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
    let mut all: Vec<Interval> = program
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
