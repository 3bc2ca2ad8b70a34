//! `flush_subnormals`: floats that an iteration of a loop passes to the next are 0 where they are subnormal.
//!
//! ```text
//! func @f(%0: f64[]) -> (f64[]) {          func @f(%0: f64[]) -> (f64[]) {
//!   %1: f64[] = mul %0, 0.7                  %1: f64[] = mul %0, 0.7
//!   return %1                                %2: f64[] = abs %1
//! }                                    ->    %3: bool[] = lt %2, 2.2250738585072014e-308
//!                                            %4: f64[] = mul %1, 0.0
//!                                            %5: f64[] = select %3, %4, %1
//!                                            return %5
//!                                          }
//! ```
//!
//! A recurrence that decays reaches the subnormal numbers and stays there, and processors take several times as long
//! for an operation on these. Of an array that iterations update in place, only the written elements are compared with
//! the smallest normal number. The pass changes results, so it runs on request only; no derivative is taken of its
//! output.

use crate::passes::pass::{Pass, Run};
use tapeloom_ir::prim::{Binding, Exactness, Expr, Lowering};
use tapeloom_ir::{
    Atom, Builder, Draft, Equation, FuncId, Function, Module, OrderedMap, OrderedSet, Problem,
    Type, ValueId, ValueRemap, deeper,
};

/// The entry of the pass `flush_subnormals` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "flush_subnormals",
    about: "floats that an iteration passes to the next are 0 where they are subnormal",
    exactness: Exactness::Flushes,
    run: Run::Program(|_, module, f| visit(module, f, &Outputs::default(), &mut Memo::default())),
};

/// The results of a function, or outputs of an equation, that are flushed (subnormal numbers replaced by 0), by index.
type Outputs = OrderedSet<usize>;

/// Memo of rewritten functions, by the old function and the results that are flushed (subnormal numbers replaced by 0).
type Memo = OrderedMap<(FuncId, Vec<usize>), FuncId>;

/// Returns the function `id` with its results of the given indices flushed (subnormal numbers replaced by 0) where they
/// are computed, and with the carries of all loops flushed. The parameters of the new function are ordinary ones,
/// because flushing is not linear.
fn visit(
    module: &mut Module,
    id: FuncId,
    results: &Outputs,
    memo: &mut Memo,
) -> Result<FuncId, Problem> {
    let key = (id, results.iter().copied().collect());
    if let Some(done) = memo.get(&key) {
        return Ok(*done);
    }
    let f = module.get(id);
    let Places { values, calls } = Places::of(module, &f, results);
    let mut changed = !values.is_empty() || !f.linear_params.is_empty();
    let mut draft = Draft::new(f.name.clone());
    let params: Vec<Atom> = f.all_params().map(|p| draft.param(f.types[p].clone())).collect();
    let mut map = ValueRemap::with(&f, params);
    for (i, e) in f.equations.iter().enumerate() {
        let body = carried(e);
        let outputs = |function: FuncId| match &body {
            // Of the functions that a loop runs, the one that is not the body is the condition; it has no carries to
            // flush.
            Some((body, carried)) if function == *body => carried.clone(),
            Some(_) => Outputs::default(),
            None => calls.get(&i).cloned().unwrap_or_default(),
        };
        let mut functions = Vec::new();
        for region in e.op.regions() {
            let outputs = outputs(region.function);
            let new = match region.role.runs() {
                true => deeper(|| visit(module, region.function, &outputs, memo))?,
                false => region.function,
            };
            changed |= new != region.function;
            functions.push(new);
        }
        let op = if functions.is_empty() { e.op.clone() } else { e.op.with_regions(&functions) };
        let mut made = draft.copy_as(op, &f, i, map.all(&e.operands));
        let b = Builder::new(module, &mut draft);
        b.at(f.origin(i));
        for (output, atom) in e.outputs.iter().zip(&mut made) {
            if values.contains(output) {
                *atom = Expr::new(&b, *atom).flushed().atom;
            }
        }
        map.define(e, made);
    }
    let done = if changed { draft.finish(module, map.results(&f))? } else { id };
    memo.insert(key, done);
    Ok(done)
}

/// Returns the body of a loop, and its results that are carried to the next iteration; `None` if the equation is no loop.
fn carried(e: &Equation) -> Option<(FuncId, Outputs)> {
    let (body, spec) = e.op.as_loop()?;
    let results = spec.takes.iter().filter_map(|taken| match taken {
        Binding::Carry(result) => Some(*result),
        _ => None,
    });
    Some((body, results.collect()))
}

/// The equations of a function that compute the results to be flushed (replaced by 0 where they are subnormal).
#[derive(Default)]
struct Places {
    /// The values to flush.
    values: OrderedSet<ValueId>,
    /// By the index of a call or a branch: the results to flush of the functions that it runs.
    calls: OrderedMap<usize, Outputs>,
}

impl Places {
    fn of(module: &Module, f: &Function, results: &Outputs) -> Places {
        let mut defined: OrderedMap<ValueId, (usize, usize)> = OrderedMap::default();
        for (i, e) in f.equations.iter().enumerate() {
            defined.extend(e.outputs.iter().enumerate().map(|(n, v)| (*v, (i, n))));
        }
        let mut places = Places::default();
        let mut seen: OrderedSet<ValueId> = OrderedSet::default();
        let mut pending: Vec<Atom> = results.iter().map(|r| f.results[*r]).collect();
        while let Some(atom) = pending.pop() {
            let Some(value) = atom.value() else { continue };
            // A parameter is not flushed here, but in the function that computes the argument.
            let Some((i, output)) = defined.get(&value).copied() else { continue };
            let float = matches!(&f.types[value], Type::Array(ty) if ty.dtype.is_float());
            if !float || !seen.insert(value) {
                continue;
            }
            let e = &f.equations[i];
            match e.lower(module, f) {
                Lowering::DynamicUpdateSlice => pending.extend(&e.operands[..2]),
                Lowering::Scatter { .. } => pending.extend([e.operands[0], e.operands[2]]),
                // The loop flushes its own carries, so its outputs need no flushing here.
                Lowering::Loop { .. } => {}
                Lowering::Call(_) | Lowering::Branch { .. } => {
                    places.calls.entry(i).or_default().insert(output);
                }
                _ => {
                    places.values.insert(value);
                }
            }
        }
        places
    }
}
