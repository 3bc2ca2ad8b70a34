//! Variables of a kernel: one value for all lanes, or one for each lane.

use super::scalar;
use super::translate::Translator;
use super::vector_value::Lanes;
use crate::loop_ir::VarId;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type};
use cranelift_frontend::Variable;
use smallvec::SmallVec;
use tapeloom_ir::Problem;

/// The representation of a loop program's variable in Cranelift's IR: one value for all lanes, or one value per lane.
#[derive(Clone)]
pub(super) enum Binding {
    /// One value for all lanes.
    One(Variable),
    /// One value per lane, in vector registers of this type.
    Vector(Type, SmallVec<[Variable; 4]>),
    /// One value per lane, each in a scalar register.
    Each(SmallVec<[Variable; 4]>),
    /// One value of this type for all lanes, in memory at this offset in bytes of the workspace. Used if the loop has
    /// more variables than there are registers.
    Memory(Type, usize),
}

impl Translator<'_, '_, '_> {
    /// Declares the Cranelift variables that represent a loop program's variable: one, or enough for the current number
    /// of lanes.
    pub(super) fn declare(&mut self, var: VarId) -> Binding {
        let (dtype, width) = (self.p.vars[var], self.width());
        let scalar = scalar::register(dtype);
        match self.vector(dtype) {
            _ if width == 1
                && let Some(at) = self.cut.variables.get(&var) =>
            {
                Binding::Memory(scalar, *at)
            }
            _ if width == 1 => Binding::One(self.b.declare_var(scalar)),
            Some(ty) => {
                let count = width / ty.lane_count() as usize;
                Binding::Vector(ty, (0..count).map(|_| self.b.declare_var(ty)).collect())
            }
            None => Binding::Each((0..width).map(|_| self.b.declare_var(scalar)).collect()),
        }
    }

    fn slot(&self, var: VarId) -> Result<Binding, Problem> {
        let slot = self.state.vars[var].clone();
        slot.ok_or_else(|| Problem::internal(format!("{var} is not declared")))
    }

    pub(super) fn get(&mut self, var: VarId) -> Result<Lanes, Problem> {
        Ok(match self.slot(var)? {
            Binding::Memory(ty, at) => {
                let (base, offset) = self.spill_address(at);
                Lanes::One(self.b.ins().load(ty, MemFlagsData::trusted(), base, offset))
            }
            Binding::One(v) => Lanes::One(self.b.use_var(v)),
            Binding::Vector(_, vs) => {
                Lanes::Vector(vs.iter().map(|v| self.b.use_var(*v)).collect())
            }
            Binding::Each(vs) => Lanes::Each(vs.iter().map(|v| self.b.use_var(*v)).collect()),
        })
    }

    pub(super) fn set(&mut self, var: VarId, x: &Lanes) -> Result<(), Problem> {
        let dtype = self.p.vars[var];
        match (self.slot(var)?, x) {
            (Binding::One(v), Lanes::One(x)) => self.b.def_var(v, *x),
            (Binding::Memory(_, at), Lanes::One(x)) => {
                let (base, offset) = self.spill_address(at);
                self.b.ins().store(MemFlagsData::trusted(), *x, base, offset);
            }
            (Binding::One(_) | Binding::Memory(..), _) => {
                return Err(Problem::internal(format!("{var} is set in lanes but not per lane")));
            }
            (Binding::Vector(ty, vs), _) => {
                let x = self.emit().vectors(x, dtype, ty);
                vs.iter().zip(x).for_each(|(v, x)| self.b.def_var(*v, x));
            }
            (Binding::Each(vs), _) => {
                let x = self.emit().each(x, dtype);
                vs.iter().zip(x).for_each(|(v, x)| self.b.def_var(*v, x));
            }
        }
        Ok(())
    }
}
