//! A run of a kernel program as data: which machine, which system, and where everything lies.
//!
//! A bump allocator puts arguments, results and workspace one behind the other, and what is kept for the
//! reverse phase behind each other at the address of the tape, as the system's layout says. Conflicts in a
//! cache depend on addresses, so whoever repeats an experiment says them ([`AddressMap::fixed`]); programs
//! hold nothing of it.

use super::access_order::{hoisted, mirrored};
use super::arrays::{Arrays, Tape, TapeForm};
use super::machine::Machine;
use super::system::{Route, System};
use crate::layout::{Holds, Layout, RegionId, Room, is_kept};
use crate::loop_ir::{
    self, Address, Arg, BufferId, Flow, Kernel, Place, Program, ScalarId, Stmt, TapeId,
};
use crate::passes::{Context, STUDY};
use crate::runtime::tape_memory;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;
use tapeloom_ir::{Kind, OrderedSet, Problem};

/// How a program is run.
#[doc(alias = "Setup")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunConfig {
    /// On which machine,
    pub machine: Machine,
    /// with its tape where,
    pub system: System,
    /// and its arrays.
    pub map: AddressMap,
    /// The most entries of a layer, where more would fit: what one execution of an unrolled block stores. A record is
    /// never cut, so a layer has one at least.
    pub layer: u64,
    /// How many iterations of a loop become straight code ([`unroll`](crate::passes::unroll)): of loops with none
    /// inside, of those around them, and so on; by 1 a loop stays. Then what is loaded twice is loaded once
    /// ([`redundant_memory`](crate::passes::redundant_memory)), and what each statement keeps is an array of its own
    /// ([`split_arrays`](crate::passes::split_arrays)). Empty: loops are run as they are written.
    pub unroll: Vec<u64>,
    /// Whether arrays that begin as zeros, or as a copy of an argument, or as parts of both, are there when the program
    /// begins, the copy in the place of the argument. Programs here have results of their own; those of the study add
    /// to arrays that their caller has prepared.
    pub prepared: bool,
    /// Whether blocks of the reverse phase load from the tape in the opposite order of its stores, as code does
    /// that turns every instruction round.
    pub mirrored: bool,
    /// Whether arrays are taken to overlap, so that a loop which stores to one, or on the tape, reads arguments in
    /// each iteration, and where a record of a tape of run-time length lies at each access to it.
    pub overlap: bool,
    /// Whether what the reverse phase reads of arguments that the forward phase has read, too, is of the tape.
    pub again: bool,
}

impl From<Machine> for RunConfig {
    /// Everything through the cache, one behind the other.
    fn from(machine: Machine) -> RunConfig {
        RunConfig {
            machine,
            system: System::ENZYME,
            map: AddressMap::default(),
            layer: u64::MAX,
            unroll: Vec::new(),
            prepared: false,
            mirrored: false,
            overlap: false,
            again: false,
        }
    }
}

/// Where the arrays of a program lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressMap {
    /// Where the first one begins.
    pub base: u64,
    /// Bytes before the elements of each,
    pub header: u64,
    /// and behind them.
    pub gap: u64,
    /// Where what is kept begins.
    pub tape: u64,
    /// The least bytes of an element of it, 1, 2, 4 or 8: 8 where the tape is of words, whatever is kept.
    pub word: u64,
    /// Arguments and results that lie elsewhere.
    pub fixed: Vec<(Place, u64)>,
}

impl Default for AddressMap {
    /// Without headers and gaps, where those of the paper's authors begin.
    fn default() -> AddressMap {
        AddressMap {
            base: Arrays::BASE,
            header: 0,
            gap: 0,
            tape: Tape::BASE,
            word: 1,
            fixed: Vec::new(),
        }
    }
}

/// No address, and no distance of arrays, is larger.
const FARTHEST: u64 = 1 << 48;

impl RunConfig {
    /// Whether a program can be run so.
    ///
    /// ```
    /// use tapeloom_backend::accelerator::{Machine, RunConfig};
    /// let setup = RunConfig { unroll: vec![4, 0], ..Machine::cal().into() };
    /// let problem = setup.check().unwrap_err();
    /// assert_eq!(problem.message, "the setup cannot be: `unroll` takes factors from 1 on, got 0");
    /// ```
    ///
    /// # Errors
    /// [`Kind::Target`] with everything that does not fit.
    pub fn check(&self) -> Result<(), Problem> {
        self.machine.check()?;
        let AddressMap { base, header, gap, tape, word, fixed } = &self.map;
        let mut wrong = Vec::new();
        if self.unroll.contains(&0) {
            wrong.push("`unroll` takes factors from 1 on, got 0".to_owned());
        }
        if ![1, 2, 4, 8].contains(word) {
            wrong.push(format!("`word` must be 1, 2, 4 or 8 bytes, got {word}"));
        }
        let of = |(_, at): &(Place, u64)| ("fixed", *at);
        let all = [("base", *base), ("header", *header), ("gap", *gap), ("tape", *tape)];
        for (name, bytes) in all.into_iter().chain(fixed.iter().map(of)) {
            if bytes > FARTHEST {
                wrong.push(format!("`{name}` must be 0 to {FARTHEST}, got {bytes}"));
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let message = format!("the setup cannot be: {}", wrong.join("; "));
        Err(Problem::new(Kind::Target, message, "begin with `RunConfig::from(Machine::cal())`"))
    }

    /// The program that is run, of that one.
    pub(super) fn program(&self, program: &Program) -> Result<Program, Problem> {
        let mut program = program.clone();
        if self.unroll.iter().any(|factor| *factor > 1) {
            let (factors, overlap) = (self.unroll.clone(), self.overlap);
            let mut context = Context { factors, overlap, ..Context::default() };
            STUDY.run(&mut program, &mut context)?;
        }
        let mut program = hoisted(&program, self.overlap);
        if self.mirrored {
            program = mirrored(&program);
        }
        Ok(program)
    }

    /// What the tape is laid out for.
    pub fn room(&self) -> Room {
        let Machine { entries, halves, cache, line, ways, .. } = self.machine;
        Room { entries, halves, layer: self.layer, word: self.map.word, cache, line, ways }
    }
}

/// An array that is kept, which the program sees in one piece.
struct Kept {
    /// Bytes of an element there,
    width: u64,
    /// and where it lies.
    place: u64,
    region: RegionId,
    /// Where its first record begins, and how long each is.
    base: u64,
    step: u64,
    /// Its first byte in each, and how many elements.
    at: u64,
    elements: u64,
}

/// A byte of the tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InRegion {
    pub(super) region: RegionId,
    pub(super) record: u64,
    pub(super) byte: u64,
}

/// Some records of a tape of run-time length.
struct Chunk {
    region: Option<RegionId>,
    /// Bytes of a record,
    bytes: u64,
    /// the number of the first one,
    first: u64,
    /// and where it is noted where they begin.
    pointer: u64,
}

/// So many chunks are noted one behind the other, each in a word.
const NOTED: u64 = 256;

/// Where everything lies, for one program.
pub(super) struct Addresses {
    places: SecondaryMap<BufferId, Option<u64>>,
    pub(super) workspace: u64,
    /// By where the program sees them.
    kept: BTreeMap<u64, Kept>,
    /// Where it is noted where chunks begin, the first byte behind all, and the chunks of each tape that have been asked
    /// for.
    pointers: u64,
    next: u64,
    chunks: SecondaryMap<TapeId, Vec<u64>>,
    records: BTreeMap<u64, Chunk>,
    /// Bytes of arguments, of what else is written, and of what is kept.
    pub(super) state: [u64; 3],
}

/// Programs see what is kept from here on, where nothing else lies.
const KEPT: u64 = 1 << 62;

impl Addresses {
    pub(super) fn new(program: &Program, setup: &RunConfig, layout: &Layout) -> Addresses {
        let (entry, map) = (&program.entry, &setup.map);
        let mut next = map.base;
        let mut bump = |bytes: u64| {
            let at = next.saturating_add(map.header);
            next = at.saturating_add(bytes).saturating_add(map.gap);
            at
        };
        let order = |place: Place| match place {
            Place::Input(n) => Some((0, n)),
            Place::Output(n) | Place::Given { output: n, .. } => Some((1, n)),
            Place::Workspace(_) | Place::Record { .. } => None,
        };
        let mut all: Vec<_> =
            entry.buffers.iter().filter_map(|(id, b)| Some((order(b.place)?, id, b))).collect();
        all.sort_by_key(|(order, ..)| *order);
        let (mut places, mut state) = (SecondaryMap::new(), [0u64; 3]);
        for ((kind, _), id, b) in all {
            let (bytes, fixed) = (b.ty.bytes() as u64, map.fixed.iter().find(|f| f.0 == b.place));
            state[kind] += bytes;
            places[id] = Some(fixed.map_or_else(|| bump(bytes), |f| f.1));
        }
        let workspace = bump(entry.workspace as u64);
        let (mut kept, mut seen, mut at) = (BTreeMap::new(), KEPT, map.tape);
        for (region, about) in &layout.regions {
            let Holds::Arrays { fields, records } = &about.holds else { continue };
            if let Route::Cache { form: TapeForm::Arrays { skew }, prefetch: _ } = setup.system.tape
                && region.as_u32() > 0
            {
                at += skew * setup.machine.line;
            }
            for field in fields {
                let width = entry.buffers[field.buffer].ty.dtype.bytes() as u64;
                let kept_at = Kept {
                    width,
                    place: field.width,
                    region,
                    base: at,
                    step: about.width,
                    at: field.at,
                    elements: field.elements,
                };
                places[field.buffer] = Some(seen);
                kept.insert(seen, kept_at);
                seen += records * field.elements * width;
            }
            at += records * about.width;
            state[2] += records * about.width;
        }
        for (to, from) in steps(program).iter().filter_map(|step| step.copied()) {
            if setup.prepared && places[to].is_none_or(|at| at < KEPT) {
                places[to] = places[from];
            }
        }
        state[1] += (entry.workspace as u64).saturating_sub(state[2]);
        let pointers = at.max(next);
        let next = pointers.saturating_add(8 * NOTED * program.tapes.len() as u64);
        Addresses {
            places,
            workspace,
            kept,
            pointers,
            next,
            chunks: SecondaryMap::new(),
            records: BTreeMap::new(),
            state,
        }
    }

    /// Where a buffer of the program begins, if it is not in the workspace with others.
    pub(super) fn place(&self, id: BufferId) -> Option<u64> {
        self.places[id]
    }

    /// Where that is which the program sees there, and of kept values where in their region.
    pub(super) fn of(&self, seen: u64) -> (u64, Option<InRegion>) {
        if seen >= KEPT
            && let Some((start, kept)) = self.kept.range(..=seen).next_back()
        {
            let Kept { width, place, region, base, step, at, elements } = *kept;
            let (element, rest) = ((seen - start) / width, (seen - start) % width);
            let record = element / elements;
            let byte = at + element % elements * place + rest;
            return (base + record * step + byte, Some(InRegion { region, record, byte }));
        }
        let chunk = self.records.range(..=seen).next_back();
        let inside = chunk.and_then(|(start, Chunk { region, bytes, first, .. })| {
            let (of, bytes) = (seen - start, (*bytes).max(1));
            Some(InRegion { region: (*region)?, record: first + of / bytes, byte: of % bytes })
        });
        (seen, inside)
    }

    /// Where it is noted where the chunk begins in which that lies.
    pub(super) fn pointer(&self, seen: u64) -> Option<u64> {
        self.records.range(..=seen).next_back().map(|(_, chunk)| chunk.pointer)
    }

    /// Where a record of a tape lies: in chunks, as those of machine code do.
    pub(super) fn record(
        &mut self,
        (program, layout): (&Program, &Layout),
        tape: TapeId,
        index: usize,
    ) -> u64 {
        let (chunk, inside) = tape_memory::home(index as u64);
        let (bytes, region) = (program.tapes[tape].record as u64, layout.tape(tape));
        for chunk in self.chunks[tape].len()..=chunk {
            self.chunks[tape].push(self.next);
            let noted = NOTED * u64::from(tape.as_u32()) + chunk as u64;
            let (first, pointer) = (tape_memory::first(chunk), self.pointers + 8 * noted);
            self.records.insert(self.next, Chunk { region, bytes, first, pointer });
            let all = bytes.saturating_mul(1 << (chunk / 4).min(63));
            self.next = self.next.saturating_add(all);
            self.state[2] = self.state[2].saturating_add(all);
        }
        self.chunks[tape][chunk].saturating_add(inside.saturating_mul(bytes))
    }
}

/// What a step of a program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Fills arrays that nobody has touched with numbers, and parts of them with arguments.
    Filled,
    /// Copies an argument, element by element, to one that nobody has touched.
    Copied { to: BufferId, from: BufferId },
    /// Everything else.
    Other,
}

impl Step {
    fn copied(self) -> Option<(BufferId, BufferId)> {
        match self {
            Step::Copied { to, from } => Some((to, from)),
            Step::Filled | Step::Other => None,
        }
    }
}

/// What the steps of a program do.
pub(super) fn steps(program: &Program) -> Vec<Step> {
    let k = &program.entry;
    let mut touched: OrderedSet<BufferId> = OrderedSet::default();
    let mut of = |step: &Stmt| {
        // What is kept is stored by the program: nobody else knows of the tape.
        let own = |to: BufferId| touched.contains(&to) || is_kept(k, to);
        let fresh = |all: &[Filling]| !all.iter().any(|f| own(f.to));
        let done = match fillings(k, step).filter(|all| fresh(all)).as_deref() {
            Some([Filling { to, from: Some((from, true)) }]) => {
                Step::Copied { to: *to, from: *from }
            }
            Some(_) => Step::Filled,
            None => Step::Other,
        };
        loop_ir::visit(std::slice::from_ref(step), &mut |stmt| {
            stmt.accesses(&mut |a| {
                touched.insert(a.held.buffer);
            });
        });
        done
    };
    k.body.iter().map(&mut of).collect()
}

/// A store to an array, of a number or of what is loaded of an argument.
struct Filling {
    to: BufferId,
    /// The argument, and whether the array becomes a copy of it, element by element.
    from: Option<(BufferId, bool)>,
}

/// The stores of a step that only fills arrays with numbers and copies from arguments. None where it does something
/// else, or nothing.
fn fillings(k: &Kernel, step: &Stmt) -> Option<Vec<Filling>> {
    let mut loads: Vec<(ScalarId, BufferId, Address)> = Vec::new();
    let (mut all, mut others) = (Vec::new(), 0);
    loop_ir::visit(std::slice::from_ref(step), &mut |stmt| {
        let shape = stmt.shape();
        let plain = shape.element.as_ref().filter(|e| e.guard.is_none());
        match (shape.flow, plain, shape.operands) {
            (Flow::For { .. } | Flow::Nest, ..) => {}
            (Flow::Straight, Some(to), [Arg::Literal(_)]) => {
                all.push(Filling { to: to.held.buffer, from: None });
            }
            (Flow::Straight, Some(to), [Arg::Scalar(x)]) => {
                let load = loads.iter().find(|(value, ..)| value == x);
                let Some((_, from, at)) = load else { return others += 1 };
                let same = at == to.address && k.buffers[*from].ty == k.buffers[to.held.buffer].ty;
                all.push(Filling { to: to.held.buffer, from: Some((*from, same)) });
            }
            (Flow::Straight, Some(from), [])
                if matches!(k.buffers[from.held.buffer].place, Place::Input(_)) =>
            {
                loads.extend(shape.defines.map(|v| (v, from.held.buffer, from.address.clone())));
            }
            (Flow::Straight | Flow::While | Flow::If, ..) => others += 1,
        }
    });
    (others == 0 && !all.is_empty()).then_some(all)
}
