//! The configuration of a simulated run: the machine, the system, and the addresses of all arrays.
//!
//! A bump allocator places arguments, results and workspace one after the other. Values saved for the reverse phase
//! are placed one after the other from the tape's address on, in the order of the system's tape layout. Conflicts in
//! a cache depend on addresses, so an experiment that is to be repeated must fix the addresses
//! ([`AddressMap::fixed`]); programs contain none.

use super::access_order::{hoisted, mirrored};
use super::arrays::{Arrays, Tape, TapeForm};
use super::machine::Machine;
use super::system::{Route, System};
use crate::layout::{Holds, Layout, RegionId, ScratchpadModel, is_kept};
use crate::loop_ir::{
    self, Address, Arg, BufferId, Flow, Kernel, Place, Program, ScalarId, Stmt, TapeId, tape_chunks,
};
use crate::passes::{Context, STUDY};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;
use tapeloom_ir::{Kind, OrderedSet, Problem};

/// The configuration of a simulated run.
#[doc(alias = "Setup")]
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunConfig {
    /// The simulated machine on which the program runs.
    pub machine: Machine,
    /// The system: the route of tape accesses (cache or scratchpad) and the passes that lay out the tape.
    pub system: System,
    /// The simulated addresses of arrays.
    pub map: AddressMap,
    /// The largest number of 8-byte entries of a *layer* (the tape entries that the scratchpad is allocated for at
    /// one time), even if more would fit. For example, the number that one execution of an unrolled block stores.
    /// Records (one iteration's entries) are never split, so a layer holds at least one record.
    pub layer: u64,
    /// The unroll factors of loops ([`unroll`](crate::passes::unroll)): first the factor of innermost loops, then of
    /// the loops around them, and so on. The factor 1 leaves a loop as it is. After unrolling, redundant loads are
    /// removed ([`redundant_memory`](crate::passes::redundant_memory)), and each statement that saves values gets an
    /// array of its own ([`split_arrays`](crate::passes::split_arrays)). If empty, nothing is unrolled.
    pub unroll: Vec<u64>,
    /// Whether the initial contents of arrays cost nothing: an array that starts as constants, as a copy of an
    /// argument, or as constants in some elements and copies in others, is filled before the run starts. A copy then
    /// has the address of its argument. Programs here allocate their results; the programs of the TapeFlow study add to
    /// arrays that their caller has prepared.
    pub prepared: bool,
    /// Whether blocks of the reverse phase load from the tape in the opposite order of its stores, like code that
    /// was differentiated instruction by instruction.
    pub mirrored: bool,
    /// Whether arrays may overlap. If so, a loop that stores to an array or the tape reads arguments again in each
    /// iteration, and each access to a dynamic tape reloads the address of the accessed record (one iteration's
    /// residuals).
    pub overlap: bool,
    /// Whether the statistics count a read of an argument in the reverse phase as an access to the tape, if the forward
    /// phase has read the argument, too.
    pub again: bool,
}

impl From<Machine> for RunConfig {
    /// Creates a configuration in which all accesses go through the cache and arrays lie one after the other.
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

/// The simulated addresses of a program's arrays, in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressMap {
    /// The simulated address of the first array, in bytes.
    pub base: u64,
    /// The unused bytes before the elements of each array (an allocator's header).
    pub header: u64,
    /// The unused bytes after the elements of each array.
    pub gap: u64,
    /// The address of the first tape entry.
    pub tape: u64,
    /// The least number of bytes of an element on the tape: 1, 2, 4 or 8. With 8, every saved value takes a whole
    /// word.
    pub word: u64,
    /// Arguments and results that have fixed addresses, instead of addresses from the bump allocator.
    pub fixed: Vec<(Place, u64)>,
}

impl Default for AddressMap {
    /// Returns a map without headers and gaps, at the addresses of the TapeFlow paper's authors.
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

/// The upper limit, in bytes, of configured addresses, headers and gaps.
const FARTHEST: u64 = 1 << 48;

impl RunConfig {
    /// Checks the machine, the unroll factors and the addresses of this configuration.
    ///
    /// ```
    /// use tapeloom_backend::accelerator::{Machine, RunConfig};
    /// let setup = RunConfig { unroll: vec![4, 0], ..Machine::cal().into() };
    /// let problem = setup.check().unwrap_err();
    /// assert_eq!(problem.message, "the run configuration is invalid: `unroll` takes factors from 1 on, got 0");
    /// ```
    ///
    /// # Errors
    /// [`Kind::Target`], with a message that lists all invalid fields.
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
        let message = format!("the run configuration is invalid: {}", wrong.join("; "));
        Err(Problem::new(Kind::Target, message, "begin with `RunConfig::from(Machine::cal())`"))
    }

    /// Returns the program after the rewrites that this configuration requests: unrolling, hoisting, and reordered
    /// tape loads.
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

    /// Returns the sizes of scratchpad and cache for which the layout passes lay out the tape.
    pub fn scratchpad_model(&self) -> ScratchpadModel {
        let Machine { entries, halves, cache, line, ways, .. } = self.machine;
        ScratchpadModel {
            entries,
            parts: halves,
            layer: self.layer,
            word: self.map.word,
            cache,
            line,
            associativity: ways,
        }
    }
}

/// A *kept* array: residuals on the tape. The program addresses the array as if its elements were contiguous.
struct KeptArray {
    /// The size of an element in bytes, by which the program's addresses advance.
    width: u64,
    /// The number of bytes that an element of the array takes on the tape; at least `AddressMap::word`.
    place: u64,
    region: RegionId,
    /// The simulated address of the first record (one iteration's residuals) of the tape region that holds the array.
    base: u64,
    /// The size in bytes of a record (one iteration's residuals) of the tape region that holds the array.
    step: u64,
    /// The offset in bytes of the array's elements in each record (one iteration's residuals).
    at: u64,
    /// The number of the array's elements in each record (one iteration's residuals).
    elements: u64,
}

/// The location of a byte on the tape: the region, the record (one iteration's residuals) in the region, and the byte
/// in the record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InRegion {
    pub(super) region: RegionId,
    pub(super) record: u64,
    pub(super) byte: u64,
}

/// A chunk of a dynamic tape: contiguous memory for several records (one iteration's residuals each). The tape grows by
/// chunks, since its length is known only at run time.
struct Chunk {
    region: Option<RegionId>,
    /// The size of a record in bytes; a record is the residuals of one iteration.
    bytes: u64,
    /// The index of the chunk's first record (one iteration's residuals) among all records of the tape.
    first: u64,
    /// The simulated address of the word that holds the address of the chunk.
    pointer: u64,
}

/// The number of chunk pointers for which each dynamic tape reserves memory; a pointer takes 8 bytes.
const CHUNK_POINTERS: u64 = 256;

/// The simulated addresses of one program's buffers, chunks and tapes.
pub(super) struct Addresses {
    places: SecondaryMap<BufferId, Option<u64>>,
    pub(super) workspace: u64,
    /// The arrays on the tape (*kept* arrays). The key is the address by which the program names the array; all these
    /// addresses are `TAPE_ALIAS_BASE` or more.
    kept: BTreeMap<u64, KeptArray>,
    /// The simulated address of the pointers to the chunks of dynamic tapes.
    pointers: u64,
    /// The first free simulated address after all chunks of dynamic tapes.
    next: u64,
    /// Per dynamic tape: the simulated addresses of its allocated chunks.
    chunks: SecondaryMap<TapeId, Vec<u64>>,
    records: BTreeMap<u64, Chunk>,
    /// Three sums of sizes in bytes: of the arguments, of the written arrays that are not on the tape, and of the
    /// memory on the tape.
    pub(super) state: [u64; 3],
}

/// The first of the addresses by which programs name arrays on the tape; `Addresses::translate` maps them to
/// simulated addresses, which are smaller.
const TAPE_ALIAS_BASE: u64 = 1 << 62;

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
            Place::Output(n) | Place::Donated { output: n, .. } => Some((1, n)),
            Place::Workspace(_) | Place::Private(_) | Place::Unplaced | Place::Record { .. } => {
                None
            }
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
        let workspace = bump((entry.workspace + entry.private) as u64);
        let (mut kept, mut alias, mut at) = (BTreeMap::new(), TAPE_ALIAS_BASE, map.tape);
        for (region, about) in &layout.regions {
            let Holds::Arrays { fields, records } = &about.holds else { continue };
            if let Route::Cache { form: TapeForm::Arrays { skew }, prefetch: _ } = setup.system.tape
                && region.as_u32() > 0
            {
                at += skew * setup.machine.line;
            }
            for field in fields {
                let width = entry.buffers[field.buffer].ty.dtype.bytes() as u64;
                let kept_at = KeptArray {
                    width,
                    place: field.width,
                    region,
                    base: at,
                    step: about.width,
                    at: field.at,
                    elements: field.elements,
                };
                places[field.buffer] = Some(alias);
                kept.insert(alias, kept_at);
                alias += records * field.elements * width;
            }
            at += records * about.width;
            state[2] += records * about.width;
        }
        for (to, from) in steps(program).iter().filter_map(|step| step.copied()) {
            if setup.prepared && places[to].is_none_or(|at| at < TAPE_ALIAS_BASE) {
                places[to] = places[from];
            }
        }
        state[1] += ((entry.workspace + entry.private) as u64).saturating_sub(state[2]);
        let pointers = at.max(next);
        let next = pointers.saturating_add(8 * CHUNK_POINTERS * program.tapes.len() as u64);
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

    /// Returns the address by which the program names a buffer; `None` if the buffer is a part of the workspace.
    pub(super) fn place(&self, id: BufferId) -> Option<u64> {
        self.places[id]
    }

    /// Translates an address of the program to the simulated address. If the address is on the tape, also returns its
    /// region, record (one iteration's residuals) and byte.
    pub(super) fn translate(&self, address: u64) -> (u64, Option<InRegion>) {
        if address >= TAPE_ALIAS_BASE
            && let Some((start, kept)) = self.kept.range(..=address).next_back()
        {
            let KeptArray { width, place, region, base, step, at, elements } = *kept;
            let (element, rest) = ((address - start) / width, (address - start) % width);
            let record = element / elements;
            let byte = at + element % elements * place + rest;
            return (base + record * step + byte, Some(InRegion { region, record, byte }));
        }
        let chunk = self.records.range(..=address).next_back();
        let inside = chunk.and_then(|(start, Chunk { region, bytes, first, .. })| {
            let (of, bytes) = (address - start, (*bytes).max(1));
            Some(InRegion { region: (*region)?, record: first + of / bytes, byte: of % bytes })
        });
        (address, inside)
    }

    /// Returns the simulated address of the word that points to the dynamic tape's chunk containing `address`.
    pub(super) fn pointer(&self, address: u64) -> Option<u64> {
        self.records.range(..=address).next_back().map(|(_, chunk)| chunk.pointer)
    }

    /// Returns the simulated address of record `index` (the residuals of one iteration) of a dynamic tape. Allocates
    /// chunks of the sizes that compiled code uses.
    pub(super) fn record(
        &mut self,
        (program, layout): (&Program, &Layout),
        tape: TapeId,
        index: usize,
    ) -> u64 {
        let (chunk, inside) = tape_chunks::place_in_chunk(index as u64);
        let (bytes, region) = (program.tapes[tape].record as u64, layout.tape(tape));
        for chunk in self.chunks[tape].len()..=chunk {
            self.chunks[tape].push(self.next);
            let slot = CHUNK_POINTERS * u64::from(tape.as_u32()) + chunk as u64;
            let (first, pointer) = (tape_chunks::first(chunk), self.pointers + 8 * slot);
            self.records.insert(self.next, Chunk { region, bytes, first, pointer });
            let all = bytes.saturating_mul(1 << (chunk / 4).min(63));
            self.next = self.next.saturating_add(all);
            self.state[2] = self.state[2].saturating_add(all);
        }
        self.chunks[tape][chunk].saturating_add(inside.saturating_mul(bytes))
    }
}

/// The kind of a step (top-level statement) of a program. If `RunConfig::prepared` is set, steps that only fill or copy
/// arrays count as done before the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// A step that fills arrays that no earlier step touched with constants, or with parts of arguments.
    Filled,
    /// A step that copies an argument element by element to an array that no earlier step touched.
    Copied { to: BufferId, from: BufferId },
    /// Any other step: the machine runs it even if `RunConfig::prepared` is set.
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

/// Returns, for each step (top-level statement) of a program, whether it only fills or copies arrays.
pub(super) fn steps(program: &Program) -> Vec<Step> {
    let k = &program.entry;
    let mut touched: OrderedSet<BufferId> = OrderedSet::default();
    let mut of = |step: &Stmt| {
        // The program itself must fill arrays that an earlier step touched, and kept arrays (arrays on the tape): no
        // caller can fill the tape before the run.
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

/// A store, to the array `to`, of a constant or of a loaded argument.
struct Filling {
    to: BufferId,
    /// The argument that is copied, and whether the array becomes an element-by-element copy of it; `None` for a
    /// constant.
    from: Option<(BufferId, bool)>,
}

/// Returns the stores of a step (top-level statement) that only fills arrays with constants and copies arguments.
/// Returns `None` if the step does anything else, or stores nothing.
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
