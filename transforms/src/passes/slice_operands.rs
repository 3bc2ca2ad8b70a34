//! The pass `slice_operands`. If only some elements of an equation's result are read, the equation computes only these,
//! from the same elements of its operands.
//!
//! ```text
//! %1: f64[1000] = sin %0
//! %2: f64[16] = slice{start=[0], limit=[16], strides=[1]} %1
//!
//! becomes
//!
//! %1: f64[16] = slice{start=[0], limit=[16], strides=[1]} %0
//! %2: f64[16] = sin %1
//! ```
//!
//! A *read* is a slice, a dynamic slice, a gather that clips its indices, a reshape or another view of one array.
//! Reads move in front of
//!
//! * elementwise equations: every operand is read in the same way;
//! * views of one array: the operand is read through the view;
//! * products, reductions and broadcasts, if the read is one box or begins with one: operands are read in the same box
//!   along the axes that they share with the result, and whole along axes that are summed over.
//!
//! Reads of a value move if together they yield at most half of its elements (see [`saves_enough`]). Results of
//! functions and operands of loops, calls and barriers are read whole. So is the array of a gather that drops
//! out-of-range indices, since it yields zeros there. Elements are computed as before, so all bits stay.
//!
//! Model: the bubbling up of slices in MLIR's linalg and XLA's sinking of slices.

use crate::passes::pass::{Pass, Run};
use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{
    AxisMap, Bounds, Effects, Exactness, Lowering, SliceAccess, Start, component, reshaped,
    take_box,
};
use tapeloom_ir::{
    Atom, Builder, Draft, Equation, FuncId, Function, Literal, Module, Operands, OrderedMap,
    Problem, Type, ValueId, ValueRemap, deeper,
};

/// The entry of the pass `slice_operands` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "slice_operands",
    about: "slices, indices and gathers move in front of the equations whose results they read",
    exactness: Exactness::Exact,
    run: Run::Function(|_, module, f| sliced(module, f)),
};

/// The largest number of distinct reads of one value that move in front of the equation that computes the value. Each
/// read emits a copy of that equation on fewer elements.
const MOST_READS: usize = 8;

/// The number of adjacent elements that a vector instruction computes at once: computing one element costs as much
/// as computing `LANES` adjacent ones.
pub(crate) const LANES: usize = 8;

/// Returns whether computing only the elements of the `reads`, given as numbers of elements, costs at most half of
/// computing the whole array of `array` elements. Returns false if a read has no elements.
fn saves_enough(mut reads: impl Iterator<Item = usize> + Clone, array: usize) -> bool {
    let read: usize = reads.clone().map(|n| n.next_multiple_of(LANES)).sum();
    reads.all(|n| n > 0) && 2 * read <= array
}

/// A read of an array, in a form that can be translated into reads of the operands of the equation that computes the
/// array.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Read {
    /// The elements that equation `equation` reads of the array; if `then` is set, only the part of these elements that
    /// the second read `then` selects.
    Through { equation: usize, then: Option<ReadId> },
    /// A box with these sizes. `axes` has, per axis of the array, an axis of the array that `equation` reads: the
    /// box begins at the same index as the box of `equation` on that axis. `None` means the whole axis.
    Box { equation: usize, axes: Vec<Option<usize>>, sizes: Vec<usize> },
}

/// The index of a read in [`PartialReads::all`].
type ReadId = usize;

/// The elements of a value that its readers need: no elements, the elements of the listed reads, or all elements.
#[derive(Clone, Default)]
enum Demand {
    #[default]
    Nowhere,
    At(SmallVec<[ReadId; 2]>),
    Everywhere,
}

/// The way in which reads of an equation's result become reads of its operands.
#[derive(Clone)]
enum Propagation {
    /// Each operand is read in the same way as the result.
    Elementwise,
    /// The first operand is read through the view; other operands are read whole.
    View,
    /// Per operand and axis: the axis of the result whose range is read, or `None` for the whole axis.
    Axes(Vec<Vec<Option<usize>>>),
}

/// The reads of all values of a function, and the equations in front of which they move.
pub(crate) struct PartialReads<'f> {
    f: &'f Function,
    /// All distinct reads, each with its number of elements.
    all: Vec<(Read, usize)>,
    ids: OrderedMap<Read, ReadId>,
    demands: SecondaryMap<ValueId, Demand>,
    /// Per value: the index of the equation that defines it; `None` for parameters.
    definitions: SecondaryMap<ValueId, Option<usize>>,
    /// Per equation: how reads of its result become reads of its operands; `None` if reads do not move in front of the
    /// equation.
    moved: Vec<Option<Propagation>>,
    /// Memo of [`computed`](Self::computed), per value: whether reads may move in front of the equation that computes
    /// the value.
    computed: SecondaryMap<ValueId, Option<bool>>,
}

impl<'f> PartialReads<'f> {
    /// Analyses the reads in `f`. Walks backwards, so that all readers of a value are visited before the equation
    /// that defines it.
    pub(crate) fn of(module: &Module, f: &'f Function) -> PartialReads<'f> {
        let mut reads = PartialReads {
            f,
            all: Vec::new(),
            ids: OrderedMap::default(),
            demands: SecondaryMap::with_capacity(f.types.len()),
            definitions: SecondaryMap::with_capacity(f.types.len()),
            moved: vec![None; f.equations.len()],
            computed: SecondaryMap::with_capacity(f.types.len()),
        };
        for (i, e) in f.equations.iter().enumerate() {
            e.outputs.iter().for_each(|o| reads.definitions[*o] = Some(i));
        }
        f.results.iter().for_each(|r| reads.whole(*r));
        for (i, e) in f.equations.iter().enumerate().rev() {
            reads.visit(module, i, e);
        }
        reads
    }

    /// Returns the number of elements that all reads of a value yield, if the reads move in front of the equation that
    /// computes the value; else `None`.
    pub(crate) fn elements(&self, v: ValueId) -> Option<usize> {
        match &self.demands[v] {
            Demand::At(reads) if self.moves(v) => Some(reads.iter().map(|r| self.all[*r].1).sum()),
            Demand::At(_) | Demand::Nowhere | Demand::Everywhere => None,
        }
    }

    /// Returns whether reads of value `v` move in front of the equation that defines it.
    fn moves(&self, v: ValueId) -> bool {
        self.definitions[v].is_some_and(|p| self.moved[p].is_some())
    }

    fn visit(&mut self, module: &Module, i: usize, e: &Equation) {
        let pure = e.op.effects(module) == Effects::Pure;
        let lowering = (pure && e.outputs.len() == 1).then(|| e.lower(module, self.f));
        let moves = lowering.as_ref().and_then(|lowering| {
            let Demand::At(reads) = self.demands[e.outputs[0]].clone() else { return None };
            let how = self.propagation(module, e, lowering)?;
            let pays = || {
                let sizes = reads.iter().map(|r| self.all[*r].1);
                saves_enough(sizes, elements(self.f, e.outputs[0]))
            };
            let fits = match how {
                Propagation::Elementwise => pays(),
                // A view only moves elements and computes nothing, so moving reads in front of it always pays.
                Propagation::View => true,
                Propagation::Axes(_) => reads.iter().all(|r| self.is_box(*r)) && pays(),
            };
            let how = if fits { how } else { self.view(module, e, lowering)? };
            Some((how, reads))
        });
        if let Some((how, reads)) = moves {
            self.propagate(i, e, &how, &reads);
            self.moved[i] = Some(how);
            return;
        }
        // Reads do not move in front of this equation, so it computes its whole outputs.
        for output in &e.outputs {
            self.demands[*output] = Demand::Everywhere;
        }
        match lowering.is_some_and(|lowering| is_view(e, &lowering)) {
            true => {
                let read = self.id(Read::Through { equation: i, then: None });
                self.read(e.operands[0], read);
                e.operands[1..].iter().for_each(|a| self.whole(*a));
            }
            false => e.operands.iter().for_each(|a| self.whole(*a)),
        }
    }

    fn propagate(&mut self, i: usize, e: &Equation, how: &Propagation, reads: &[ReadId]) {
        for read in reads {
            for (k, a) in e.operands.iter().enumerate() {
                match self.of_operand(i, how, *read, k) {
                    Some(of) => {
                        let id = self.id(of);
                        self.read(*a, id);
                    }
                    None => self.whole(*a),
                }
            }
        }
    }

    /// Returns the read of operand `operand` of equation `i` that yields the elements for the read `read` of its
    /// result; `None` if the whole operand is needed.
    fn of_operand(
        &self,
        i: usize,
        how: &Propagation,
        read: ReadId,
        operand: usize,
    ) -> Option<Read> {
        let axes = match how {
            Propagation::Elementwise => return Some(self.all[read].0.clone()),
            Propagation::View if operand > 0 => return None,
            Propagation::View => return Some(Read::Through { equation: i, then: Some(read) }),
            Propagation::Axes(axes) => &axes[operand],
        };
        let (equation, axes) = match &self.all[read].0 {
            Read::Through { equation, .. } => (*equation, axes.clone()),
            Read::Box { equation, axes: of, .. } => {
                (*equation, axes.iter().map(|a| a.and_then(|a| of[a])).collect())
            }
        };
        let part = part(self.f, equation)?;
        let array = self.f.type_of(self.f.equations[i].operands[operand]);
        let extents = array.as_array().map(|ty| ty.shape.clone())?;
        let along = axes.iter().zip(extents.iter());
        let sizes = along.map(|(a, extent)| a.map_or(*extent, |a| part.sizes[a])).collect();
        Some(Read::Box { equation, axes, sizes })
    }

    /// Returns how reads of the result of equation `e` become reads of its operands; `None` if the reads cannot move.
    fn propagation(
        &mut self,
        module: &Module,
        e: &Equation,
        lowering: &Lowering,
    ) -> Option<Propagation> {
        let rank = |k: usize| self.f.type_of(e.operands[k]).as_array().map(|ty| ty.shape.len());
        match lowering {
            Lowering::Elementwise(_) => Some(Propagation::Elementwise),
            Lowering::Reduce { axes, .. } if !axes.is_empty() => {
                let mut kept = 0..;
                let along = (0..rank(0)?).map(|a| match axes.contains(&a) {
                    true => planted(Fault::SliceAcrossSum).then_some(0),
                    false => kept.next(),
                });
                Some(Propagation::Axes(vec![along.collect()]))
            }
            Lowering::Contract { batch, contract } => {
                let mut next = batch.len()..;
                let mut of = |left: bool, rank: usize| -> Vec<Option<usize>> {
                    let own = |pair: &(usize, usize)| if left { pair.0 } else { pair.1 };
                    let along = (0..rank).map(|a| {
                        if contract.iter().any(|pair| own(pair) == a) {
                            return None;
                        }
                        let shared = batch.iter().position(|pair| own(pair) == a);
                        shared.or_else(|| next.next())
                    });
                    along.collect()
                };
                Some(Propagation::Axes(vec![of(true, rank(0)?), of(false, rank(1)?)]))
            }
            Lowering::View { pieces, fill: None } if is_view(e, lowering) => {
                let along = |map: &AxisMap| match (map.terms.as_slice(), map.offset, map.divisor) {
                    ([(axis, 1)], 0, 1) => Some(Some(*axis)),
                    ([], 0, _) => Some(None),
                    _ => None,
                };
                let axes: Option<Vec<_>> = pieces[0].axes.iter().map(along).collect();
                let repeats =
                    elements(self.f, e.operands[0].value()?) < elements(self.f, e.outputs[0]);
                let axes = axes.filter(|_| repeats).map(|axes| Propagation::Axes(vec![axes]));
                axes.or_else(|| self.view(module, e, lowering))
            }
            other => self.view(module, e, other),
        }
    }

    /// Returns how reads pass through `e` if it is a view of an array that an equation computes; else `None`.
    fn view(&mut self, module: &Module, e: &Equation, lowering: &Lowering) -> Option<Propagation> {
        let view = is_view(e, lowering) && self.computed(module, e.operands[0]);
        view.then_some(Propagation::View)
    }

    /// Returns whether `of` is the result of an elementwise equation, a reduction or a product, or a view of such a
    /// result, so that reads may move in front of that equation.
    fn computed(&mut self, module: &Module, of: Atom) -> bool {
        let (mut at, mut path) = (of, Vec::new());
        let found = loop {
            let Some(v) = at.value() else { break false };
            if let Some(known) = self.computed[v] {
                break known;
            }
            path.push(v);
            let Some(e) = self.definitions[v].map(|e| &self.f.equations[e]) else { break false };
            if e.outputs.len() > 1 || e.op.effects(module) != Effects::Pure {
                break false;
            }
            match e.lower(module, self.f) {
                Lowering::Elementwise(_) | Lowering::Reduce { .. } | Lowering::Contract { .. } => {
                    break true;
                }
                other if is_view(e, &other) => at = e.operands[0],
                _ => break false,
            }
        };
        path.into_iter().for_each(|v| self.computed[v] = Some(found));
        found
    }

    /// Returns whether a read is a box, or a box of which a second read selects elements.
    fn is_box(&self, read: ReadId) -> bool {
        match &self.all[read].0 {
            Read::Through { equation, .. } => part(self.f, *equation).is_some(),
            Read::Box { .. } => true,
        }
    }

    fn id(&mut self, read: Read) -> ReadId {
        let next = self.all.len();
        let id = *self.ids.entry(read.clone()).or_insert(next);
        if id == next {
            let size = match &read {
                Read::Through { equation, then: None } => {
                    elements(self.f, self.f.equations[*equation].outputs[0])
                }
                Read::Through { then: Some(then), .. } => self.all[*then].1,
                Read::Box { sizes, .. } => sizes.iter().product(),
            };
            self.all.push((read, size));
        }
        id
    }

    fn whole(&mut self, a: Atom) {
        if let Atom::Value(v) = a {
            self.demands[v] = Demand::Everywhere;
        }
    }

    fn read(&mut self, a: Atom, read: ReadId) {
        let Atom::Value(v) = a else { return };
        match &mut self.demands[v] {
            Demand::Everywhere => {}
            Demand::At(reads) if reads.contains(&read) => {}
            Demand::At(reads) if reads.len() < MOST_READS => reads.push(read),
            at @ Demand::At(_) => *at = Demand::Everywhere,
            none @ Demand::Nowhere => *none = Demand::At(smallvec![read]),
        }
    }
}

/// Returns a copy of function `id` in which an equation of whose result only some elements are read computes only these
/// elements.
fn sliced(module: &mut Module, id: FuncId) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let reads = PartialReads::of(module, &f);
    if reads.moved.iter().flatten().all(|how| matches!(how, Propagation::View)) {
        return Ok(id);
    }
    let (draft, copying) = ValueRemap::same_signature(&f);
    let mut rewriting = Rewriting { reads: &reads, draft, copying, done: OrderedMap::default() };
    for (i, e) in f.equations.iter().enumerate() {
        rewriting.copy(module, i, e);
    }
    let Rewriting { draft, copying, .. } = rewriting;
    let f = draft.close(copying.results(&f))?;
    module.add(f)
}

/// The state of a copy of a function in which reads move in front of equations.
struct Rewriting<'r, 'f> {
    reads: &'r PartialReads<'f>,
    draft: Draft,
    copying: ValueRemap,
    /// Per value and read already emitted: the atom that holds the elements.
    done: OrderedMap<(ValueId, ReadId), Atom>,
}

impl Rewriting<'_, '_> {
    fn copy(&mut self, module: &mut Module, i: usize, e: &Equation) {
        let reads = self.reads;
        if reads.moved[i].is_some() {
            return;
        }
        let read = reads.ids.get(&Read::Through { equation: i, then: None });
        let made = match (read, e.operands.first()) {
            (Some(read), Some(Atom::Value(v))) if reads.moves(*v) => {
                smallvec![self.at(module, i, (*v).into(), *read)]
            }
            _ => {
                let operands = self.copying.all(&e.operands);
                self.draft.copy(reads.f, i, operands)
            }
        };
        self.copying.define(e, made);
    }

    /// Emits the read (slice, gather or view) `read` of the value `of`, and returns its result. If reads move in front
    /// of the equation that computes `of`, its operands are read instead, and a copy of the equation computes only the
    /// elements that are read. The emitted read gets the source line of equation `at`.
    fn at(&mut self, module: &mut Module, at: usize, of: Atom, read: ReadId) -> Atom {
        let (reads, Atom::Value(v)) = (self.reads, of) else { return of };
        if let Some(done) = self.done.get(&(v, read)) {
            return *done;
        }
        let moved = reads.definitions[v].and_then(|p| Some((p, reads.moved[p].as_ref()?)));
        let made = match moved {
            None => {
                let array = self.copying.read(of);
                self.apply(module, at, array, read)
            }
            Some((p, how)) => {
                let e = &reads.f.equations[p];
                let mut operands = Operands::new();
                for (k, a) in e.operands.iter().enumerate() {
                    let id = reads.of_operand(p, how, read, k).map(|of| reads.ids[&of]);
                    operands.push(match id {
                        Some(id) => deeper(|| self.at(module, at, *a, id)),
                        None => self.copying.read(*a),
                    });
                }
                match (how, &reads.all[read].0) {
                    // The operand has been read through the view already, so that operand is the result.
                    (Propagation::View, _) => operands[0],
                    (Propagation::Axes(_), Read::Through { equation, then }) => {
                        let sizes = part(reads.f, *equation).map(|part| part.sizes);
                        let result = &reads.f.types[reads.f.equations[*equation].outputs[0]];
                        let b = self.builder(module, p);
                        let made = b.emit1(e.op.for_part(&sizes.unwrap_or_default()), &operands);
                        let made = match result {
                            Type::Array(ty) => reshaped(&b, made, &ty.shape),
                            Type::Tape(_) => made,
                        };
                        then.map_or(made, |then| self.apply(module, at, made, then))
                    }
                    (Propagation::Axes(_), Read::Box { sizes, .. }) => {
                        self.builder(module, p).emit1(e.op.for_part(sizes), &operands)
                    }
                    (Propagation::Elementwise, _) => {
                        self.builder(module, p).emit1(e.op.clone(), &operands)
                    }
                }
            }
        };
        self.done.insert((v, read), made);
        made
    }

    /// Emits the read `read` of `array` at the current position of the builder, without moving the read in front of
    /// the equation that computes `array`. The read gets the source line of equation `at`.
    fn apply(&mut self, module: &mut Module, at: usize, mut array: Atom, read: ReadId) -> Atom {
        let (reads, mut next) = (self.reads, Some(read));
        while let Some(read) = next {
            (array, next) = match &reads.all[read].0 {
                Read::Through { equation, then } => {
                    let e = &reads.f.equations[*equation];
                    let mut operands = self.copying.all(&e.operands[1..]);
                    operands.insert(0, array);
                    (self.builder(module, *equation).emit1(e.op.clone(), &operands), *then)
                }
                Read::Box { equation, axes, sizes } => {
                    (self.take(module, at, array, (*equation, axes, sizes)), None)
                }
            };
        }
        array
    }

    /// Emits the box of `array` that a [`Read::Box`] describes; equation `at` gives the source line.
    fn take(
        &mut self,
        module: &mut Module,
        at: usize,
        array: Atom,
        (equation, axes, sizes): (usize, &[Option<usize>], &[usize]),
    ) -> Atom {
        let reads = self.reads;
        let given = self.copying.all(&reads.f.equations[equation].operands[1..]);
        let b = self.builder(module, at);
        if b.shape_of(array)[..] == *sizes {
            return array;
        }
        let zero = Atom::from(Literal::i64(0));
        let starts = part(reads.f, equation).map(|part| part.starts).unwrap_or_default();
        let start = |a: &Option<usize>| match a.map(|a| starts[a]) {
            None => zero,
            Some(Start::Number(n)) => Literal::i64(n).into(),
            Some(Start::Given { operand, component: of }) => component(&b, given[operand - 1], of),
        };
        let starts: Vec<Atom> = axes.iter().map(start).collect();
        take_box(&b, array, &starts, sizes)
    }

    fn builder<'b>(&'b mut self, module: &'b mut Module, equation: usize) -> Builder<'b> {
        let b = Builder::new(module, &mut self.draft);
        b.at(self.reads.f.origin(equation));
        b
    }
}

/// Returns whether an equation yields only elements of its first operand, and other operands are only indices.
fn is_view(e: &Equation, lowering: &Lowering) -> bool {
    let one = match lowering {
        Lowering::View { pieces, fill: None } => pieces.len() == 1 && e.operands.len() == 1,
        Lowering::Reshape
        | Lowering::DynamicSlice
        | Lowering::Gather { bounds: Bounds::Clip, .. } => true,
        _ => false,
    };
    one && e.operands[0].value().is_some() && !e.operands[1..].contains(&e.operands[0])
}

/// Returns the box that an equation reads of its first operand, if it reads one.
fn part(f: &Function, equation: usize) -> Option<SliceAccess> {
    let e = &f.equations[equation];
    let types: Vec<Type> = e.operands.iter().map(|a| f.type_of(*a)).collect();
    e.op.part(&types).filter(|part| part.writes.is_none())
}

fn elements(f: &Function, v: ValueId) -> usize {
    f.types[v].as_array().map_or(0, |ty| ty.shape.elements())
}
