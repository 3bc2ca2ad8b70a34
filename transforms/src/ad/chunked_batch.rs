//! Vectorization in chunks: the batch of a function whose members run loops of different lengths.
//!
//! A loop over a batch runs until its last member ends. Therefore the equations of the function from the first to the last
//! such loop run for one chunk of members after the other, in a loop over chunks ([`Chunks`]). A chunk ends when its
//! own slowest member ends, its values remain in the cache, and the backend may run chunks on several threads.
//!
//! ```text
//! func @f(%0: f64[]) -> (f64[]) {          func @f.batch(%0: f64[10000]) -> (f64[10000]) {
//!   %1: f64[] = exp %0                       %1: f64[10000] = exp %0
//!                                            %2: f64[50,200] = reshape %1
//!   %2: f64[], _ = loop{trip=while} %1       %3: f64[50,200] = loop{body=@f.chunk.batch, trip=50} %2
//!                                            %4: f64[10000] = reshape %3
//!   %3: f64[] = sin %2                       %5: f64[10000] = sin %4
//!   return %3                                return %5
//! }                                        }
//! ```
//!
//! Only the outermost batch is divided, so that a loop inside a scan does not join all chunks in each iteration of the
//! scan. The equations from the first to the last loop include those that read the tape of a loop, so tapes do not
//! leave a chunk.
//!
//! A member has the same value in every chunk. However, the cotangent of a value that all members share is a sum over
//! members, which is then a sum over chunks of sums over members.
//!
//! Alternative: a pass that finds batches in lowered loops. It would have to prove that a member that has ended does not
//! change, and that the choice of the member on whose values ended members run affects no result.

use super::batch::Batching;
use crate::passes::cost::Arithmetic;
use cranelift_entity::SecondaryMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use tapeloom_ir::lang::query::{BatchOf, BatchRequest};
use tapeloom_ir::prim::{Chunks, Regions, bodies_of_dynamic_loops, waits_for_members};
use tapeloom_ir::{
    Builder, Draft, FuncId, Function, Module, OrderedMap, Problem, Type, ValueId, ValueRemap,
};

/// The number of members of a chunk is a multiple of this number, so that vectors are full.
const LANES: usize = 8;
/// The least and the greatest number of members of a chunk. With fewer, the start of a loop over the members takes longer
/// than its vectors; more would gain nothing.
const MEMBERS: RangeInclusive<usize> = 16..=1024;
/// The least number of chunks. With fewer, few members wait for less.
const CHUNKS: usize = 2;

/// Derives the function over a batch of `size` members in chunks; `None` if nothing in `f` waits for the slowest member
/// of a batch, if the batch is small, or if the members must be seen to run in order.
pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    size: usize,
    batched: &[bool],
) -> Result<Option<BatchOf>, Problem> {
    let Some(operations) = module.chunk_operations() else { return Ok(None) };
    let f = module.get(id);
    let dynamic = |i: &usize| module.runs_dynamic_loop(&f.equations[*i].op);
    let mut loops = (0..f.equations.len()).filter(dynamic);
    let Some(first) = loops.next() else { return Ok(None) };
    let last = loops.next_back().unwrap_or(first);
    if size < CHUNKS * MEMBERS.start() || !f.linear_params.is_empty() {
        return Ok(None);
    }
    let (mut draft, mut batching) = Batching::begin(&f, size, batched)?;
    let b = Builder::new(module, &mut draft);
    for i in 0..first {
        batching.equation(regions, &b, i)?;
    }
    // The equations of the chunks, and per value whether one of them defines it. An equation without batched operands
    // runs once, before the chunks.
    let mut members = Vec::new();
    let mut inside: SecondaryMap<ValueId, bool> = SecondaryMap::new();
    for i in first..=last {
        let e = &f.equations[i];
        let observable = |m: &mut Module| e.op.regions().iter().any(|r| m.is_seen(r.function));
        if e.op.host().is_some() || b.with_module(observable) {
            return Ok(None);
        }
        if e.operands.iter().filter_map(|a| a.value()).any(|v| batching.on[v] || inside[v]) {
            members.push(i);
            e.outputs.iter().for_each(|o| inside[*o] = true);
        } else {
            batching.equation(regions, &b, i)?;
        }
    }
    let Some(outlined) = b.with_module(|m| Outlined::of(m, &f, &members, &inside))? else {
        return Ok(None);
    };
    let on: Vec<bool> = outlined.params.iter().map(|v| batching.on[*v]).collect();
    let work = b.with_module(|m| heaviest_iteration(m, outlined.function));
    let Some(chunks) = divide(size, work, operations) else { return Ok(None) };
    let of = b.with_module(|m| {
        let wanted = vec![BatchRequest::AsIs; outlined.results.len()];
        let of = regions.batch(m, outlined.function, chunks.each, &on, &wanted)?;
        Ok(waits_for_members(m, of.function, chunks.each).then_some(of))
    })?;
    let Some(of) = of else { return Ok(None) };
    b.at(f.origin(first));
    let read = |v: &ValueId| batching.map.read((*v).into());
    let args: Vec<_> = outlined.params.iter().map(read).collect();
    let y = chunks.emit(&b, &of, &args, &on);
    for ((v, y), on) in outlined.results.iter().zip(y.y).zip(y.batched) {
        batching.map.bind(*v, y);
        batching.on[*v] = on;
    }
    for i in last + 1..f.equations.len() {
        batching.equation(regions, &b, i)?;
    }
    let wanted = vec![BatchRequest::AsIs; f.results.len()];
    let (results, batched_out) = batching.results(&b, &wanted);
    Ok(Some(BatchOf { function: draft.finish(module, results)?, batched_out }))
}

/// Some equations of a function, as a function.
struct Outlined {
    function: FuncId,
    /// The values of the original function that are the arguments.
    params: Vec<ValueId>,
    /// The values of the original function that are the results.
    results: Vec<ValueId>,
}

impl Outlined {
    /// Makes a function of the equations `members` of `f`, which define the values `inside`. Returns `None` if an argument
    /// or a result would be a tape: tapes of chunks differ in length.
    fn of(
        module: &mut Module,
        f: &Function,
        members: &[usize],
        inside: &SecondaryMap<ValueId, bool>,
    ) -> Result<Option<Outlined>, Problem> {
        let mut draft = Draft::new(format!("{}.chunk", f.name));
        let mut map = ValueRemap::new();
        let mut params: OrderedMap<ValueId, ()> = OrderedMap::default();
        for v in members.iter().flat_map(|i| &f.equations[*i].operands).filter_map(|a| a.value()) {
            if !inside[v] && params.insert(v, ()).is_none() {
                map.bind(v, draft.param(f.types[v].clone()));
            }
        }
        for i in members {
            let e = &f.equations[*i];
            let y = draft.copy(f, *i, map.all(&e.operands));
            map.define(e, y);
        }
        let mut others = (0..f.equations.len()).filter(|i| members.binary_search(i).is_err());
        let read = others.by_ref().flat_map(|i| &f.equations[i].operands).chain(&f.results);
        let read = read.filter_map(|a| a.value()).filter(|v| inside[*v]);
        let results: OrderedMap<ValueId, ()> = read.map(|v| (v, ())).collect();
        let params: Vec<ValueId> = params.into_keys().collect();
        let results: Vec<ValueId> = results.into_keys().collect();
        let tape = |v: &ValueId| matches!(f.types[*v], Type::Tape(_));
        if params.iter().chain(&results).any(tape) {
            return Ok(None);
        }
        let y = results.iter().map(|v| map.read((*v).into())).collect();
        Ok(Some(Outlined { function: draft.finish(module, y)?, params, results }))
    }
}

/// Returns the arithmetic, in additions, of one iteration of the loop with the most expensive iterations among those
/// whose trip counts are known only at run time.
fn heaviest_iteration(module: &Module, f: FuncId) -> f64 {
    let mut arithmetic = Arithmetic::new(1);
    let bodies = bodies_of_dynamic_loops(module, f).into_iter();
    bodies.map(|body| arithmetic.function(module, body)).fold(1.0, f64::max)
}

/// Divides a batch into chunks, an iteration of which has about `operations` operations, if an iteration of one member
/// has `work`. Returns `None` if there would be one chunk only.
fn divide(size: usize, work: f64, operations: NonZeroUsize) -> Option<Chunks> {
    let members = (operations.get() as f64 / work.max(1.0)) as usize;
    let members = members.clamp(*MEMBERS.start(), *MEMBERS.end());
    let count = (size / members).max(1);
    // A power of two is divided evenly among threads.
    let count = 1 << count.ilog2();
    let each = size.div_ceil(count).next_multiple_of(LANES);
    let chunks = Chunks { size, each };
    (chunks.count() >= CHUNKS).then_some(chunks)
}
