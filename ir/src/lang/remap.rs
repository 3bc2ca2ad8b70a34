//! Copying a function equation by equation, with other operands.
//!
//! Functions are immutable, so every pass and every transform writes a new function while it reads the old one.
//! All of them use a table from old values to new atoms:
//!
//! ```
//! use tapeloom_ir::{Draft, Dtype, Module, Scalar, Type, Builder, rebuild};
//! # let mut module = Module::new();
//! # let mut draft = Draft::new("f");
//! # let x = draft.param(Type::array(Dtype::F64, &[3]));
//! # let y = Builder::new(&mut module, &mut draft).emit1(Scalar::Sin, &[x]);
//! # let f = draft.finish(&mut module, vec![y])?;
//! // Every `sin` becomes a `cos`.
//! let f = module.get(f);
//! let g = rebuild(&f, |draft, i, operands| {
//!     if f.equations[i].op != Scalar::Sin.into() {
//!         return Ok(draft.copy(&f, i, operands));
//!     }
//!     Ok(draft.copy_as(Scalar::Cos.into(), &f, i, operands))
//! })?;
//! assert_eq!(g.equations[0].op, Scalar::Cos.into());
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::fault::{Fault, planted};
use crate::lang::builder::Draft;
use crate::lang::function::{Atom, Equation, FuncId, Function, Operands, ValueId};
use crate::lang::module::Module;
use crate::lang::phase::Origin;
use crate::lang::problem::Problem;
use crate::prim::Op;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// The atoms that replace the outputs of one equation.
pub type Atoms = SmallVec<[Atom; 1]>;

/// The table from the values of a function to new atoms, while the function is copied.
#[derive(Clone, Debug, Default)]
pub struct ValueRemap {
    map: SecondaryMap<ValueId, Option<Atom>>,
}

impl ValueRemap {
    /// Makes an empty table from old values to new atoms.
    pub fn new() -> ValueRemap {
        ValueRemap::default()
    }

    /// Makes a table in which the parameters of `f`, the linear ones last, map to `args`.
    pub fn with(f: &Function, args: impl IntoIterator<Item = Atom>) -> ValueRemap {
        let mut map = SecondaryMap::with_capacity(f.types.len());
        for (p, a) in f.all_params().zip(args) {
            map[p] = Some(a);
        }
        ValueRemap { map }
    }

    /// Makes a draft (function under construction) with the name and the parameters of `f`, and a table that maps the
    /// parameters of `f` to those of the draft.
    pub fn same_signature(f: &Function) -> (Draft, ValueRemap) {
        let mut draft = Draft::new(f.name.clone());
        let known = f.params.len();
        let params = f.all_params().enumerate().map(|(i, p)| match i < known {
            true => draft.param(f.types[p].clone()),
            false => draft.linear_param(f.types[p].clone()),
        });
        let params: Vec<Atom> = params.collect();
        (draft, ValueRemap::with(f, params))
    }

    /// Maps the old value `v` to the new atom `atom`.
    pub fn bind(&mut self, v: ValueId, atom: Atom) {
        self.map[v] = Some(atom);
    }

    /// Returns whether the old value `v` has a new atom.
    pub fn knows(&self, v: ValueId) -> bool {
        self.map[v].is_some()
    }

    /// Returns the new atom for an old one. Literals, and values without a new atom, map to themselves.
    pub fn read(&self, a: Atom) -> Atom {
        a.value().and_then(|v| self.map[v]).unwrap_or(a)
    }

    /// Returns the new atom for each atom of `old`.
    pub fn all(&self, old: &[Atom]) -> Operands {
        old.iter().map(|a| self.read(*a)).collect()
    }

    /// Maps the outputs of equation `e` to new atoms.
    pub fn define(&mut self, e: &Equation, outputs: impl IntoIterator<Item = Atom>) {
        for (old, new) in e.outputs.iter().zip(outputs) {
            self.map[*old] = Some(new);
        }
    }

    /// Returns the new results of `f`, after all its equations have been copied.
    pub fn results(&self, f: &Function) -> Vec<Atom> {
        f.results.iter().map(|r| self.read(*r)).collect()
    }
}

impl Draft {
    /// Copies equation `index` of `f` with other operands, and returns the new outputs. Their types are taken from `f`;
    /// the verifier checks them again.
    pub fn copy(&mut self, f: &Function, index: usize, operands: Operands) -> Atoms {
        self.copy_as(f.equations[index].op.clone(), f, index, operands)
    }

    /// Copies equation `index` of `f` with other operands and another primitive, whose outputs must have the same
    /// types.
    pub fn copy_as(&mut self, op: Op, f: &Function, index: usize, operands: Operands) -> Atoms {
        self.copy_at(op, f, index, operands, f.origin(index))
    }

    pub(crate) fn copy_at(
        &mut self,
        op: Op,
        f: &Function,
        index: usize,
        operands: Operands,
        origin: Origin,
    ) -> Atoms {
        let outputs = &f.equations[index].outputs;
        let types: SmallVec<[_; 1]> = outputs.iter().map(|o| f.types[*o].clone()).collect();
        self.push(op, operands, &types, origin).into_iter().map(Atom::Value).collect()
    }
}

/// Builds a function with the name and parameters of `f`. For each equation, `each` gets the draft, the equation's
/// index and its new operands, emits equations in its place, and returns one atom per output. For an output that
/// nothing reads, any atom will do.
///
/// # Errors
/// Any error of `each`.
pub fn rebuild(
    f: &Function,
    mut each: impl FnMut(&mut Draft, usize, Operands) -> Result<Atoms, Problem>,
) -> Result<Function, Problem> {
    let (mut draft, mut copying) = ValueRemap::same_signature(f);
    for (i, e) in f.equations.iter().enumerate() {
        let outputs = each(&mut draft, i, copying.all(&e.operands))?;
        copying.define(e, outputs);
    }
    draft.close(copying.results(f))
}

/// A function whose equations are being copied.
struct Frame {
    function: Arc<Function>,
    /// The index of the next equation to copy.
    next: usize,
    copying: ValueRemap,
    /// The source line and phase of the call that the function replaces.
    call: Origin,
}

/// Copies the equations of a function with arguments `args` into a draft, and returns its results. Each equation for
/// which `wanted` returns a function is replaced by the equations of that function. The replacement also applies to the
/// equations that it inserts.
///
/// Uses a stack of its own in place of recursion, since calls nest deeply.
pub(crate) fn open(
    module: &Module,
    draft: &mut Draft,
    function: &Arc<Function>,
    args: &[Atom],
    call: Origin,
    wanted: impl Fn(&Op) -> Option<FuncId>,
) -> Vec<Atom> {
    let frame = |function: &Arc<Function>, args: &[Atom], call: Origin| {
        let copying = ValueRemap::with(function, args.iter().copied());
        Frame { function: function.clone(), next: 0, copying, call }
    };
    let mut above: Vec<Frame> = Vec::new();
    let mut top = frame(function, args, call);
    loop {
        let f = top.function.clone();
        let Some(e) = f.equations.get(top.next) else {
            let results = top.copying.results(&f);
            let Some(mut caller) = above.pop() else { return results };
            caller.copying.define(&caller.function.equations[caller.next], results);
            caller.next += 1;
            top = caller;
            continue;
        };
        let mut operands = top.copying.all(&e.operands);
        let origin = f.origin(top.next).within(top.call);
        match wanted(&e.op) {
            None => {
                let outputs = draft.copy_at(e.op.clone(), &f, top.next, operands, origin);
                top.copying.define(e, outputs);
                top.next += 1;
            }
            Some(callee) => {
                if planted(Fault::CallOrder)
                    && let [x, y, ..] = e.operands.as_slice()
                    && f.type_of(*x) == f.type_of(*y)
                {
                    operands.swap(0, 1);
                }
                let callee = frame(&module.get(callee), &operands, origin);
                above.push(std::mem::replace(&mut top, callee));
            }
        }
    }
}
