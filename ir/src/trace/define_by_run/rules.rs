//! The derivative of one recorded equation, derived once for all equations with the same rule.
//!
//! An equation `y = op x` is a function; reverse mode needs that function linearized and transposed, by the rules of
//! the primitive alone. Which rule applies depends on the primitive, the types of the operands and which operands are
//! active, and not on concrete values: a million multiplications have one rule.
//!
//! ```text
//! func @mul.lin(%0: f64[], %1: f64[]; %2: f64[]) -> (f64[])     residuals: operands 0 and 1
//! func @mul.bwd(%0: f64[]; %1: f64[], %2: f64[]) -> (f64[])     reads operand 1; adds to a running total
//! ```
//!
//! The linear function of an equation without regions reads operands and outputs, and computes all else from them on
//! the reverse pass (for a sine, its cosine). So such an equation saves no residuals of its own. An equation with
//! regions is replaced by the forward function of the linearization of its function. The results of the forward
//! function beyond the equation's own are saved, so that a loop does not run twice.

use super::scalar_program::{Kernel, elementwise};
use crate::lang::builder::{Builder, Draft};
use crate::lang::function::{Atom, FuncId, Operands};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::query::{AccumulateInto, Residual};
use crate::lang::remap::ValueRemap;
use crate::lang::types::Type;
use crate::map::OrderedMap;
use crate::prim::{Dual, DynamicSlice, Op, Regions, RuleCx};
use smallvec::SmallVec;

/// One truth value per operand of an equation, or per output.
pub(super) type Mask = SmallVec<[bool; 4]>;

/// The properties of an equation that determine its derivative rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    op: Op,
    operands: SmallVec<[Type; 2]>,
    /// Per operand: whether it is active, that is, depends on arguments of the differentiated closure and has a
    /// tangent.
    active: Mask,
}

/// The derivative rule of an equation, split into a forward function and a linear function.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    /// The forward function, which runs in place of the equation; `None` if it would save nothing beyond operands and
    /// outputs.
    pub(super) forward: Option<FuncId>,
    /// The linear function: `(residuals..; dx of the active operands) -> dy of the active outputs`. Active means:
    /// depends on arguments of the differentiated closure and has a tangent.
    linear: FuncId,
    residuals: Vec<Residual>,
    /// Per operand: whether it depends on arguments of the differentiated closure and has a tangent.
    pub(super) active: Mask,
    /// Per output: whether it has a tangent.
    pub(super) active_out: Mask,
    /// The transposes of `linear` derived so far: the cotangents that each one takes, and its index in `Rules::backs`.
    backs: Vec<(Given, usize)>,
}

/// The cotangents that a transpose gets as inputs; each combination has a transpose of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Given {
    /// Per output that has a tangent: whether it has a cotangent.
    pub(super) nonzero: Mask,
    /// Per active operand (one that has a tangent): whether it already has a cotangent, to which the transpose adds.
    pub(super) running: Mask,
}

/// A transpose of a linear function: `(residuals.., cotangents of outputs, running totals) -> cotangents of operands`.
#[derive(Clone, Debug)]
pub(super) struct Back {
    pub(super) function: FuncId,
    /// The residuals that the transpose reads, as its first parameters, with their types.
    pub(super) reads: Vec<(Residual, Type)>,
    pub(super) given: Given,
    /// Per active operand (one that has a tangent): whether the transpose returns a cotangent for it.
    pub(super) gives: Mask,
    pub(super) active: Mask,
    pub(super) active_out: Mask,
    /// `function` compiled to a list of scalar codes, if all its values are scalars.
    pub(super) kernel: Option<Kernel>,
}

/// The derivative rules that a recording (a trace that is evaluated while it grows) has needed so far, each derived
/// once.
pub(super) struct Rules {
    transforms: Box<dyn Regions>,
    rules: OrderedMap<Key, Result<Rule, Problem>>,
    backs: Vec<Back>,
}

impl Rules {
    /// Makes an empty list of rules; `transforms` derives each rule when it is first needed.
    pub(super) fn new(transforms: Box<dyn Regions>) -> Rules {
        Rules { transforms, rules: OrderedMap::default(), backs: Vec::new() }
    }

    /// Returns the index of an equation's rule; derives the rule if no earlier equation has needed it.
    pub(super) fn number(
        &mut self,
        module: &mut Module,
        op: &Op,
        operands: SmallVec<[Type; 2]>,
        active: Mask,
    ) -> usize {
        let key = Key { op: op.clone(), operands, active };
        if let Some(known) = self.rules.get_index_of(&key) {
            return known;
        }
        let made = if has_body(op) {
            with_body(&mut *self.transforms, module, &key)
        } else {
            without_body(&mut *self.transforms, module, &key)
        };
        self.rules.insert_full(key, made).0
    }

    /// Returns the rule with this index, or the reason why the derivative does not exist.
    pub(super) fn rule(&self, number: usize) -> Result<&Rule, &Problem> {
        match self.rules.get_index(number) {
            Some((_, rule)) => rule.as_ref(),
            None => Err(&LOST),
        }
    }

    /// Returns the index in `Rules::backs` of a rule's transpose for the cotangents `given`; if there is none yet,
    /// derives the transpose.
    pub(super) fn back(
        &mut self,
        module: &mut Module,
        rule: usize,
        given: Given,
    ) -> Result<usize, Problem> {
        let Some((_, rule)) = self.rules.get_index_mut(rule) else { return Err(LOST.clone()) };
        let rule = rule.as_mut().map_err(|problem| problem.clone())?;
        if let Some((_, known)) = rule.backs.iter().find(|(of, _)| *of == given) {
            return Ok(*known);
        }
        let onto: Vec<AccumulateInto> = given
            .running
            .iter()
            .map(|on| if *on { AccumulateInto::Total } else { AccumulateInto::Nothing })
            .collect();
        let of = self.transforms.transpose(module, rule.linear, &given.nonzero, &onto)?;
        let (function, reads) =
            read_only(&mut *self.transforms, module, of.function, &rule.residuals)?;
        let f = module.get(function);
        let reads = reads.into_iter().zip(f.param_types()).collect();
        let kernel = Kernel::of(module, &f);
        let number = self.backs.len();
        self.backs.push(Back {
            function,
            reads,
            given: given.clone(),
            gives: of.nonzero.into(),
            active: rule.active.clone(),
            active_out: rule.active_out.clone(),
            kernel,
        });
        rule.backs.push((given, number));
        Ok(number)
    }

    /// Returns all transposes derived so far, by index.
    pub(super) fn transposes(&self) -> &[Back] {
        &self.backs
    }
}

/// The error for an index without a rule. Only a fault of tapeloom can cause it.
static LOST: std::sync::LazyLock<Problem> =
    std::sync::LazyLock::new(|| Problem::internal("a recorded equation has lost its rule"));

/// Returns whether an equation runs functions: functions of the program, or a Rust function of the user.
pub(in crate::trace) fn has_body(op: &Op) -> bool {
    op.host().is_some() || !op.regions().is_empty()
}

/// Returns an equivalent equation that takes the start of a slice as operands in place of attributes, so that
/// slices at different positions share one rule. Returns `None` for all equations but slices with stride 1.
pub(super) fn general(op: &Op, operands: &[Atom]) -> Option<(Op, Operands)> {
    let Op::Slice(slice) = op else { return None };
    if slice.strides.iter().any(|s| *s != 1) {
        return None;
    }
    let sizes = slice.start.iter().zip(&slice.limit).map(|(from, to)| to - from).collect();
    let starts = slice.start.iter().map(|s| Literal::i64(*s as i64).into());
    Some((DynamicSlice { sizes }.into(), operands.iter().copied().chain(starts).collect()))
}

/// Returns the types of operands under which a rule is looked up. A literal operand of an elementwise equation on
/// arrays gets the array's shape: as a literal, each constant would need a rule of its own.
pub(super) fn operand_types(
    module: &Module,
    op: &Op,
    operands: &[Atom],
    outputs: &[Type],
    draft: &Draft,
) -> SmallVec<[Type; 2]> {
    let mut types: SmallVec<[Type; 2]> = operands.iter().map(|a| draft.type_of(*a)).collect();
    let [Type::Array(y)] = outputs else { return types };
    let constants = operands.iter().any(|a| a.literal().is_some());
    if y.shape.is_empty() || !constants || has_body(op) {
        return types;
    }
    if elementwise(module, op, operands, &types).is_some() {
        for (ty, a) in types.iter_mut().zip(operands) {
            if let Atom::Literal(l) = a {
                *ty = Type::array(l.dtype, &y.shape);
            }
        }
    }
    types
}

/// Derives the rule of an equation that runs functions, by linearizing a function that consists of this equation.
fn with_body(
    transforms: &mut dyn Regions,
    module: &mut Module,
    key: &Key,
) -> Result<Rule, Problem> {
    let mut draft = Draft::new(key.op.name());
    let x: Vec<Atom> = key.operands.iter().map(|ty| draft.param(ty.clone())).collect();
    let y = Builder::new(module, &mut draft).emit(key.op.clone(), &x);
    let function = draft.finish(module, y.to_vec())?;
    let of = transforms.linearize(module, function, &key.active, &[], &[])?;
    Ok(Rule {
        forward: Some(of.fwd),
        linear: of.lin,
        residuals: of.residuals,
        active: key.active.clone(),
        active_out: of.active_out.into(),
        backs: Vec::new(),
    })
}

/// Derives the rule of an equation that runs no function. The linear function consists of the linear equations that the
/// primitive's rule emits; its residuals are operands and outputs of the equation.
fn without_body(
    transforms: &mut dyn Regions,
    module: &mut Module,
    key: &Key,
) -> Result<Rule, Problem> {
    let mut draft = Draft::new(format!("{}.lin", key.op.name()));
    let x: Vec<Atom> = key.operands.iter().map(|ty| draft.param(ty.clone())).collect();
    let tangent = |(ty, on): (&Type, &bool)| if *on { ty.tangent() } else { None };
    let tangents: Vec<Option<Type>> = key.operands.iter().zip(&key.active).map(tangent).collect();
    let dx: Vec<Option<Atom>> =
        tangents.into_iter().map(|ty| ty.map(|ty| draft.linear_param(ty))).collect();
    let b = Builder::new(module, &mut draft);
    let Dual { y, dy } = key.op.linearize(
        &mut RuleCx { b: &b, regions: &mut *transforms, shares: &[], reads: &[] },
        &x,
        &dx,
    )?;
    let types: Vec<Type> = y.iter().map(|y| b.type_of(*y)).collect();
    let active_out: Mask =
        dy.iter().zip(&types).map(|(dy, ty)| dy.is_some() && ty.has_tangent()).collect();
    let results = dy.iter().zip(&active_out).filter(|(_, on)| **on).filter_map(|(dy, _)| *dy);
    let f = draft.close(results.collect())?;

    // The recording has computed the outputs, so they become parameters in place of the equation that computes
    // them.
    let mut draft = Draft::new(f.name.clone());
    let mut copying = ValueRemap::new();
    for p in &f.params {
        copying.bind(*p, draft.param(f.types[*p].clone()));
    }
    let outputs: Vec<Atom> = types.iter().map(|ty| draft.param(ty.clone())).collect();
    for p in &f.linear_params {
        copying.bind(*p, draft.linear_param(f.types[*p].clone()));
    }
    let whole: SmallVec<[Atom; 2]> = f.params.iter().copied().map(Atom::Value).collect();
    for (i, e) in f.equations.iter().enumerate() {
        if e.op == key.op && e.operands == whole {
            copying.define(e, outputs.iter().copied());
        } else {
            let made = draft.copy(&f, i, copying.all(&e.operands));
            copying.define(e, made);
        }
    }
    let linear = draft.finish(module, copying.results(&f))?;
    let all = (0..x.len()).map(Residual::Parameter);
    let all: Vec<Residual> = all.chain((0..types.len()).map(Residual::Result)).collect();
    let (linear, residuals) = read_only(transforms, module, linear, &all)?;
    Ok(Rule {
        forward: None,
        linear,
        residuals,
        active: key.active.clone(),
        active_out,
        backs: Vec::new(),
    })
}

/// Removes from `f` the residual parameters that it does not read. The residuals are the first parameters of `f`.
/// Returns the new function and the remaining residuals.
fn read_only(
    transforms: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
    residuals: &[Residual],
) -> Result<(FuncId, Vec<Residual>), Problem> {
    let (results, params) = {
        let f = module.function(f);
        (f.results.len(), f.all_params().count())
    };
    let kept: Vec<bool> = (0..params).map(|i| i >= residuals.len()).collect();
    let of = transforms.prune(module, f, &vec![true; results], &kept)?;
    let stays = residuals.iter().zip(&of.params).filter(|(_, on)| **on);
    Ok((of.function, stays.map(|(r, _)| *r).collect()))
}
