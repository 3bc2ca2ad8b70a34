//! Small functions of scalars, evaluated without allocating arrays.
//!
//! The derivative of a scalar operation is a function of two or three scalar equations. The interpreter needs
//! some microseconds for such a function, most of them for buffers of one element. A list of codes over slots
//! needs a hundredth of that.

use crate::lang::function::{Atom, Function, ValueId};
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::types::Type;
use crate::map::OrderedMap;
use crate::prim::{Code, Lowering, Op, Operand};
use smallvec::SmallVec;

/// The source from which a scalar code takes an operand.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// The slot with this index: it holds a parameter, or the output of an earlier code.
    At(usize),
    /// A constant.
    Is(Literal),
}

/// A compiled function on scalars: a list of scalar codes over numbered slots, each of which holds one value.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    codes: Vec<(Code, SmallVec<[Slot; 3]>)>,
    results: Vec<Slot>,
}

impl Kernel {
    /// Compiles `f`; returns `None` unless all its values are scalars and all its equations elementwise.
    pub(super) fn of(module: &Module, f: &Function) -> Option<Kernel> {
        let scalar = |ty: &Type| ty.as_array().is_some_and(|a| a.shape.is_empty());
        if !f.types.values().all(scalar) {
            return None;
        }
        let mut numbers = OrderedMap::default();
        for p in f.all_params() {
            numbers.insert(p, numbers.len());
        }
        let mut codes = Vec::new();
        for e in &f.equations {
            let types: SmallVec<[Type; 3]> = e.operands.iter().map(|a| f.type_of(*a)).collect();
            let code = elementwise(module, &e.op, &e.operands, &types)?;
            let operands = e.operands.iter().map(|a| slot(&numbers, *a)).collect::<Option<_>>()?;
            codes.push((code, operands));
            numbers.insert(*e.outputs.first()?, numbers.len());
        }
        let results = f.results.iter().map(|a| slot(&numbers, *a)).collect::<Option<_>>()?;
        Some(Kernel { codes, results })
    }

    /// Evaluates the function. `slots` must hold the arguments; the output of each code is appended to it. Returns
    /// the results.
    pub(super) fn run(&self, slots: &mut Vec<Literal>) -> SmallVec<[Literal; 2]> {
        let read = |slots: &[Literal], slot: &Slot| match slot {
            Slot::At(i) => slots[*i],
            Slot::Is(l) => *l,
        };
        for (code, operands) in &self.codes {
            let x: SmallVec<[Literal; 3]> = operands.iter().map(|s| read(slots, s)).collect();
            slots.push(code.eval(&x));
        }
        self.results.iter().map(|s| read(slots, s)).collect()
    }
}

/// Returns the source of the atom `a`, given the slot numbers of values.
fn slot(numbers: &OrderedMap<ValueId, usize>, a: Atom) -> Option<Slot> {
    match a {
        Atom::Literal(l) => Some(Slot::Is(l)),
        Atom::Value(v) => numbers.get(&v).map(|i| Slot::At(*i)),
    }
}

/// Returns the scalar code of an equation, given the types of its operands; `None` if it is not elementwise.
pub(super) fn elementwise(
    module: &Module,
    op: &Op,
    operands: &[Atom],
    types: &[Type],
) -> Option<Code> {
    let of = |(ty, a): (_, &Atom)| Operand { ty, literal: a.literal() };
    let operands: SmallVec<[Operand<'_>; 3]> = types.iter().zip(operands).map(of).collect();
    let Lowering::Elementwise(code) = op.lower(module, &operands) else { return None };
    Some(code)
}
