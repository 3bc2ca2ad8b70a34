//! Isolates the forward function and the linear function of a linearization, which become parts of one function, so
//! that they share residuals and nothing else.
//!
//! Constants, which depend on no parameter, are computed in the forward and in the linear function. In one function,
//! CSE would merge the two computations, and a constant array (weights that depend on the position alone, or the noise
//! of a fixed key) would stay alive from the forward pass to the reverse pass after all. So to save memory, the linear
//! function computes constants from a literal behind a `barrier`, which no pass looks through; this also goes for
//! functions that the linear function calls, which may be inlined later. The barrier is inserted for constants that
//! take arithmetic. Constants without arithmetic (moved elements, counters) get a barrier only if loops, branches or
//! contractions read them, since these read from memory.
//!
//! ```text
//! %2: f64[4] = cos %1                %2: f64[] = barrier{mark=rematerialize} 1.0
//!                                    %3: f64[4] = broadcast{shape=[4], dims=[]} %2
//!                                    %4: f64[4] = mul %1, %3
//!                                    %5: f64[4] = cos %4
//! ```
//!
//! Under a byte budget, no equation of the linear function may run before the forward function has ended, even if the
//! equation depends on no value of the forward function: if a loop that recomputes a value were merged with the loop
//! that computes it, the value would stay in memory between the passes. So the barriers are
//! `barrier{mark=after_forward}`, also around the arrays that are parameters of the linear function, and lowering
//! enforces the order.
//!
//! Residuals are results of `barrier{mark=residual}`, and a backend saves exactly them: otherwise it might save a
//! larger value from which the residual can be computed, such as the array of which the residual is a slice.

use super::cost::moves;
use crate::passes::inline::inline;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::analysis::placement::whole_operands;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::lang::query::{LinearizeOf, Residual};
use tapeloom_ir::prim::{Effects, Lowering, Mark, Op, Role, apart_from};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Dtype, Equation, FuncId, Function, Module, OrderedMap, Origin,
    Problem, Shape, ValueId, ValueRemap, deeper, rebuild,
};

/// Whether a value depends on no parameter (is a constant) and, if so, whether its elements are all equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
enum Constant {
    /// A value that depends on a parameter.
    #[default]
    No,
    /// A constant whose elements all equal one number: recomputing it costs nothing.
    Uniform,
    /// A constant with different elements.
    Varied,
}

/// Isolates the linear function `of.lin` from the forward function, so that they share residuals alone. If `counted` is
/// true, because a byte budget counts the tape, the linear function also runs after the whole forward function.
pub(super) fn apart(
    module: &mut Module,
    mut of: LinearizeOf,
    counted: bool,
) -> Result<LinearizeOf, Problem> {
    of.fwd = with_barriers(module, of.fwd, &of.residuals)?;
    let lin = module.get(of.lin);
    let late = of.residuals.iter().zip(&lin.params).map(|(residual, p)| {
        // A parameter or result of the forward function stays in memory anyway. If it holds integers or truth values,
        // do not put a barrier around it, so that facts such as bounds of indices remain visible to later passes.
        let any = matches!(residual, Residual::Kept(_));
        let large = |ty: &ArrayType| ty.shape.elements() > 1 && (any || ty.dtype.is_float());
        counted && lin.types[*p].as_array().is_some_and(large)
    });
    let given = late.map(|late| Properties { late, ..Properties::default() }).collect();
    let mark = if counted { Mark::AfterForward } else { Mark::Rematerialize };
    of.lin = Isolation { done: OrderedMap::default(), mark }.function(module, of.lin, given)?;
    Ok(of)
}

/// Returns the forward function with a barrier marked `residual` around each of its residuals.
fn with_barriers(
    module: &mut Module,
    id: FuncId,
    residuals: &[Residual],
) -> Result<FuncId, Problem> {
    let f = module.get(id);
    let kept = residuals.iter().filter_map(|residual| match *residual {
        Residual::Parameter(_) => None,
        Residual::Result(i) | Residual::Kept(i) => Some(i),
    });
    let array = |i: &usize| f.results[*i].value().is_some_and(|v| f.types[v].as_array().is_some());
    let kept: Vec<usize> = kept.filter(array).collect();
    if kept.is_empty() {
        return Ok(id);
    }
    let (mut draft, mut copying) = ValueRemap::same_signature(&f);
    for (i, e) in f.equations.iter().enumerate() {
        copying.define(e, draft.copy(&f, i, copying.all(&e.operands)));
    }
    let mut results = copying.results(&f);
    for i in kept {
        let b = Builder::new(module, &mut draft);
        results[i] = b.emit1(Op::barrier(Mark::Residual), &[results[i]]);
    }
    let copy = draft.close(results)?;
    module.add(copy)
}

/// The properties of a value in the linear function, by which `Isolation` decides whether the value must be isolated
/// from the forward function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Properties {
    constant: Constant,
    /// Whether no value of the forward function can equal this value, so that CSE cannot merge this value with another.
    own: bool,
    /// Whether the value must be read through a barrier, so that its readers run after the end of the forward function.
    late: bool,
}

/// Rewrites the linear function and the functions that it runs so that CSE cannot merge their values with values of the
/// forward function.
struct Isolation {
    done: OrderedMap<(FuncId, Vec<Properties>), FuncId>,
    /// The kind of the inserted barriers: `rematerialize` (values behind the barrier may be recomputed) or
    /// `after_forward` (readers run after the forward pass).
    mark: Mark,
}

impl Isolation {
    /// Isolates a function, and the functions that may later be inlined into it; `given` has the properties of its
    /// parameters.
    fn function(
        &mut self,
        module: &mut Module,
        id: FuncId,
        given: Vec<Properties>,
    ) -> Result<FuncId, Problem> {
        let key = (id, given);
        if let Some(known) = self.done.get(&key) {
            return Ok(*known);
        }
        let f = inline(module, id)?;
        let f = module.get(f);
        let seen = Constants::of(module, &f, &key.1);
        // Label the equations that the linear function recomputes as recomputation, for the profile.
        let mut phased = (*f).clone();
        for (e, phase) in f.equations.iter().zip(&mut phased.phases) {
            if e.outputs.iter().any(|o| seen.values[*o].own) {
                *phase = phase.rematerialized();
            }
        }
        let mut sealed: OrderedMap<ValueId, Atom> = OrderedMap::default();
        let mut later: OrderedMap<ValueId, Atom> = OrderedMap::default();
        let copy = rebuild(&phased, |draft, i, mut operands| {
            let e = &f.equations[i];
            let of = |a: &Atom| a.value().map_or(LITERAL, |v| seen.values[v]);
            let given = |a| Properties { late: false, ..of(a) };
            let given: Vec<Properties> = e.operands.iter().map(given).collect();
            let mut functions = Vec::new();
            for region in e.op.regions() {
                functions.push(match opens(region.role) {
                    true => {
                        let mut given = given.clone();
                        let params = module.function(region.function).params.len();
                        given.resize(params, Properties::default());
                        deeper(|| self.function(module, region.function, given))?
                    }
                    false => region.function,
                });
            }
            let b = Builder::new(module, draft);
            if e.op.mark() == Some(&Mark::Rematerialize) {
                b.at(phased.origin(i));
                return Ok(b.emit(Op::barrier(self.mark.clone()), &operands));
            }
            for (k, a) in e.operands.iter().enumerate() {
                if let Some(v) = a.value().filter(|v| seen.values[*v].late) {
                    let mark = || b.emit1(Op::barrier(self.mark.clone()), &[operands[k]]);
                    operands[k] = *later.entry(v).or_insert_with(mark);
                }
            }
            let Origin { loc, phase } = phased.origin(i);
            b.at(Origin { loc, phase: phase.rematerialized() });
            for k in seen.in_memory[i].iter().copied() {
                let Some(v) = e.operands[k].value() else { continue };
                let shape = b.type_of(operands[k]).as_array().map(|ty| ty.shape.clone());
                let own = seen.values[v].own || planted(Fault::OneConstant);
                if let (false, Some(shape)) = (own, shape) {
                    let own = || apart_from(&b, &self.mark, operands[k], &shape);
                    operands[k] = *sealed.entry(v).or_insert_with(own);
                }
            }
            if let Some(elementwise) = &seen.hidden[i] {
                make_distinct(&b, &self.mark, elementwise.as_ref(), &mut operands);
            }
            Ok(draft.copy_as(e.op.with_regions(&functions), &phased, i, operands))
        })?;
        let copy = module.add(copy)?;
        self.done.insert(key, copy);
        Ok(copy)
    }
}

/// The properties of a literal: its elements are equal, and the forward function may contain an equal literal.
const LITERAL: Properties = Properties { constant: Constant::Uniform, own: false, late: false };

/// Returns whether a function that an equation refers to in this role (body, rule, callee) may be inlined before code
/// generation.
fn opens(role: Role) -> bool {
    match role {
        // A derivative rule may be inlined in place of the function that it belongs to.
        Role::Inline | Role::Ruled | Role::Checkpoint | Role::Rule => true,
        Role::Outline | Role::Branch | Role::Iteration => false,
    }
}

/// The constants of the linear function, or of a function that it runs, and the equations that must be changed so that
/// none of them equals an equation of the forward function.
struct Constants {
    values: SecondaryMap<ValueId, Properties>,
    /// Per equation: the indices of its operands that are constants and are read from memory, so that they need a
    /// barrier.
    in_memory: Vec<Vec<usize>>,
    /// Per equation: `Some` if an operand gets a barrier, so that no equal equation can exist. The inner option is the
    /// shape of an elementwise equation, and `None` for other equations.
    hidden: Vec<Option<Option<Shape>>>,
}

impl Constants {
    fn of(module: &Module, f: &Function, given: &[Properties]) -> Constants {
        let mut seen = Constants {
            values: SecondaryMap::with_capacity(f.types.len()),
            in_memory: vec![Vec::new(); f.equations.len()],
            hidden: vec![None; f.equations.len()],
        };
        f.params.iter().zip(given).for_each(|(p, given)| seen.values[*p] = *given);
        for e in &f.equations {
            let constant = seen.constant(module, f, e);
            e.outputs.iter().for_each(|o| seen.values[*o].constant = constant);
        }
        seen.read(module, f);
        for (i, e) in f.equations.iter().enumerate() {
            let read = e.operands.iter().filter_map(|a| a.value());
            let made = seen.hidden[i].is_some() || !seen.in_memory[i].is_empty();
            let own = made || read.into_iter().any(|v| seen.values[v].own);
            let constant = seen.constant(module, f, e) != Constant::No;
            e.outputs.iter().for_each(|o| seen.values[*o].own = own && constant);
        }
        seen
    }

    /// Returns whether the outputs of an equation are constants, and whether their elements are all equal.
    fn constant(&self, module: &Module, f: &Function, e: &Equation) -> Constant {
        let of = |a: &Atom| a.value().map_or(Constant::Uniform, |v| self.values[v].constant);
        let operands = || e.operands.iter().map(of);
        if operands().any(|of| of == Constant::No) || e.op.effects(module) != Effects::Pure {
            return Constant::No;
        }
        let alike = matches!(e.lower(module, f), Lowering::Elementwise(_)) || moves(module, f, e);
        match operands().max() {
            Some(all) if alike => all,
            Some(_) | None => Constant::Varied,
        }
    }

    /// Finds the constants that need a barrier: constants that their reader takes from memory (`in_memory`), and
    /// results of arithmetic (`hidden`).
    fn read(&mut self, module: &Module, f: &Function) {
        let array = |v: ValueId| f.types[v].as_array().is_some_and(|ty| ty.shape.elements() > 1);
        for (i, e) in f.equations.iter().enumerate() {
            let is_constant = |k: &usize| {
                e.operands[*k].value().is_some_and(|v| self.values[v].constant != Constant::No)
            };
            let lowering = e.lower(module, f);
            let read = whole_operands(e, &lowering).into_iter().filter(is_constant);
            let read = read.filter(|k| e.operands[*k].value().is_some_and(array));
            self.in_memory[i] = read.collect();
            let sized = e.outputs.iter().find_map(|o| f.types[*o].as_array());
            let varied = e.outputs.iter().any(|o| self.values[*o].constant == Constant::Varied);
            let works = varied && !moves(module, f, e);
            self.hidden[i] = sized
                .filter(|ty| works && lies_somewhere(ty))
                .map(|ty| matches!(lowering, Lowering::Elementwise(_)).then(|| ty.shape.clone()));
        }
    }
}

/// Returns whether a computed value of type `ty` may take memory. A single index or truth value takes none: it is
/// computed where it is read.
fn lies_somewhere(ty: &ArrayType) -> bool {
    match ty.dtype {
        Dtype::F32 | Dtype::F64 | Dtype::U32 | Dtype::U64 => true,
        Dtype::Bool | Dtype::I32 | Dtype::I64 => ty.shape.elements() > 1,
    }
}

/// Puts a barrier on one of the operands, so that the equation differs from equal equations of the forward function. If
/// the equation is elementwise (of shape `elementwise`) and has a literal, the barrier is on the literal, else on an
/// array, preferably of floats.
fn make_distinct(b: &Builder<'_>, mark: &Mark, elementwise: Option<&Shape>, operands: &mut [Atom]) {
    let literal = operands.iter_mut().find(|a| a.literal().is_some());
    if let (Some(shape), Some(a)) = (elementwise, literal) {
        *a = apart_from(b, mark, *a, shape);
        return;
    }
    let array = |a: &Atom| a.value().and_then(|_| b.type_of(*a).as_array().cloned());
    let arrays = operands.iter_mut().filter_map(|a| array(a).map(|ty| (a, ty)));
    if let Some((a, ty)) = arrays.min_by_key(|(_, ty)| !ty.dtype.is_float()) {
        *a = apart_from(b, mark, *a, &ty.shape);
    }
}
