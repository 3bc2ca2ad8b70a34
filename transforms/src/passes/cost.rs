//! The cost model of programs: arithmetic, and memory traffic between loop nests.
//!
//! Backends fuse elementwise primitives, views and the reductions that consume them into one loop nest. So a value that
//! is used inside one nest costs its arithmetic only; a value that crosses nests, or goes into a contraction by the
//! matrix library, a scatter or a call, is written once and read by each reader. A view is never written: its readers
//! read its operand. A value of few cheap operations is not written either: each reader computes it. An update of an
//! updated array writes its own elements only. A test compares the bytes with those of the lowered examples. The cost of
//! an operation per element is in the table of codes ([`tapeloom_ir::Code::row`]), the part of a primitive in loop nests
//! is its [`Placement`], and [`FLOPS_PER_BYTE`] weighs arithmetic against traffic.
//!
//! ```text
//! %2: f64[1000] = exp %0          // 16 flops an element; one reader, in the same nest: no traffic
//! %3: f64[1000] = mul %2, %1      // one flop; read by two nests below: written, read twice
//! %4: f64[] = reduce_sum{axes=[0]} %3
//! %5: f64[] = reduce_max{axes=[0]} %3
//! ```
//!
//! The numbers are ratios measured on one machine (an addition is 1); only their order matters.

use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::fmt;
use tapeloom_ir::analysis::placement::Placement;
use tapeloom_ir::prim::{Lowering, Operand, TripCount};
use tapeloom_ir::{
    Equation, FuncId, Function, Module, Op, OrderedMap, OrderedSet, Type, ValueId, deeper,
};

// None of these numbers comes from a machine model, because the form of a program must not depend on the machine on
// which it is compiled.

/// The number of additions that take as long as moving one byte between cache and core.
pub(crate) const FLOPS_PER_BYTE: f64 = 0.5;

/// The cost added to every equation, in additions. So of two programs of equal arithmetic and traffic, the shorter
/// wins.
const EQUATION: f64 = 0.25;

/// The size in bytes up to which an array is counted as held in registers, so that moving it is free.
const REGISTER_BYTES: usize = 64;

/// The smallest extent (rows, columns or terms) of a contraction that the matrix library computes. Smaller contractions
/// are loops, in which operands may be computed.
const LIBRARY_EXTENT: f64 = 4.0;

/// The smallest number of products of numbers in a contraction that the matrix library computes.
const LIBRARY_PRODUCTS: f64 = 4096.0;

/// The estimated cost of running a program once.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// Arithmetic, in additions.
    pub flops: f64,
    /// The number of bytes that are moved between loop nests, through memory.
    pub bytes: f64,
}

impl Cost {
    /// Returns the sum of arithmetic and memory traffic, with traffic converted to additions by `FLOPS_PER_BYTE`.
    pub fn total(self) -> f64 {
        self.flops + FLOPS_PER_BYTE * self.bytes
    }

    /// Returns the sum of two costs.
    #[must_use]
    pub fn plus(self, other: Cost) -> Cost {
        Cost { flops: self.flops + other.flops, bytes: self.bytes + other.bytes }
    }

    /// Returns the cost of a function.
    pub fn of(module: &Module, f: &Function) -> Cost {
        program(module, f)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} flops, {:.0} bytes", self.flops, self.bytes)
    }
}

/// Returns the placement of an equation in loop nests, and its arithmetic in additions.
pub(crate) fn work_of(
    module: &Module,
    op: &Op,
    operands: &[Operand<'_>],
    outputs: &[Type],
) -> (Placement, f64) {
    let lowering = op.lower(module, operands);
    (Placement::of(&lowering), arithmetic(&lowering, operands, outputs))
}

/// The role of an equation in loop nests, as far as it decides about memory traffic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// A view of one array, or an array of indices: readers of the result read the operand, or compute the index. If the
    /// readers of a view need an array in memory, the operand is stored.
    View,
    /// Any other equation.
    Own {
        /// Whether operands may be computed inside the loop nest of the equation.
        takes: bool,
        /// Whether the result may be computed inside the loop nest of its only reader.
        gives: bool,
    },
}

impl Part {
    fn of(lowering: &Lowering, operands: &[Operand<'_>]) -> Part {
        let placement = Placement::of(lowering);
        let shape = |i: usize| operands.get(i).and_then(|o| o.ty.as_array()).map(|a| &a.shape);
        match lowering {
            Lowering::View { .. } | Lowering::Reshape if operands.len() == 1 => Part::View,
            Lowering::Iota { .. } => Part::View,
            // A fold over the innermost axes can run inside of its reader's loops over the other axes.
            Lowering::Reduce { axes, .. } => {
                let rank = shape(0).map_or(0, |shape| shape.len());
                let inner = axes.len() < rank && axes.iter().all(|a| *a >= rank - axes.len());
                Part::Own { takes: true, gives: inner }
            }
            // A contraction that is too small for the matrix library is lowered to loops, like a fold.
            Lowering::Contract { batch, contract } => {
                let extents = |side: usize, pairs: &[(usize, usize)]| -> f64 {
                    let axis = |(l, r): &(usize, usize)| if side == 0 { *l } else { *r };
                    let extent = |p| shape(side).map_or(1.0, |shape| shape[axis(p)] as f64);
                    pairs.iter().map(extent).product()
                };
                let k = extents(0, contract);
                let free = |side: usize| {
                    let all = shape(side).map_or(1.0, |shape| shape.elements() as f64);
                    all / (k * extents(side, batch)).max(1.0)
                };
                let (m, n) = (free(0), free(1));
                let library = m.min(n).min(k) >= LIBRARY_EXTENT && m * n * k >= LIBRARY_PRODUCTS;
                Part::Own { takes: !library, gives: !library }
            }
            _ => Part::Own { takes: placement.takes(), gives: placement.gives() },
        }
    }
}

/// Returns the arithmetic of an equation, in units of one addition.
fn arithmetic(lowering: &Lowering, operands: &[Operand<'_>], outputs: &[Type]) -> f64 {
    let elements = |ty: &Type| ty.as_array().map_or(1.0, |a| a.shape.elements() as f64);
    let out: f64 = outputs.iter().map(elements).sum();
    let of = |i: usize| operands.get(i).map_or(0.0, |o| elements(o.ty));
    let flops = match lowering {
        Lowering::Elementwise(code) => out * f64::from(code.row().flops),
        // A view costs a tenth of an addition per element: index arithmetic, and loads that are not contiguous.
        Lowering::View { .. } => out * 0.1,
        Lowering::Reshape => out * 0.05,
        Lowering::Alias { .. } => 0.0,
        Lowering::Iota { .. } => out * 0.5,
        Lowering::Reduce { code, .. } => of(0) * f64::from(code.row().flops),
        Lowering::ArgReduce { .. } => of(0) * 2.0,
        // A sort reads its whole operand, even if readers use only a few of its results.
        Lowering::ArgSort { .. } => of(0) * 64.0,
        // A cumulation (such as a running sum) costs four additions per element: it is a call of the runtime, in which
        // each element depends on the element before it.
        Lowering::Cumulate { .. } => out * 4.0,
        Lowering::Contract { contract, .. } => {
            let extent = |(axis, _): &(usize, usize)| {
                let array = operands.first().and_then(|o| o.ty.as_array());
                array.map_or(1.0, |a| a.shape[*axis] as f64)
            };
            // A fused multiply-add is one instruction, so a multiplication and the addition of its product count as
            // one.
            out * contract.iter().map(extent).product::<f64>()
        }
        Lowering::DynamicSlice | Lowering::Gather { .. } => out * 2.0,
        Lowering::DynamicUpdateSlice => of(1),
        Lowering::Scatter { .. } => of(2) * 3.0,
        Lowering::Routine(call) => call.flops() as f64,
        // Simplification never rewrites these equations, so the same cost is added before and after, and any number
        // will do.
        Lowering::Call(_)
        | Lowering::Host(_)
        | Lowering::Branch { .. }
        | Lowering::Loop { .. }
        | Lowering::Missing(_) => 1000.0,
    };
    flops + EQUATION
}

/// The arithmetic of equations and of the functions that they run, memoized per function.
pub(crate) struct Arithmetic {
    /// The trip count assumed for a loop whose trip count is dynamic.
    trips: usize,
    functions: OrderedMap<FuncId, f64>,
}

impl Arithmetic {
    pub(crate) fn new(trips: usize) -> Arithmetic {
        Arithmetic { trips, functions: OrderedMap::default() }
    }

    /// Returns the arithmetic of an equation in additions. A loop counts its body once per iteration, a branch
    /// counts its most expensive function.
    pub(crate) fn of(&mut self, module: &Module, f: &Function, e: &Equation) -> f64 {
        match e.lower(module, f) {
            Lowering::Call(callee) => self.function(module, callee),
            Lowering::Branch { branches } => {
                branches.into_iter().map(|g| self.function(module, g)).fold(0.0, f64::max)
            }
            Lowering::Loop { body, spec } => {
                let trips = match spec.trip {
                    TripCount::Static(n) => n,
                    TripCount::Runtime | TripCount::While { .. } => self.trips,
                };
                trips as f64 * self.function(module, body)
            }
            _ => {
                let outputs: Vec<Type> = e.outputs.iter().map(|o| f.types[*o].clone()).collect();
                e.with_operands(f, |operands| work_of(module, &e.op, operands, &outputs)).1
            }
        }
    }

    /// Returns the arithmetic of a function in additions.
    pub(crate) fn function(&mut self, module: &Module, id: FuncId) -> f64 {
        if let Some(known) = self.functions.get(&id) {
            return *known;
        }
        let f = module.function(id);
        let all = f.equations.iter().map(|e| deeper(|| self.of(module, f, e))).sum();
        self.functions.insert(id, all);
        all
    }
}

/// Returns the number of bytes moved when a value is read once; 0 for a value of at most `REGISTER_BYTES` bytes.
pub(crate) fn bytes(ty: &Type) -> f64 {
    match ty.as_array().map(|a| a.bytes()) {
        Some(bytes) if bytes > REGISTER_BYTES => bytes as f64,
        _ => 0.0,
    }
}

/// Returns the cost of one equation on its own, in additions, for extraction, before the loop nests are known. Operands
/// that the equation reads from memory count as written and read for this equation; its output counts as written and
/// read if it must be in memory. `stored` says which operands, and whether the output, are in memory in any case: these
/// count nothing.
pub(crate) fn local(
    module: &Module,
    op: &Op,
    operands: &[Operand<'_>],
    outputs: &[Type],
    stored: (&[bool], bool),
) -> f64 {
    let lowering = op.lower(module, operands);
    let flops = arithmetic(&lowering, operands, outputs);
    let (takes, gives) = match Part::of(&lowering, operands) {
        Part::View => (true, true),
        Part::Own { takes, gives } => (takes, gives),
    };
    let mut moved = 0.0;
    if !takes {
        let new = operands.iter().zip(stored.0).filter(|(_, stored)| !**stored);
        moved += new.map(|(o, _)| bytes(o.ty)).sum::<f64>();
    }
    if !gives && !stored.1 {
        moved += outputs.iter().map(bytes).sum::<f64>();
    }
    flops + 2.0 * FLOPS_PER_BYTE * moved
}

/// Returns whether an equation returns its first operand with some elements overwritten.
fn is_update(lowering: &Lowering) -> bool {
    matches!(lowering, Lowering::DynamicUpdateSlice | Lowering::Scatter { .. })
}

/// The largest numbers of cheap operations and of arrays with which a value that several nests read is computed in each
/// of them instead of being stored. Lowering decides by these numbers, too (`recomputed_operations` and
/// `recomputed_loads` of the machine model).
const RECOMPUTED: (u32, u32) = (3, 2);

/// Returns, for each value, whether every nest that reads it computes it: a few cheap operations on few arrays.
fn recomputed(module: &Module, f: &Function) -> SecondaryMap<ValueId, bool> {
    // The numbers of operations and loads that compute one element of a value. A stored value is one load.
    let mut work: SecondaryMap<ValueId, (u32, u32)> = SecondaryMap::with_default((0, 1));
    let mut cheap = SecondaryMap::with_capacity(f.types.len());
    for e in &f.equations {
        let lowering = e.lower(module, f);
        let own = match &lowering {
            Lowering::View { .. } | Lowering::Reshape if e.operands.len() == 1 => 0,
            Lowering::Iota { .. } => 0,
            Lowering::Elementwise(code) if code.row().flops <= 2 => 1,
            _ => continue,
        };
        let mut values: SmallVec<[ValueId; 3]> =
            e.operands.iter().filter_map(|x| x.value()).collect();
        values.dedup();
        let all = values.iter().map(|v| work[*v]);
        let (operations, loads) = all.fold((own, 0), |sum, x| (sum.0 + x.0, sum.1 + x.1));
        let v = e.outputs[0];
        if operations <= RECOMPUTED.0 && loads <= RECOMPUTED.1 {
            work[v] = (operations, loads);
            cheap[v] = own > 0;
        }
    }
    cheap
}

/// Returns the cost of a function. A backward walk assigns each equation to the loop nest of its only reader; an
/// equation with several readers is a nest of its own. Values that one nest writes and others read count as
/// traffic.
fn program(module: &Module, f: &Function) -> Cost {
    /// The readers of a value that the backward walk has found so far.
    #[derive(Clone, Default)]
    struct Readers {
        /// The loop nests that read the value, each as its index and the largest number of bytes that it reads.
        nests: SmallVec<[(usize, f64); 2]>,
        /// Whether a reader needs the value in memory.
        memory: bool,
        /// Whether a reader reads each element several times: a contraction in loops.
        again: bool,
    }
    impl Readers {
        fn add(&mut self, nest: usize, most: f64) {
            match self.nests.iter_mut().find(|(known, _)| *known == nest) {
                Some((_, bytes)) => *bytes = bytes.max(most),
                None => self.nests.push((nest, most)),
            }
        }

        /// Adds the readers of another value, each of which reads at most `all` bytes of this value.
        fn through(&mut self, other: &Readers, all: f64) {
            self.memory |= other.memory;
            self.again |= other.again;
            other.nests.iter().for_each(|(nest, most)| self.add(*nest, all.min(*most)));
        }
    }
    let mut readers: SecondaryMap<ValueId, Readers> = SecondaryMap::with_capacity(f.types.len());
    let mut cost = Cost::default();
    let results: OrderedSet<ValueId> = f.results.iter().filter_map(|r| r.value()).collect();
    for v in &results {
        readers[*v].memory = true;
    }
    let recomputed = recomputed(module, f);
    let mut updated: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for e in f.equations.iter().filter(|e| is_update(&e.lower(module, f))) {
        updated[e.outputs[0]] = true;
    }
    let count_traffic = |r: &Readers, ty: &Type, defined: bool, cost: &mut Cost| {
        let all = bytes(ty);
        if defined && (r.memory || !r.nests.is_empty()) {
            cost.bytes += all;
        }
        cost.bytes += r.nests.iter().map(|(_, most)| all.min(*most)).sum::<f64>();
    };
    for (i, e) in f.equations.iter().enumerate().rev() {
        let types: SmallVec<[Type; 3]> = e.operands.iter().map(|a| f.type_of(*a)).collect();
        let operands: SmallVec<[Operand<'_>; 3]> = e
            .operands
            .iter()
            .zip(&types)
            .map(|(a, ty)| Operand { ty, literal: a.literal() })
            .collect();
        let outputs: SmallVec<[Type; 1]> = e.outputs.iter().map(|o| f.types[*o].clone()).collect();
        let lowering = e.op.lower(module, &operands);
        cost.flops += arithmetic(&lowering, &operands, &outputs);
        let (takes, gives) = match Part::of(&lowering, &operands) {
            // If a view is a result of the function, a loop nest of its own writes it.
            Part::View if results.contains(&e.outputs[0]) => (true, true),
            Part::View => {
                let r = std::mem::take(&mut readers[e.outputs[0]]);
                if let Some(x) = e.operands.first().and_then(|x| x.value()) {
                    readers[x].through(&r, bytes(&outputs[0]));
                }
                continue;
            }
            Part::Own { .. } if e.outputs.iter().any(|v| recomputed[*v] && !readers[*v].memory) => {
                let r = std::mem::take(&mut readers[e.outputs[0]]);
                for x in e.operands.iter().filter_map(|x| x.value()) {
                    readers[x].through(&r, f64::INFINITY);
                }
                continue;
            }
            Part::Own { takes, gives } => (takes, gives),
        };
        let mut nest = i;
        // An update of the result of another update writes its elements into the memory of this result.
        let in_place = e.operands.first().and_then(|x| x.value()).is_some_and(|x| updated[x]);
        let updates = match lowering {
            Lowering::DynamicUpdateSlice if in_place => Some(bytes(&types[1])),
            Lowering::Scatter { .. } if in_place => Some(bytes(&types[2])),
            _ => None,
        };
        if let Some(written) = updates {
            cost.bytes += written;
        }
        let contracts = matches!(lowering, Lowering::Contract { .. });
        let folds = contracts || matches!(lowering, Lowering::Reduce { .. });
        let mut again = contracts && takes;
        for (v, ty) in e.outputs.iter().zip(&outputs) {
            let r = std::mem::take(&mut readers[*v]);
            // A sum that is read several times is stored.
            let gives = gives && !r.memory && !(r.again && folds);
            match r.nests.as_slice() {
                [(one, _)] if gives && e.outputs.len() == 1 => {
                    nest = *one;
                    again |= r.again;
                }
                _ => count_traffic(&r, ty, updates.is_none(), &mut cost),
            }
        }
        // A gather and a dynamic slice read only as many elements as their results have.
        let some = Placement::of(&lowering) == Placement::Element;
        for (k, v) in e.operands.iter().enumerate().filter_map(|(k, a)| Some((k, a.value()?))) {
            let r = &mut readers[v];
            // Indices of a gather, a slice or an update may be computed where they are read.
            let array = k == 0 || !some && !is_update(&lowering);
            r.memory |= !takes && array;
            r.again |= again;
            let most = match updates {
                _ if some && k == 0 => bytes(&outputs[0]),
                Some(written) if k == 0 => written,
                _ => f64::INFINITY,
            };
            r.add(nest, most);
        }
    }
    for p in f.all_params() {
        count_traffic(&readers[p], &f.types[p], false, &mut cost);
    }
    cost
}
