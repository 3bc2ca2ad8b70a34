//! The window: operations that are known and not finished, and what each waits for.
//!
//! An operation waits for its operands and for what stands in its way:
//!
//! * a load waits for stores before it to the same word of 8 bytes, a store for all accesses to it;
//! * a layer waits for the barrier before it, tape operations for their layer, a barrier for the tape
//!   operations of its layer;
//! * what is behind a branch is not even known before the branch has its operands.
//!
//! Nobody looks for what is ready. An operation counts what it waits for and stands in the lists of those;
//! who finishes counts it down, and the last one hands it on. A slot is free when its operation is
//! finished, whatever its neighbours do, so a token is a slot with the number of the operation in it, and
//! memory is that of the window however long the program is.

use super::op::{Entry, Layer, Token};
use super::opcode::Opcode;
use smallvec::SmallVec;
use tapeloom_ir::OrderedMap;
use tapeloom_ir::fault::{Fault, planted};

/// What an operation does, once it is known where.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    Compute(Opcode),
    /// An access to the cache.
    Access {
        address: u64,
        write: bool,
        of: Of,
    },
    /// An access to the scratchpad.
    Pad {
        entry: Entry,
        write: bool,
    },
    Layer(Layer),
    Barrier(u32),
}

/// What an access to the cache is of.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of {
    /// Not of the tape.
    Other,
    /// Of the tape, which lies at that address,
    Kept,
    /// or is made of entries.
    Entry(Entry),
}

pub(super) struct Slot {
    /// Its number, or `u64::MAX` when it is finished.
    pub(super) sequence: u64,
    pub(super) site: u32,
    pub(super) task: Task,
    pub(super) operands: SmallVec<[u64; 3]>,
    /// How many it waits for,
    waits: u32,
    /// and who waits for it.
    waiters: Vec<u32>,
}

/// Accesses under way to one word.
#[derive(Default)]
struct Word {
    under_way: u32,
    store: Option<Token>,
    loads: SmallVec<[Token; 2]>,
}

pub(super) struct Window {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The number of the last operation.
    pub(super) sequence: u64,
    words: OrderedMap<u64, Word>,
    /// Operands of the branch before the next operation.
    gate: SmallVec<[Token; 3]>,
    /// Of each stream the last layer or barrier, and the tape operations since.
    layers: Vec<(Token, Vec<Token>)>,
}

impl Window {
    pub(super) fn new(size: u64) -> Window {
        let slot = |_| Slot {
            sequence: u64::MAX,
            site: 0,
            task: Task::Barrier(0),
            operands: SmallVec::new(),
            waits: 0,
            waiters: Vec::new(),
        };
        Window {
            slots: (0..size).map(slot).collect(),
            free: (0..size as u32).rev().collect(),
            sequence: 0,
            words: OrderedMap::default(),
            gate: SmallVec::new(),
            layers: Vec::new(),
        }
    }

    pub(super) fn slot(&self, id: u32) -> &Slot {
        &self.slots[id as usize]
    }

    /// How many operations are not finished.
    pub(super) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Nothing more is known until these are there.
    pub(super) fn branch(&mut self, operands: &[Token]) {
        self.gate.extend_from_slice(operands);
    }

    /// Whether another operation is known, and has room.
    pub(super) fn is_open(&mut self) -> bool {
        let slots = &self.slots;
        self.gate.retain(|token| in_flight(slots, *token));
        self.gate.is_empty() && !self.free.is_empty()
    }

    /// One operation more, in an open window: its token, and whether it is ready.
    pub(super) fn admit(&mut self, site: u32, task: Task, operands: &[Token]) -> (Token, bool) {
        let id = self.free.pop().unwrap_or(0);
        self.sequence += 1;
        let token = Token { slot: id, sequence: self.sequence };
        let slot = &mut self.slots[id as usize];
        (slot.sequence, slot.site, slot.task, slot.waits) = (token.sequence, site, task, 0);
        slot.operands = operands.iter().map(|t| t.sequence).collect();
        for operand in operands {
            self.wait(id, *operand);
        }
        match task {
            Task::Compute(_) => {}
            Task::Access { address, write, of: _ } => self.order(token, address / 8, write),
            Task::Pad { entry, .. } => {
                let (layer, members) = self.layer(entry.stream);
                members.push(token);
                let layer = *layer;
                self.wait(id, layer);
            }
            Task::Layer(Layer { stream, .. }) | Task::Barrier(stream) => {
                let (layer, members) = self.layer(stream);
                let (before, members) = (std::mem::replace(layer, token), std::mem::take(members));
                self.wait(id, before);
                members.into_iter().for_each(|member| self.wait(id, member));
            }
        }
        (token, self.slots[id as usize].waits == 0)
    }

    /// The last layer or barrier of a stream, and the tape operations since.
    fn layer(&mut self, stream: u32) -> &mut (Token, Vec<Token>) {
        let n = stream as usize;
        if self.layers.len() <= n {
            self.layers.resize_with(n + 1, Default::default);
        }
        &mut self.layers[n]
    }

    /// A slot waits for an operation, if that is not finished.
    fn wait(&mut self, id: u32, token: Token) {
        if in_flight(&self.slots, token) {
            self.slots[token.slot as usize].waiters.push(id);
            self.slots[id as usize].waits += 1;
        }
    }

    /// An access waits for those before it that touch the same word.
    fn order(&mut self, token: Token, word: u64, write: bool) {
        let entry = self.words.entry(word).or_default();
        entry.under_way += 1;
        let store = entry.store.filter(|_| write || !planted(Fault::LoadEarly));
        let mut loads = SmallVec::new();
        if write {
            entry.store = Some(token);
            loads = std::mem::take(&mut entry.loads);
        } else {
            if entry.loads.len() > 2 * entry.under_way as usize {
                entry.loads.retain(|load| in_flight(&self.slots, *load));
            }
            entry.loads.push(token);
        }
        for before in store.into_iter().chain(loads) {
            self.wait(token.slot, before);
        }
    }

    /// An operation is finished: what it was, and `ready` gets what waited for nothing else.
    pub(super) fn finish(&mut self, id: u32, ready: &mut Vec<u32>) -> (u32, Task) {
        let slot = &mut self.slots[id as usize];
        let (site, task) = (slot.site, slot.task);
        slot.sequence = u64::MAX;
        let mut waiters = std::mem::take(&mut slot.waiters);
        self.free.push(id);
        if let Task::Access { address, .. } = task
            && let Some(word) = self.words.get_mut(&(address / 8))
        {
            word.under_way -= 1;
            if word.under_way == 0 {
                self.words.swap_remove(&(address / 8));
            }
        }
        for waiter in waiters.drain(..) {
            let slot = &mut self.slots[waiter as usize];
            slot.waits -= 1;
            if slot.waits == 0 {
                ready.push(waiter);
            }
        }
        // The list keeps its memory.
        self.slots[id as usize].waiters = waiters;
        (site, task)
    }
}

fn in_flight(slots: &[Slot], token: Token) -> bool {
    slots.get(token.slot as usize).is_some_and(|slot| slot.sequence == token.sequence)
}
