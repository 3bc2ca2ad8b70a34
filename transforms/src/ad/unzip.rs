//! Unzipping: splits a function into two by which of its parameters are known.
//!
//! The equations that depend on the known parameters alone form one function. The rest forms another, which reads some
//! values of the first. Those are its *residuals*: parameters or results of the first function, which need no saving,
//! or values saved for the second function. Values that depend on no parameter at all (broadcast constants, iota) are
//! computed in both functions rather than saved.
//!
//! ```text
//! func @f(%0: f64[], %1: f64[]) -> (f64[], f64[]) {      known: %0
//!   %2: f64[] = exp %0
//!   %3: f64[] = sin %2            func @f.known(%0: f64[]) -> (f64[], f64[]) {
//!   %4: f64[] = mul %3, %1          %1: f64[] = exp %0
//!   return %2, %4                   %2: f64[] = sin %1
//! }                                 return %1, %2
//!                                 }
//!                                 func @f.rest(%0: f64[], %1: f64[]) -> (f64[]) {
//!                                   %2: f64[] = mul %0, %1
//!                                   return %2
//!                                 }
//! ```
//!
//! Linearization splits a jvp in this way: the values are known, the tangents are not. Source of the term:
//! Radul, Paszke, Frostig, Johnson, Maclaurin, "You Only Linearize Once" (POPL 2023).

use crate::passes::live_equations::sweep;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::lang::query::{Residual, Unzip, UnzipOf};
use tapeloom_ir::prim::{Effects, Regions, instantiate};
use tapeloom_ir::{
    Atom, Builder, Draft, FuncId, Function, Module, Problem, Type, ValueId, ValueRemap,
};

/// The function, of the two into which a function is split, that computes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Half {
    /// A value that depends on no parameter: computed in both functions.
    Constant,
    /// A value that depends on known parameters alone: computed in the first function.
    Known,
    /// A value that depends on a parameter that is not known: computed in the second function.
    Rest,
}

/// The assignment of every value and every equation to one of the two functions into which a function is split.
pub(crate) struct Halves {
    values: SecondaryMap<ValueId, Half>,
    /// Per equation: the function that computes it. This list is needed besides `values`, since an equation with an
    /// effect may have no output.
    equations: Vec<Half>,
}

impl Halves {
    pub(crate) fn new(module: &Module, f: &Function, known: &[bool]) -> Halves {
        let values = SecondaryMap::with_default(Half::Constant);
        let mut halves = Halves { values, equations: Vec::with_capacity(f.equations.len()) };
        for (p, known) in f.all_params().zip(known) {
            halves.values[p] = if *known { Half::Known } else { Half::Rest };
        }
        for e in &f.equations {
            let parts = || e.operands.iter().map(|a| halves.of(*a));
            let half = match () {
                () if parts().any(|h| h == Half::Rest) => Half::Rest,
                () if parts().any(|h| h == Half::Known) => Half::Known,
                // An equation with an effect goes to the first function alone, since its effect must not be performed
                // twice.
                () if e.op.effects(module) != Effects::Pure => Half::Known,
                () => Half::Constant,
            };
            for o in &e.outputs {
                halves.values[*o] = half;
            }
            halves.equations.push(half);
        }
        halves
    }

    pub(crate) fn of(&self, a: Atom) -> Half {
        match a {
            Atom::Value(v) => self.values[v],
            Atom::Literal(_) => Half::Constant,
        }
    }
}

/// The names and the results of the two functions into which `cut` splits a function.
pub(crate) struct SplitParts<'a> {
    /// The names of the two functions into which the function is split: first the name of the function of the known
    /// parameters.
    pub(crate) names: [String; 2],
    /// The results of the first function, which depend on known parameters alone.
    pub(crate) known: &'a [Atom],
    /// Results of the second function with their types; `None` means an array of zeros.
    pub(crate) rest: &'a [(Option<Atom>, Type)],
    /// Whether the parameters that are not known become linear parameters of the second function.
    pub(crate) linear: bool,
}

/// Splits a function into two. Returns the two functions and, per residual, whether it is a parameter, a result or a
/// saved value of the first function.
pub(crate) fn cut(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: &Function,
    halves: &Halves,
    cut: SplitParts<'_>,
) -> Result<([FuncId; 2], Vec<Residual>), Problem> {
    let is_known = |p: &ValueId| halves.of((*p).into()) == Half::Known;
    let [mut known, mut rest] = cut.names.map(Draft::new);
    let [mut in_known, mut in_rest] = [ValueRemap::new(), ValueRemap::new()];
    // Values that the second function can read without a saved copy: parameters and results of the first function.
    let mut there: SecondaryMap<ValueId, Option<Residual>> = SecondaryMap::new();
    for (i, v) in cut.known.iter().enumerate().filter_map(|(i, a)| Some((i, a.value()?))) {
        there[v].get_or_insert(Residual::Result(i));
    }
    for (i, p) in f.all_params().filter(is_known).enumerate() {
        in_known.bind(p, known.param(f.types[p].clone()));
        there[p] = Some(Residual::Parameter(i));
    }

    // The results of the first function: the results that the caller asked for, then the values saved for the second
    // function, in the order in which the second function reads them.
    let mut outputs = cut.known.to_vec();
    let mut residuals = Vec::new();
    let readers = f.equations.iter().zip(&halves.equations).filter(|(_, h)| **h == Half::Rest);
    for v in readers.flat_map(|(e, _)| &e.operands).filter_map(|a| a.value()) {
        if halves.values[v] == Half::Known && !in_rest.knows(v) {
            in_rest.bind(v, rest.param(f.types[v].clone()));
            residuals.push(there[v].unwrap_or_else(|| {
                outputs.push(v.into());
                Residual::Kept(outputs.len() - 1)
            }));
        }
    }
    let linear = f.params.len();
    for (i, p) in f.all_params().enumerate().filter(|(_, p)| !is_known(p)) {
        in_rest.bind(p, rest.param_of(cut.linear || i >= linear, f.types[p].clone()));
    }

    for (i, e) in f.equations.iter().enumerate() {
        let half = halves.equations[i];
        if half != Half::Rest {
            in_known.define(e, known.copy(f, i, in_known.all(&e.operands)));
        }
        if half != Half::Known {
            in_rest.define(e, rest.copy(f, i, in_rest.all(&e.operands)));
        }
    }
    let known = known.close(in_known.all(&outputs).to_vec())?;
    let b = Builder::new(module, &mut rest);
    let result = |(r, ty): &(Option<Atom>, Type)| instantiate(&b, r.map(|r| in_rest.read(r)), ty);
    let results = cut.rest.iter().map(result).collect();
    let rest = rest.close(results)?;
    let known = sweep(regions, module, known)?;
    let rest = sweep(regions, module, rest)?;
    Ok(([module.add(known)?, module.add(rest)?], residuals))
}

pub(crate) fn derive(
    regions: &mut dyn Regions,
    module: &mut Module,
    id: FuncId,
    Unzip { known }: &Unzip,
) -> Result<UnzipOf, Problem> {
    let f = module.get(id);
    let halves = Halves::new(module, &f, known);
    let known_out: Vec<bool> = f.results.iter().map(|r| halves.of(*r) != Half::Rest).collect();
    let results = f.results.iter().zip(&known_out);
    let known: Vec<Atom> = results.clone().filter(|(_, on)| **on).map(|(r, _)| *r).collect();
    let rest: Vec<_> =
        results.filter(|(_, on)| !**on).map(|(r, _)| (Some(*r), f.type_of(*r))).collect();
    let names = ["known", "rest"].map(|half| format!("{}.{half}", f.name));
    let ([known, rest], residuals) = cut(
        regions,
        module,
        &f,
        &halves,
        SplitParts { names, known: &known, rest: &rest, linear: false },
    )?;
    Ok(UnzipOf { known, rest, known_out, residuals })
}
