//! The instruction window: operations that the machine has received and not finished, with their dependences.
//!
//! An operation waits for its operands and for earlier operations that conflict with it, in these ways:
//!
//! * a load waits for earlier stores to the same word of 8 bytes, a store for all earlier accesses to the word;
//! * a layer (a request for scratchpad entries) waits for the barrier that ends the layer before it, tape operations
//!   wait for their layer, and a barrier waits for the tape operations of its layer;
//! * operations after a branch enter the window only when the branch's operands are finished.
//!
//! The window is never scanned for ready operations. Each operation counts the operations that it waits for, and is
//! in their lists of waiters. A finished operation decrements the counts of its waiters; those that reach zero are
//! ready. A slot is free as soon as its operation is finished, independently of its neighbours. So a token names a
//! slot and the number of the operation in it, and the memory is proportional to the window, not to the length of
//! the program.

use super::op::{Entry, Layer, Token};
use super::opcode::Opcode;
use smallvec::SmallVec;
use tapeloom_ir::OrderedMap;
use tapeloom_ir::fault::{Fault, planted};

/// An operation in the window. In contrast to `Work`, which names an array and an element, a memory access has an
/// address here.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    Compute(Opcode),
    /// An access to memory through the cache.
    Access {
        address: u64,
        write: bool,
        kind: AccessKind,
    },
    /// An access to the scratchpad, which holds tape entries.
    Scratchpad {
        entry: Entry,
        write: bool,
    },
    Layer(Layer),
    Barrier(u32),
}

/// The kind of an access to the cache: to the tape, at a computed address or by naming a tape entry, or to another
/// array.
#[derive(Clone, Copy, Debug)]
pub(super) enum AccessKind {
    /// An access to an array that is not on the tape.
    Other,
    /// An access to the tape at an address that the program computed.
    Kept,
    /// An access to the tape that names a tape entry. A load compares the entry's bits with the stored bits.
    Entry(Entry),
}

pub(super) struct Slot {
    /// The operation's number in program order; `u64::MAX` if the operation is finished and the slot free.
    pub(super) sequence: u64,
    pub(super) site: u32,
    pub(super) task: Task,
    pub(super) operands: SmallVec<[u64; 3]>,
    /// The number of unfinished operations that this operation still waits for.
    waits: u32,
    /// The window slots of the operations that wait for this operation.
    waiters: Vec<u32>,
}

/// The unfinished accesses to one word of 8 bytes.
#[derive(Default)]
struct Word {
    under_way: u32,
    store: Option<Token>,
    loads: SmallVec<[Token; 2]>,
}

pub(super) struct Window {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// The number, in program order, of the last operation that entered the window.
    pub(super) sequence: u64,
    words: OrderedMap<u64, Word>,
    /// The unfinished operands of the last branch; no operation enters the window before they are finished.
    gate: SmallVec<[Token; 3]>,
    /// Per stream: the last request for a layer (a group of tape entries) or barrier (the end of a layer), and the
    /// tape operations since then.
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

    /// Returns the number of unfinished operations in the window.
    pub(super) fn under_way(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Performs a branch: no operation enters the window until the branch's `operands` are finished.
    pub(super) fn branch(&mut self, operands: &[Token]) {
        self.gate.extend_from_slice(operands);
    }

    /// Returns whether another operation may enter the window: no branch waits for operands, and a slot is free.
    pub(super) fn is_open(&mut self) -> bool {
        let slots = &self.slots;
        self.gate.retain(|token| in_flight(slots, *token));
        self.gate.is_empty() && !self.free.is_empty()
    }

    /// Adds an operation to the window, which must have a free slot. Returns the operation's token, and whether the
    /// operation is ready.
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
            Task::Access { address, write, kind: _ } => self.order(token, address / 8, write),
            Task::Scratchpad { entry, .. } => {
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

    /// Returns the stream's last request for a layer (a group of tape entries) or barrier (the end of a layer), and
    /// the stream's tape operations since then.
    fn layer(&mut self, stream: u32) -> &mut (Token, Vec<Token>) {
        let n = stream as usize;
        if self.layers.len() <= n {
            self.layers.resize_with(n + 1, Default::default);
        }
        &mut self.layers[n]
    }

    /// Makes the operation in slot `id` wait for the operation `token`, unless `token` is finished.
    fn wait(&mut self, id: u32, token: Token) {
        if in_flight(&self.slots, token) {
            self.slots[token.slot as usize].waiters.push(id);
            self.slots[id as usize].waits += 1;
        }
    }

    /// Makes a memory access wait for earlier accesses to the same 8-byte word: a load waits for the last store, a
    /// store for all earlier accesses.
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

    /// Finishes the operation in slot `id`. Returns the number of its statement (`site`) and its task, and appends the
    /// operations that are now ready to `ready`.
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
        // Put the list of waiters back, so that its allocation is reused by the slot's next operation.
        self.slots[id as usize].waiters = waiters;
        (site, task)
    }
}

fn in_flight(slots: &[Slot], token: Token) -> bool {
    slots.get(token.slot as usize).is_some_and(|slot| slot.sequence == token.sequence)
}
