//! The builder: the only way to make equations.
//!
//! A [`Draft`] is a function under construction. A [`Builder`] is a draft together with the module it will belong to.
//! [`Builder::emit`] infers the output types through the primitive, so an ill-typed equation cannot be made. Emission
//! takes `&self` and does not return a `Result`: rules can then be written as nested expressions, as mathematics is.
//! The draft stores the first problem, since later ones are its consequences, and [`Draft::finish`] returns it.
//!
//! ```
//! use tapeloom_ir::{Builder, Draft, Dtype, Literal, Module, Scalar, Type};
//! let mut module = Module::new();
//! let mut draft = Draft::new("square");
//! let x = draft.param(Type::array(Dtype::F64, &[3]));
//! let y = Builder::new(&mut module, &mut draft).emit1(Scalar::Mul, &[x, x]);
//! let square = draft.finish(&mut module, vec![y])?;
//! assert_eq!(module.function(square).equations.len(), 1);
//! # Ok::<(), tapeloom_ir::Problem>(())
//! ```

use crate::lang::function::{Atom, Equation, FuncId, Function, Operands, Outputs, ValueId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::phase::{Origin, Phase};
use crate::lang::problem::{Kind, Problem};
use crate::lang::remap::{self, Atoms};
use crate::lang::source_loc::Loc;
use crate::lang::types::{Dtype, Type};
use crate::prim::{Op, Operand};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A function under construction.
#[derive(Clone, Debug)]
pub struct Draft {
    name: Arc<str>,
    params: Vec<ValueId>,
    linear_params: Vec<ValueId>,
    equations: Vec<Equation>,
    locations: Vec<Loc>,
    phases: Vec<Phase>,
    types: PrimaryMap<ValueId, Type>,
    problem: Option<(Problem, Loc)>,
}

impl Draft {
    /// Makes an empty draft of a function named `name`.
    pub fn new(name: impl Into<Arc<str>>) -> Draft {
        Draft {
            name: name.into(),
            params: Vec::new(),
            linear_params: Vec::new(),
            equations: Vec::new(),
            locations: Vec::new(),
            phases: Vec::new(),
            types: PrimaryMap::new(),
            problem: None,
        }
    }

    /// Adds an ordinary parameter after the existing ones, and returns the parameter as an atom.
    pub fn param(&mut self, ty: Type) -> Atom {
        let v = self.types.push(ty);
        self.params.push(v);
        v.into()
    }

    /// Adds a parameter in which the function is linear; returns it as an atom.
    pub fn linear_param(&mut self, ty: Type) -> Atom {
        let v = self.types.push(ty);
        self.linear_params.push(v);
        v.into()
    }

    /// Adds a linear parameter if `linear` is true, else an ordinary parameter; returns it as an atom.
    pub fn param_of(&mut self, linear: bool, ty: Type) -> Atom {
        if linear { self.linear_param(ty) } else { self.param(ty) }
    }

    /// Makes a value that no equation defines, as a placeholder after an error. A draft (function under construction)
    /// with such a value never becomes a function.
    pub(crate) fn undefined(&mut self, ty: Type) -> ValueId {
        self.types.push(ty)
    }

    /// Returns the type of an atom of this draft.
    pub fn type_of(&self, atom: Atom) -> Type {
        match atom {
            Atom::Value(v) => self.types[v].clone(),
            Atom::Literal(l) => Type::scalar(l.dtype),
        }
    }

    /// Returns the equations added so far.
    pub fn equations(&self) -> &[Equation] {
        &self.equations
    }

    /// Returns, per equation added so far, the user's source line.
    pub(crate) fn locations(&self) -> &[Loc] {
        &self.locations
    }

    /// Returns the types of all values made so far.
    pub(crate) fn types(&self) -> &PrimaryMap<ValueId, Type> {
        &self.types
    }

    /// Frees the unused capacity of the lists of equations, lines, phases and types.
    pub(crate) fn shrink(&mut self) {
        self.equations.shrink_to_fit();
        self.locations.shrink_to_fit();
        self.phases.shrink_to_fit();
        self.types.shrink_to_fit();
    }

    /// Returns the bytes that the lists of equations, types, source lines and phases occupy.
    pub(crate) fn bytes(&self) -> usize {
        let spilled = |e: &Equation| {
            let operands = if e.operands.spilled() { e.operands.capacity() } else { 0 };
            let outputs = if e.outputs.spilled() { e.outputs.capacity() } else { 0 };
            operands * size_of::<Atom>() + outputs * size_of::<ValueId>()
        };
        self.equations.capacity() * size_of::<Equation>()
            + self.equations.iter().map(spilled).sum::<usize>()
            + self.locations.capacity() * size_of::<Loc>()
            + self.phases.capacity() * size_of::<Phase>()
            + self.types.len() * size_of::<Type>()
    }

    /// Returns the ordinary parameters added so far.
    pub fn params(&self) -> &[ValueId] {
        &self.params
    }

    /// Appends an equation whose output types are known, without type inference, and returns its outputs. Passes
    /// that copy equations unchanged use this; the verifier checks the types again.
    pub fn push(&mut self, op: Op, operands: Operands, types: &[Type], of: Origin) -> Outputs {
        let outputs: Outputs = types.iter().map(|t| self.types.push(t.clone())).collect();
        self.equations.push(Equation { outputs: outputs.clone(), op, operands });
        self.locations.push(of.loc);
        self.phases.push(of.phase);
        outputs
    }

    /// Records a problem with its source line. If a problem is recorded already, drops the new one.
    pub fn fail(&mut self, problem: Problem, loc: Loc) {
        self.problem.get_or_insert((problem, loc));
    }

    /// Returns the first problem recorded, with the source line at which it arose.
    pub fn problem(&self) -> Option<&(Problem, Loc)> {
        self.problem.as_ref()
    }

    /// Closes the function and adds it to the module. Values are renumbered: parameters first, then outputs in
    /// the order of equations.
    ///
    /// # Errors
    /// Returns the first problem recorded during construction, or an error of [`Module::add`].
    pub fn finish(self, module: &mut Module, results: Vec<Atom>) -> Result<FuncId, Problem> {
        module.add(self.close(results)?)
    }

    /// Closes the function without adding it to a module.
    ///
    /// # Errors
    /// Returns the first problem recorded during construction.
    pub fn close(self, results: Vec<Atom>) -> Result<Function, Problem> {
        match self.problem {
            Some((problem, loc)) => Err(problem.at(loc)),
            None => Ok(self.renumber(results)),
        }
    }

    /// Numbers the values, and the marks of barrier equations, 0, 1, .. in the order in which the text shows them, so
    /// that equal programs compare equal.
    fn renumber(self, results: Vec<Atom>) -> Function {
        let mut types = PrimaryMap::with_capacity(self.types.len());
        let mut new: SecondaryMap<ValueId, Option<ValueId>> =
            SecondaryMap::with_capacity(self.types.len());
        let mut old_types = self.types;
        let mut define = |v: ValueId, new: &mut SecondaryMap<ValueId, Option<ValueId>>| {
            let ty = std::mem::replace(&mut old_types[v], Type::scalar(Dtype::Bool));
            let id = types.push(ty);
            new[v] = Some(id);
            id
        };
        let params = self.params.iter().map(|p| define(*p, &mut new)).collect();
        let linear_params = self.linear_params.iter().map(|p| define(*p, &mut new)).collect();
        let rename = |a: Atom, new: &SecondaryMap<ValueId, Option<ValueId>>| match a {
            Atom::Value(v) => new[v].map_or(a, Atom::Value),
            Atom::Literal(_) => a,
        };
        let mut equations = self.equations;
        let mut marks = 0;
        for e in &mut equations {
            e.op.number(&mut marks);
            for operand in &mut e.operands {
                *operand = rename(*operand, &new);
            }
            for output in &mut e.outputs {
                *output = define(*output, &mut new);
            }
        }
        let results = results.into_iter().map(|r| rename(r, &new)).collect();
        Function {
            name: self.name,
            params,
            linear_params,
            equations,
            results,
            types,
            locations: self.locations,
            phases: self.phases,
        }
    }
}

/// A draft (function under construction) together with the module that it will belong to.
pub struct Builder<'a> {
    module: RefCell<&'a mut Module>,
    draft: RefCell<&'a mut Draft>,
    origin: Cell<Origin>,
}

impl<'a> Builder<'a> {
    /// Makes a builder that appends to `draft`, a function under construction.
    pub fn new(module: &'a mut Module, draft: &'a mut Draft) -> Builder<'a> {
        Builder {
            module: RefCell::new(module),
            draft: RefCell::new(draft),
            origin: Cell::default(),
        }
    }

    /// Sets the source line and the phase of all equations emitted after this call.
    pub fn at(&self, origin: Origin) {
        self.origin.set(origin);
    }

    /// Returns the source line and the phase that the next emitted equation gets.
    pub fn origin(&self) -> Origin {
        self.origin.get()
    }

    /// Runs `f` on the module. `f` must not emit through this builder.
    pub fn with_module<T>(&self, f: impl FnOnce(&mut Module) -> T) -> T {
        f(&mut self.module.borrow_mut())
    }

    /// Returns the type of an atom of the draft.
    pub fn type_of(&self, atom: Atom) -> Type {
        self.draft.borrow().type_of(atom)
    }

    /// Returns the shape of an atom that is an array; the scalar shape for a tape.
    pub fn shape_of(&self, atom: Atom) -> crate::lang::types::Shape {
        match self.type_of(atom) {
            Type::Array(a) => a.shape,
            Type::Tape(_) => crate::lang::types::Shape::scalar(),
        }
    }

    /// Returns the dtype of an atom that is an array; `bool` for a tape.
    pub fn dtype_of(&self, atom: Atom) -> Dtype {
        match self.type_of(atom) {
            Type::Array(a) => a.dtype,
            Type::Tape(_) => Dtype::Bool,
        }
    }

    /// Returns the equation that defines an atom; `None` for a parameter or a literal. Takes time in proportion to
    /// the draft's length.
    pub fn definition(&self, atom: Atom) -> Option<Equation> {
        let (draft, value) = (self.draft.borrow(), atom.value()?);
        draft.equations().iter().rev().find(|e| e.outputs.contains(&value)).cloned()
    }

    /// Returns the equation that defines an atom; `None` if it is not among the last `FEW` equations of the draft. A
    /// search of these few equations takes the same time in a program of any length.
    pub(crate) fn recent_definition(&self, atom: Atom) -> Option<Equation> {
        const FEW: usize = 16;
        let (draft, value) = (self.draft.borrow(), atom.value()?);
        let all = draft.equations();
        all.iter().rev().take(FEW).find(|e| e.outputs.contains(&value)).cloned()
    }

    /// Records a problem at the current source line. If a problem is recorded already, drops the new one.
    pub fn fail(&self, problem: Problem) {
        self.draft.borrow_mut().fail(problem, self.origin.get().loc);
    }

    /// Emits an equation and returns its outputs. After a type error, records the problem in the draft and returns
    /// placeholders.
    pub fn emit(&self, op: impl Into<Op>, operands: &[Atom]) -> SmallVec<[Atom; 1]> {
        match self.try_emit(op.into(), operands) {
            Ok(outputs) => outputs,
            Err((problem, outputs)) => {
                self.fail(problem);
                SmallVec::from_elem(Literal::f64(f64::NAN).into(), outputs)
            }
        }
    }

    /// Emits an equation of a primitive with one output, and returns the output.
    pub fn emit1(&self, op: impl Into<Op>, operands: &[Atom]) -> Atom {
        match self.emit(op, operands).as_slice() {
            [one] => *one,
            outputs => {
                let n = outputs.len();
                self.fail(Problem::internal(format!("expected one output, the primitive has {n}")));
                Literal::f64(f64::NAN).into()
            }
        }
    }

    /// Emits an equation and returns its outputs. After a type error, emits nothing, and returns the problem and the
    /// number of outputs that a correct equation would have.
    pub fn try_emit(
        &self,
        op: Op,
        operands: &[Atom],
    ) -> Result<SmallVec<[Atom; 1]>, (Problem, usize)> {
        let types: SmallVec<[Type; 2]> = {
            let draft = self.draft.borrow();
            operands.iter().map(|a| draft.type_of(*a)).collect()
        };
        let module = self.module.borrow();
        let inferred =
            infer(&module, &op, operands, &types).map_err(|p| (p, op.outputs(&module)))?;
        let origin = self.origin.get();
        let mut draft = self.draft.borrow_mut();
        let outputs = draft.push(op, SmallVec::from_slice(operands), &inferred, origin);
        Ok(outputs.into_iter().map(Atom::Value).collect())
    }

    /// Copies equation `index` of `f` with other operands, and returns the new outputs. Their types are taken from `f`,
    /// without type inference.
    pub fn copy(&self, f: &Function, index: usize, operands: Operands) -> Atoms {
        let own = f.origin(index);
        let origin = Origin { loc: own.loc.or(self.origin.get().loc), ..own };
        let op = f.equations[index].op.clone();
        self.draft.borrow_mut().copy_at(op, f, index, operands, origin)
    }

    /// Copies the equations of a function into the draft, with `args` as its parameters, and returns its results.
    pub fn inline(&self, function: FuncId, args: &[Atom]) -> Vec<Atom> {
        self.open(function, args, |_| None)
    }

    /// Copies the equations of a function into the draft, like [`Builder::inline`]. Each equation for which `wanted`
    /// returns a function is replaced by the equations of that function. The replacement also applies to the equations
    /// that it inserts.
    pub fn open(
        &self,
        function: FuncId,
        args: &[Atom],
        wanted: impl Fn(&Op) -> Option<FuncId>,
    ) -> Vec<Atom> {
        let module = self.module.borrow();
        let f = module.get(function);
        let want = f.params.len() + f.linear_params.len();
        if want != args.len() {
            let message = format!("@{} takes {want} arguments, got {}", f.name, args.len());
            self.fail(Problem::new(Kind::Arguments, message, ""));
            return f.results.iter().map(|_| Literal::f64(f64::NAN).into()).collect();
        }
        let call = self.origin.get();
        remap::open(&module, &mut self.draft.borrow_mut(), &f, args, call, wanted)
    }
}

/// Infers the types of an equation's outputs from its primitive, operands and their types.
pub(crate) fn infer(
    module: &Module,
    op: &Op,
    operands: &[Atom],
    types: &[Type],
) -> Result<SmallVec<[Type; 1]>, Problem> {
    let operands: SmallVec<[Operand<'_>; 2]> =
        operands.iter().zip(types).map(|(a, ty)| Operand { ty, literal: a.literal() }).collect();
    op.infer(module, &operands)
}
