//! Loops and branches: what a function computes, iteration after iteration, or one of its kin by choice.
//!
//! A callee is a body as soon as somebody says where its parameters come from: constants, elements,
//! the number of the iteration, or a result of the same type, which is then carried. What is carried is
//! brought within the bounds of an argument, and a branch is a callee or its like. Each also puts a
//! number into the vector that it takes, before or after it reads the vector, and makes a number, so
//! that there is always something to carry.

use super::{Gene, Generator};
use std::num::NonZeroU32;
use tapeloom_ir::prim::{
    Binding, Broadcast, Call, Cond, Direction, DynamicUpdateSlice, Loop, LoopSpec, TripCount,
};
use tapeloom_ir::{ArrayType, Atom, Builder, Draft, Dtype, FuncId, Literal, Scalar, Shape, Type};

impl Generator<'_, '_> {
    /// A loop of a callee: so many iterations, few of them.
    pub(super) fn iterations(&mut self, gene: Gene) {
        let Some(body) = self.body() else { return };
        let (params, results) = self.signature(body);
        let trip = [0, 1, 2, 3, 3, 4][self.rng.index(6)];
        let mut carried = vec![false; results.len()];
        let (mut takes, mut operands) = (Vec::new(), Vec::new());
        for (i, ty) in params.iter().enumerate() {
            let alike = (0..results.len()).filter(|r| results[*r] == *ty && !carried[*r]);
            let alike: Vec<usize> = alike.collect();
            let counts = ty.dtype == Dtype::I64 && ty.shape.is_empty();
            let slot = match self.rng.index(6) {
                0 | 1 if counts => Binding::Index,
                0..=3 if !alike.is_empty() => Binding::Carry(alike[self.rng.index(alike.len())]),
                4 => Binding::Xs,
                _ => Binding::Const,
            };
            takes.push(slot);
            let ty = match slot {
                Binding::Index => continue,
                Binding::Carry(result) => {
                    carried[result] = true;
                    ty.clone()
                }
                Binding::Const => ty.clone(),
                Binding::Xs => ArrayType::new(ty.dtype, ty.shape.with_leading(trip)),
            };
            operands.push(self.argument(&ty, gene, i));
        }
        let direction = [Direction::Up, Direction::Down][self.rng.index(2)];
        let spec = LoopSpec { trip: TripCount::Static(trip), direction, takes };
        let carries = self.carries();
        self.push(Loop { body, spec, carries }, &operands, super::BOUND);
    }

    /// How many carries a loop keeps, if it says so: every other one.
    fn carries(&mut self) -> Option<NonZeroU32> {
        NonZeroU32::new([0, 0, 0, 1, 1, 2][self.rng.index(6)])
    }

    /// One of several branches of one type.
    pub(super) fn branch(&mut self, gene: Gene) {
        let chosen = self.rng.index(self.callees.len().max(1));
        let count = 2 + self.rng.index(2);
        let branches: Option<Vec<FuncId>> =
            (0..count).map(|turn| self.like(chosen, turn)).collect();
        let Some(branches) = branches else { return };
        let dtype = if count == 2 && self.rng.index(2) == 0 { Dtype::Bool } else { Dtype::I64 };
        let which = self.pick(dtype, gene.operands[1]);
        let mut operands = vec![self.scalar(&which).atom];
        let (params, _) = self.signature(branches[0]);
        for (i, ty) in params.iter().enumerate() {
            operands.push(self.argument(ty, gene, i));
        }
        self.push(Cond { branches }, &operands, super::BOUND);
    }

    /// What an iteration runs: a kin of a callee, or a loop of it.
    fn body(&mut self) -> Option<FuncId> {
        let chosen = self.rng.index(self.callees.len().max(1));
        let turn = self.rng.index(2);
        let body = self.like(chosen, turn)?;
        if self.rng.index(3) > 0 {
            return Some(body);
        }
        let (params, results) = self.signature(body);
        let mut carried = vec![false; results.len()];
        let mut take = |ty: &ArrayType| {
            let alike = (0..results.len()).rev().find(|r| results[*r] == *ty && !carried[*r]);
            alike.map_or(Binding::Const, |r| {
                carried[r] = true;
                Binding::Carry(r)
            })
        };
        let takes: Vec<Binding> = params.iter().map(&mut take).collect();
        let (counts, carries) = (self.rng.index(2) == 0, self.carries());
        self.b.with_module(|m| {
            let mut draft = Draft::new("inner");
            let mut operands: Vec<Atom> =
                params.iter().map(|ty| draft.param(ty.clone().into())).collect();
            let b = Builder::new(m, &mut draft);
            // As many iterations as a number says, none to two, or two.
            let number = params.iter().position(|ty| *ty == ArrayType::new(Dtype::I64, []));
            let trip = match number.filter(|_| counts) {
                Some(i) => {
                    operands
                        .insert(0, b.emit1(Scalar::Rem, &[operands[i], Literal::i64(3).into()]));
                    TripCount::Runtime
                }
                None => TripCount::Static(2),
            };
            let spec = LoopSpec { trip, direction: Direction::Up, takes };
            let all = b.emit(Loop { body, spec, carries }, &operands);
            let results = all.iter().zip(&carried).filter(|(_, on)| **on).map(|(y, _)| *y);
            draft.finish(m, results.collect()).ok()
        })
    }

    fn signature(&self, f: FuncId) -> (Vec<ArrayType>, Vec<ArrayType>) {
        let arrays = |types: Vec<Type>| types.iter().filter_map(Type::as_array).cloned().collect();
        self.b.with_module(|m| {
            let f = m.get(f);
            (arrays(f.param_types()), arrays(f.result_types()))
        })
    }

    /// A function like a callee: its floats within the bounds of arguments, every second time negated.
    fn like(&self, callee: usize, turn: usize) -> Option<FuncId> {
        let function = *self.callees.get(callee)?;
        self.b.with_module(|m| {
            let mut draft = Draft::new(format!("like{turn}"));
            let types = m.get(function).param_types();
            let params: Vec<Atom> = types.into_iter().map(|ty| draft.param(ty)).collect();
            let b = Builder::new(m, &mut draft);
            let put = || {
                let [vector, _, place, number] = params[..] else { return None };
                let one = Shape::from([1].as_slice());
                let number = b.emit1(Broadcast { shape: one, dims: Vec::new() }, &[number]);
                b.try_emit(DynamicUpdateSlice.into(), &[vector, number, place])
                    .ok()?
                    .first()
                    .copied()
            };
            let early = if turn.is_multiple_of(2) { put() } else { None };
            let mut results = b.emit(Call::inline(function), &params).to_vec();
            for y in &mut results {
                let float = b.type_of(*y).as_array().is_some_and(|a| a.dtype.is_float());
                if float && !turn.is_multiple_of(2) {
                    *y = b.emit1(Scalar::Neg, &[*y]);
                }
                if float && !self.wild {
                    *y = b.emit1(Scalar::Tanh, &[*y]);
                }
            }
            // Both vectors are read when the number has been put into one.
            let both = b.emit1(Scalar::Mul, &[params[0], early.unwrap_or(params[0])]);
            results.push(b.emit1(Scalar::Sin, &[both]));
            results.extend(if turn.is_multiple_of(2) { early } else { put() });
            results.push(b.emit1(Scalar::Sin, &[params[1]]));
            draft.finish(m, results).ok()
        })
    }

    /// A value brought to that type, and within the bounds of an argument.
    pub(super) fn argument(&mut self, ty: &ArrayType, gene: Gene, i: usize) -> Atom {
        let x = self.pick(ty.dtype, gene.operands[i % 2].wrapping_add(i as u8 / 2));
        let x = self.matching(&x, &ty.shape);
        self.within(&x, 8.0).atom
    }
}
