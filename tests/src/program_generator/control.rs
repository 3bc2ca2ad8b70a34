//! Methods of `Generator` that emit loops and branches over the callees of a random program.
//!
//! A callee becomes a loop body once its parameters are bound: to constants, elements, the iteration number, or
//! carries, for which a result of the same type is needed. Carries are brought within the bounds of an argument.
//! Branches are variants of one callee. Each variant also writes a number into its vector operand, before or after it
//! reads the vector, and returns a number, so that there is always a result to carry.

use super::{Gene, Generator};
use std::num::NonZeroU32;
use tapeloom_ir::prim::{
    Binding, Broadcast, Call, Cond, Direction, DynamicUpdateSlice, Loop, LoopSpec, TripCount,
};
use tapeloom_ir::{ArrayType, Atom, Builder, Draft, Dtype, FuncId, Literal, Scalar, Shape, Type};

impl Generator<'_, '_> {
    /// Emits a loop over a callee with 0 to 4 iterations.
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

    /// Draws the attribute `carries` of a loop: the number of carries to save for half of the loops, none for the
    /// others.
    fn carries(&mut self) -> Option<NonZeroU32> {
        NonZeroU32::new([0, 0, 0, 1, 1, 2][self.rng.index(6)])
    }

    /// Emits a branch whose two or three sides are variants of one callee.
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

    /// Returns a loop body: a variant of a callee, or an inner loop over one.
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
            // The trip count of the inner loop is two, or an integer of the program modulo 3.
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

    /// Returns a function that calls the callee. In tame programs (without infinities, nan and poles) the function
    /// bounds the callee's float results by tanh. It negates them if `turn` is odd. It also writes a number into its
    /// vector operand.
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
            // A product of the vector before the write and the vector after it, so that both versions are needed.
            let both = b.emit1(Scalar::Mul, &[params[0], early.unwrap_or(params[0])]);
            results.push(b.emit1(Scalar::Sin, &[both]));
            results.extend(if turn.is_multiple_of(2) { early } else { put() });
            results.push(b.emit1(Scalar::Sin, &[params[1]]));
            draft.finish(m, results).ok()
        })
    }

    /// Returns a value converted to this type, as an operand of a call. In tame programs (without infinities, nan and
    /// poles) its magnitude is at most 8.
    pub(super) fn argument(&mut self, ty: &ArrayType, gene: Gene, i: usize) -> Atom {
        let x = self.pick(ty.dtype, gene.operands[i % 2].wrapping_add(i as u8 / 2));
        let x = self.matching(&x, &ty.shape);
        self.within(&x, 8.0).atom
    }
}
