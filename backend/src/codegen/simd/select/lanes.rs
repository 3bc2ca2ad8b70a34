//! Loops with lanes: full strips (the vectors of one iteration), the remaining elements, and folds.

use super::{Refused, Select, Strip, Val, class, lane};
use crate::codegen::simd::form::{Binary, Class, Inst, Lane, Logic, Order, Reg, Ty};
use crate::loop_ir::analysis::dependence::folds;
use crate::loop_ir::legal_lanes::refused;
use crate::loop_ir::{Arg, Flow, IndexId, Parallelism, Stmt, VarId, visit};
use smallvec::{SmallVec, smallvec};
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::{Code, Dtype, Literal};

impl Select<'_> {
    /// Selects instructions for a loop with lanes: first a loop over full strips (one or more vectors at once), then
    /// the remaining elements.
    pub(super) fn in_lanes(
        &mut self,
        stmt: &Stmt,
        index: IndexId,
        extent: usize,
        lanes: usize,
        body: &[Stmt],
    ) -> Result<(), Refused> {
        if self.lanes.is_some() {
            return Err(Refused("a loop with lanes is in a loop with lanes"));
        }
        let folds = folds(body);
        let sizes = self.sizes(body);
        let natural = self.vector_bytes / sizes.1;
        let (n, units) = match folds.is_empty() {
            true => (natural, self.vectors(extent / natural)),
            false if lanes <= natural => (lanes, 1),
            false => (natural, lanes / natural),
        };
        if n * sizes.0 < 16 {
            return Err(Refused("it has fewer lanes than a vector"));
        }
        if extent < n / 2 && !calls_functions(body) {
            return Err(Refused("its rows are short"));
        }
        let strip = n * units;
        self.elements.push((index, n));
        let Stmt::For { parallelism, .. } = stmt else { return Err(Refused("it is no loop")) };
        if *parallelism == Parallelism::Serial
            && strip > lanes
            && refused(self.k, stmt, strip.min(extent)).is_some()
        {
            return Err(Refused("iterations may access memory that other iterations write"));
        }
        let (full, rest) = (extent - extent % strip, extent % strip);

        // A variable that is folded into has a partial value for each element of a strip (the vectors of one
        // iteration); the partial values are combined after the loop.
        let mut partial = Vec::new();
        if !folds.is_empty() && full > 0 {
            for (var, code) in &folds {
                let dtype = self.k.vars[*var];
                let mut neutral =
                    code.neutral(dtype).ok_or(Refused("a fold has no neutral element"))?;
                if planted(Fault::MinIdentity) && matches!(code, Code::Min) && dtype == Dtype::I32 {
                    neutral = Literal::zero(dtype);
                }
                let outer = self.var(*var)?;
                let class = class(dtype);
                let regs = self.new_homes(class, units);
                let neutral = self.arg(Arg::Literal(neutral))?;
                self.vars.insert(*var, Val { regs, uniform: false });
                self.set(*var, &neutral)?;
                if matches!(code, Code::Max | Code::Min) && dtype.is_float() {
                    let regs = self.new_homes(Class::Mask, units);
                    for to in &regs {
                        self.push(Inst::Truth { to: *to, all: false });
                    }
                    self.nans.insert(*var, Val { regs, uniform: false });
                }
                partial.push((*var, *code, outer));
            }
        }
        if full > 0 {
            self.push(Inst::Active { n });
            self.lanes = Some(Strip { index, n, units });
            self.strips(0, full, strip, body)?;
        }
        // The remaining elements are processed vector by vector; the last vector may have fewer active elements. Vector
        // number `unit` of the remaining ones folds into the partial values of vector `unit` of a strip (the vectors of
        // one iteration).
        for unit in 0..rest.div_ceil(n) {
            let from = full + unit * n;
            let mut active = n.min(extent - from);
            let narrow = sizes.1 == 4;
            if planted(Fault::LaneTail) && !narrow || planted(Fault::LaneTailNarrow) && narrow {
                active = (active - 1).max(1);
            }
            self.push(Inst::Active { n: active });
            self.lanes = Some(Strip { index, n, units: 1 });
            let (vars, nans) = (self.vars.clone(), self.nans.clone());
            let one = |val: &Val| Val { regs: smallvec![val.regs[unit]], uniform: false };
            for (var, ..) in &partial {
                self.vars.insert(*var, one(&vars[var]));
                if let Some(nan) = nans.get(var) {
                    self.nans.insert(*var, one(nan));
                }
            }
            if active < n && !partial.is_empty() && !planted(Fault::WideMerge) {
                let mask = self.mask();
                self.push(Inst::ActiveMask { to: mask, n });
                self.merge = Some((mask, partial.iter().map(|p| p.0).collect()));
            }
            self.strips(from, from + active, n, body)?;
            self.merge = None;
            for (var, ..) in &partial {
                self.vars.insert(*var, vars[var].clone());
            }
            self.nans = nans;
        }
        self.lanes = None;
        for (var, code, outer) in partial {
            let dtype = self.k.vars[var];
            let mut lanes = self.vars[&var].clone();
            if let (Some(nans), Some(lane)) = (self.nans.swap_remove(&var), lane(dtype)) {
                let nan = self.float(lane, f64::NAN);
                for (x, is_nan) in lanes.regs.iter_mut().zip(nans.regs) {
                    *x = self.pick(Ty { lane, n }, is_nan, nan, *x);
                }
            }
            let all = self.combine(code, dtype, n, &lanes)?;
            self.vars.insert(var, outer.clone());
            let first = self.program.regs.len();
            let new = self.code(code, dtype, &[outer, all])?;
            self.set_new(var, &new, first)?;
        }
        Ok(())
    }

    /// Returns the number of vectors that one iteration of a loop over `all` vectors processes. In a loop of fewer than
    /// eight iterations, the number divides `all`: remaining vectors would need code in addition to the loop.
    fn vectors(&self, all: usize) -> usize {
        let fits = |vectors: &usize| all.is_multiple_of(*vectors) || all >= 8 * *vectors;
        (1..=self.most_vectors).rev().find(|vectors| all >= *vectors && fits(vectors)).unwrap_or(1)
    }

    /// Emits one step of a fold by `max` or `min`. A separate mask records nans, so that each step depends on the step
    /// before by only one instruction.
    pub(super) fn fold_extreme(
        &mut self,
        code: Code,
        var: VarId,
        value: &Val,
        old: &Val,
        nans: &Val,
    ) -> Result<(), Refused> {
        let (Some(lane), Some(strip)) = (lane(self.k.vars[var]), self.lanes) else {
            return Err(Refused("bools are folded"));
        };
        let ty = Ty { lane, n: strip.n };
        let op = if matches!(code, Code::Max) { Binary::Largest } else { Binary::Smallest };
        let active = self.merge.clone().filter(|m| m.1.contains(&var)).map(|m| m.0);
        self.uniform = false;
        for unit in 0..strip.units {
            let (x, home, nan) = (value.at(unit), old.at(unit), nans.at(unit));
            let mut is_nan = self.compare(Order::Unordered, true, ty, x, x);
            if let Some(active) = active {
                let number = self.binary(op, ty, home, x);
                self.push(Inst::Pick { ty, to: home, mask: active, x: number, y: home });
                is_nan = self.logic(Logic::And, is_nan, active);
            } else {
                self.push(Inst::Binary { op, ty, to: home, x: home, y: x });
            }
            if !planted(Fault::FoldedNan) {
                self.push(Inst::Logic { op: Logic::Or, to: nan, x: nan, y: is_nan });
            }
        }
        Ok(())
    }

    pub(super) fn strips(
        &mut self,
        from: usize,
        to: usize,
        by: usize,
        body: &[Stmt],
    ) -> Result<(), Refused> {
        let at = self.program.body.len();
        self.before = (self.open.len(), self.program.regs.len());
        self.push(Inst::Lanes { streams: Vec::new(), from, to, by });
        self.block(body)?;
        self.push(Inst::LanesEnd { to, by });
        let found = std::mem::take(&mut self.streams);
        if let Inst::Lanes { streams, .. } = &mut self.program.body[at] {
            *streams = found;
        }
        Ok(())
    }

    /// Returns the sizes in bytes of the smallest and the largest element type of values in a loop; bools do not count.
    pub(super) fn sizes(&self, body: &[Stmt]) -> (usize, usize) {
        let (mut least, mut most) = (8, 4);
        let mut dtype = |d: Dtype| {
            if let Some(lane) = lane(d) {
                least = least.min(lane.bytes());
                most = most.max(lane.bytes());
            }
        };
        visit(body, &mut |s| {
            let shape = s.shape();
            shape.defines.iter().for_each(|v| dtype(self.k.scalars[*v]));
            shape.assigns.iter().for_each(|(v, _)| dtype(self.k.vars[*v]));
            // Integers used only in addresses do not count, since they occupy no vector elements.
            if matches!(shape.flow, Flow::Straight) {
                shape.operands.iter().for_each(|a| match a {
                    Arg::Index(_) | Arg::Scalar(_) | Arg::Var(_) => dtype(self.k.dtype(*a)),
                    Arg::Literal(_) => {}
                });
            }
            s.accesses(&mut |a| dtype(self.k.buffers[a.held.buffer].ty.dtype));
        });
        (least, most)
    }

    /// Returns, for a variable that is assigned in the last vector, the new value in elements that `mask` holds (the
    /// active ones) and the old value in the others.
    pub(super) fn merged(
        &mut self,
        mask: Reg,
        dtype: Dtype,
        new: &Val,
        old: &Val,
    ) -> Result<Val, Refused> {
        let Some(strip) = self.lanes else {
            return Err(Refused("a fold outside of lanes has an incomplete vector"));
        };
        self.uniform = false;
        let ty = Ty { lane: lane(dtype).unwrap_or(Lane::I32), n: strip.n };
        let to = self.select(dtype, ty, mask, new.at(0), old.at(0));
        Ok(Val { regs: smallvec![to], uniform: false })
    }

    /// Folds the partial values of a variable to one value, by halves: the upper half into the lower half. The result
    /// is uniform (equal in all elements).
    pub(super) fn combine(
        &mut self,
        code: Code,
        dtype: Dtype,
        n: usize,
        x: &Val,
    ) -> Result<Val, Refused> {
        let Some(lane) = lane(dtype) else { return self.combine_bools(code, n, x) };
        self.uniform = false;
        let mut regs: Vec<Reg> = x.regs.to_vec();
        if planted(Fault::LaneOrder) && regs.len() > 1 {
            let of = |s: &mut Self, reg: Reg| {
                s.combine(code, dtype, n, &Val { regs: smallvec![reg], uniform: false })
            };
            let (first, last) = (of(self, regs[0])?, of(self, regs[1])?);
            return self.code(code, dtype, &[first, last]);
        }
        while regs.len() > 1 {
            let high = regs.split_off(regs.len() / 2);
            for (x, y) in regs.iter_mut().zip(high) {
                *x = self.one(code, dtype, Ty { lane, n }, &[*x, y])?;
            }
        }
        let mut last = regs[0];
        let mut left = n;
        while left > 1 {
            let high = self.vector();
            self.push(Inst::UpperHalf { ty: Ty { lane, n: left }, to: high, x: last });
            left /= 2;
            // A vector register has at least 128 bits; its elements beyond `left` are ignored.
            let ty = Ty { lane, n: left.max(16 / lane.bytes()) };
            last = self.one(code, dtype, ty, &[last, high])?;
        }
        let to = self.vector();
        self.push(Inst::Broadcast { lane, to, x: last });
        Ok(Val::one(to))
    }

    /// Folds the partial values of a bool like [`Self::combine`]. A mask cannot be halved, so the last one is converted to
    /// integers with all bits set or none.
    fn combine_bools(&mut self, code: Code, n: usize, x: &Val) -> Result<Val, Refused> {
        let of_integers = match code {
            Code::And | Code::Min | Code::Mul => Code::And,
            Code::Or | Code::Max | Code::Add => Code::Or,
            Code::Xor | Code::Ne => Code::Xor,
            _ => return Err(Refused("bools are folded by a code that is not supported")),
        };
        self.uniform = false;
        let (first, rest) = (x.at(0), x.regs.get(1..).unwrap_or_default());
        let mut mask = first;
        for other in rest {
            mask = self.truth(code, mask, *other)?;
        }
        // The width of the integers whose vectors have `n` elements, as many as the mask.
        let (lane, dtype) = match n * Lane::I64.bytes() <= self.vector_bytes {
            true => (Lane::I64, Dtype::I64),
            false => (Lane::I32, Dtype::I32),
        };
        let [ones, zero] = [u64::MAX, 0].map(|bits| self.constant(lane, bits));
        let numbers = self.pick(Ty { lane, n }, mask, ones, zero);
        let all = self.combine(of_integers, dtype, n, &Val::one(numbers))?;
        self.uniform = true;
        Ok(Val::one(self.compare(Order::Ne, true, self.whole(lane), all.at(0), zero)))
    }

    pub(super) fn lane_index(&mut self, strip: Strip) -> Val {
        let first = self.make(Class::Vector, |to| Inst::Counter { to, of: None });
        let ramp = self.make(Class::Vector, |to| Inst::Ramp { to, step: 1 });
        let ty = Ty { lane: Lane::I64, n: strip.n };
        let mut regs: SmallVec<[Reg; 2]> = SmallVec::new();
        for unit in 0..strip.units {
            let mut to = self.binary(Binary::Add, ty, first, ramp);
            if unit > 0 {
                let by = self.constant(Lane::I64, (unit * strip.n) as u64);
                to = self.binary(Binary::Add, ty, to, by);
            }
            regs.push(to);
        }
        Val { regs, uniform: false }
    }
}

/// Returns whether a block calls a library function. Without SIMD code, such a function is called for each element.
fn calls_functions(body: &[Stmt]) -> bool {
    let mut found = false;
    visit(body, &mut |s| found |= matches!(s.shape().code, Some(Code::Library(_))));
    found
}
