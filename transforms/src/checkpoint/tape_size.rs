//! The size of a derivative's tape: the residuals that the forward pass saves, and the values that loops of the reverse
//! pass save for a reverse pass of their own.
//!
//! ```text
//! residuals                           results of the forward function that the linear function reads
//! records, in the linear function     stacks of recomputed loops, slots of their carries, and the largest records of a
//!                                     function that it runs (such functions run one after the other)
//! ```

use super::cost::moves;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::lang::query::LinearizeOf;
use tapeloom_ir::prim::{Lowering, Role};
use tapeloom_ir::{
    Equation, FuncId, Function, Loc, Maker, Module, OrderedMap, OrderedSet, Type, ValueId, deeper,
    maker,
};

/// The size of a plan's tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tape {
    /// At most this number of bytes.
    Bytes(u64),
    /// A dynamic size; with the source line of the loop whose iterations save residuals on the tape.
    Unbounded(Loc),
}

/// A value that lies on a tape.
#[derive(Clone, Copy, Debug)]
struct Part {
    function: FuncId,
    value: ValueId,
    bytes: u64,
}

/// Returns the size of a derivative's tape.
pub(super) fn tape_of(module: &Module, of: &LinearizeOf) -> Tape {
    match parts(module, of) {
        Ok(parts) => Tape::Bytes(sum(&parts)),
        Err(at) => Tape::Unbounded(at),
    }
}

/// The number of largest values on a tape that an error message lists.
const NAMED: usize = 3;

/// Returns a text that lists the `NAMED` largest values of a tape with their bytes, for an error message.
pub(super) fn largest(module: &Module, of: &LinearizeOf) -> String {
    let mut alike: OrderedMap<String, (u64, usize)> = OrderedMap::default();
    for part in parts(module, of).unwrap_or_default() {
        let (bytes, times) = alike.entry(part.describe(module)).or_default();
        *bytes = bytes.saturating_add(part.bytes);
        *times += 1;
    }
    alike.sort_by(|_, (a, _), _, (b, _)| b.cmp(a));
    let one = |(what, (bytes, times)): (&String, &(u64, usize))| match times {
        1 => format!("{bytes} bytes are {what}"),
        _ => format!("{bytes} bytes are {times} of {what}"),
    };
    alike.iter().take(NAMED).map(one).collect::<Vec<_>>().join(", ")
}

fn sum(parts: &[Part]) -> u64 {
    parts.iter().fold(0, |all, part| all.saturating_add(part.bytes))
}

/// Returns the values on a tape. If the tape is dynamic, the error is the source line of its loop.
fn parts(module: &Module, of: &LinearizeOf) -> Result<Vec<Part>, Loc> {
    let fwd = module.function(of.fwd);
    let mut all = Vec::new();
    for (i, ty) in fwd.result_types().iter().enumerate().skip(of.active_out.len()) {
        let value = fwd.results[i].value();
        match (ty, value) {
            (Type::Array(_), None) => {}
            (Type::Array(_), Some(value))
                if planted(Fault::FactorsUncounted) && is_factor(module, of.fwd, value) => {}
            (Type::Array(ty), Some(value)) => {
                all.push(Part { function: of.fwd, value, bytes: ty.bytes() as u64 });
            }
            (Type::Tape(_), _) => return Err(value.and_then(|v| made(module, of.fwd, v)?.at)),
        }
    }
    if !planted(Fault::Uncounted) {
        all.extend(recorded(module, of.lin)?);
    }
    Ok(all)
}

/// Returns the primitive and the source line of the equation that defines the value `v` of `f`; `None` for a parameter.
fn made(module: &Module, f: FuncId, v: ValueId) -> Option<Maker> {
    let f = module.function(f);
    let mut outputs = f.equations.iter().enumerate();
    let (i, n) = outputs.find_map(|(i, e)| Some((i, e.outputs.iter().position(|o| *o == v)?)))?;
    Some(maker(module, f, i, n))
}

impl Part {
    /// Describes a value by name, type, primitive and source line: `h: f64[64,64], dot at src/main.rs:7`.
    fn describe(&self, module: &Module) -> String {
        let ty = &module.function(self.function).types[self.value];
        let Some(Maker { what, at, packed: _, named }) = made(module, self.function, self.value)
        else {
            return ty.to_string();
        };
        let name = named.map_or(String::new(), |name| format!("{name}: "));
        let at = at.map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
        format!("{name}{ty}, {what}{at}")
    }
}

/// Returns the values that a linear function holds in memory for its own reverse pass: stacks of the loops that it
/// recomputes, the slots of their carries (also slots that pass through a branch or an iteration), and the values that
/// the functions that it runs hold. These functions run one after the other, so only the largest of them counts.
fn recorded(module: &Module, lin: FuncId) -> Result<Vec<Part>, Loc> {
    let f = module.function(lin);
    let mut of: SecondaryMap<ValueId, Origin> = SecondaryMap::with_capacity(f.types.len());
    f.linear_params.iter().for_each(|p| of[*p] = Origin::Linear);
    // The values that are alive from their definition to the reverse pass of the equation that reads them.
    let mut held: OrderedSet<ValueId> = OrderedSet::default();
    let mut inside: Vec<Part> = Vec::new();
    for (i, e) in f.equations.iter().enumerate() {
        let regions = e.op.regions();
        let rules = regions.iter().any(|r| r.role == Role::Rule);
        let operands = || e.operands.iter().filter_map(|a| a.value());
        let linear = operands().any(|v| of[v] == Origin::Linear);
        let constant = operands().all(|v| of[v] == Origin::Constant);
        let marked = || operands().map(|v| of[v]).next();
        let origin = match (linear, regions.is_empty()) {
            (true, _) => Origin::Linear,
            // The output of a `barrier` counts as the same kind of value as its operand.
            (false, _) if e.op.mark().is_some() => marked().unwrap_or(Origin::Constant),
            (false, true) if constant && is_uniform(&e.lower(module, f)) => Origin::Constant,
            // A slice of the result of a loop or call may be read in the memory of that result, so the memory of the
            // whole result counts.
            (false, true) if operands().any(|v| of[v] == Origin::Run) && copies(module, f, e) => {
                Origin::Run
            }
            (false, true) => Origin::Computed,
            (false, false) => Origin::Run,
        };
        e.outputs.iter().for_each(|o| of[*o] = origin);
        let places = e.op.kept_carries(module);
        for (k, v) in e.operands.iter().enumerate().filter_map(|(k, a)| Some((k, a.value()?))) {
            let lies = match of[v] {
                Origin::Run => linear && !regions.is_empty() || rules,
                // Slots (memory for saved carries) that the linear function allocates are not among the residuals.
                // Other values computed here are alive only during the reverse pass of the equations that read them.
                Origin::Computed => places.contains(&k),
                Origin::Param | Origin::Constant | Origin::Linear => false,
            };
            if lies {
                held.insert(v);
            }
        }
        if let (false, Some((_, spec))) = (linear, e.op.as_loop()) {
            let stacked = e.outputs.iter().enumerate().filter(|(r, _)| spec.carrier(*r).is_none());
            for (_, o) in stacked {
                match &f.types[*o] {
                    Type::Array(_) => drop(held.insert(*o)),
                    Type::Tape(_) => return Err(f.location(i)),
                }
            }
        }
        for region in regions.iter().filter(|r| (r.role == Role::Rule) == rules) {
            let other = deeper(|| recorded(module, region.function))?;
            if sum(&other) > sum(&inside) {
                inside = other;
            }
        }
    }
    let bytes = |v: &ValueId| f.types[*v].as_array().map_or(0, |ty| ty.bytes() as u64);
    let own = held.iter().map(|v| Part { function: lin, value: *v, bytes: bytes(v) });
    Ok(own.chain(inside).collect())
}

/// Returns whether an equation only copies, reads or writes a part of an array, without arithmetic.
fn copies(module: &Module, f: &Function, e: &Equation) -> bool {
    moves(module, f, e) || matches!(e.lower(module, f), Lowering::DynamicUpdateSlice)
}

/// Returns whether a value is a result of a library routine, such as a factor of a matrix. Barriers between the routine
/// and the value are looked through.
fn is_factor(module: &Module, f: FuncId, v: ValueId) -> bool {
    let f = module.function(f);
    let made = |v: ValueId| f.equations.iter().find(|e| e.outputs.contains(&v));
    let mut maker = made(v);
    while let Some(e) = maker.filter(|e| e.op.mark().is_some()) {
        maker = e.operands.first().and_then(|a| a.value()).and_then(made);
    }
    maker.is_some_and(|e| matches!(e.lower(module, f), Lowering::Routine(_)))
}

/// Returns whether the output of an equation whose operands are all literals is an array filled with one number.
fn is_uniform(lowering: &Lowering) -> bool {
    match lowering {
        Lowering::View { pieces, .. } => pieces.len() == 1,
        Lowering::Reshape | Lowering::Alias { .. } => true,
        Lowering::Elementwise(_)
        | Lowering::Iota { .. }
        | Lowering::DynamicSlice
        | Lowering::Gather { .. }
        | Lowering::DynamicUpdateSlice
        | Lowering::Scatter { .. }
        | Lowering::Reduce { .. }
        | Lowering::ArgReduce { .. }
        | Lowering::Cumulate { .. }
        | Lowering::ArgSort { .. }
        | Lowering::Contract { .. }
        | Lowering::Host(_)
        | Lowering::Routine(_)
        | Lowering::Call(_)
        | Lowering::Branch { .. }
        | Lowering::Loop { .. }
        | Lowering::Missing(_) => false,
    }
}

/// The origin of a value of a linear function.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Origin {
    /// A parameter of the linear function.
    #[default]
    Param,
    /// One number repeated, which takes no memory, such as a zero tangent.
    Constant,
    /// Computed by a primitive in the linear function, from values that do not depend on linear parameters.
    Computed,
    /// The result of a loop, branch or call in the linear function that does not depend on linear parameters, or a part
    /// of such a result.
    Run,
    /// A value that depends on linear parameters.
    Linear,
}
