//! Lowers reductions (folds): the accumulator, its initial value, and the result.
//!
//! ```text
//! Σ_i x[i,j]     loop j { var v = 0; loop i { fold v, x[i,j] }; y[j] is v }          a variable
//! Σ_i x[i,j]     loop j { y[j] = 0 }; loop i { loop j { y[j] = y[j] + x[i,j] } }     memory
//! Σ_k x[i,k]     ((x[i,0] + x[i,1]) + x[i,2])                                        unrolled
//! ```

use crate::loop_ir::Arg;
use crate::lower::candidates::iteration_domain::{Axis, AxisRole};
use crate::lower::elements::fusion_state::{Accumulator, FusionState};
use crate::lower::graph::{NodeKind, dtype_of};
use crate::lower::trees::affine::{Affine, Term};
use crate::lower::trees::loop_tree::{At, Tree};
use smallvec::SmallVec;
use tapeloom_ir::prim::Sign;
use tapeloom_ir::{Code, Dtype, Literal, Problem};

impl FusionState<'_> {
    pub(crate) fn identity(&self, m: usize) -> (Code, Literal) {
        let node = &self.graph.nodes[self.candidates[m].node];
        match &node.kind {
            NodeKind::Reduce { code, identity, .. } => (*code, *identity),
            _ => (Code::Add, Literal::zero(node.ty.dtype)),
        }
    }

    /// Declares the accumulator variables of fold `m`, or stores the identity to the memory in which it accumulates,
    /// before the first folded loop.
    pub(crate) fn begin_fold(&mut self, m: usize, depth: usize) -> Result<(), Problem> {
        let node = self.candidates[m].node;
        self.computing = Some(node);
        let (_, identity) = self.identity(m);
        if self.candidates[m].accumulates_in_memory() {
            self.needs[node] = true;
            let axes: SmallVec<[Axis; 4]> =
                self.candidates[m].axes.iter().skip(depth).copied().collect();
            let mut along = self.bound[m].clone();
            let mut loops = Vec::new();
            for a in &axes {
                if matches!(a.runs, AxisRole::Out(_)) {
                    let index = self.indices.push((a.extent, self.blocks.len() + loops.len()));
                    loops.push((index, a.extent));
                    along.push(Affine::atom(Term::Index(index)).times(a.step).moved(a.start));
                } else {
                    along.push(Affine::default());
                }
            }
            let (out, _) = self.indices_of(m, &along);
            let value = Arg::Literal(identity);
            let mut code = vec![Tree::Store { node, at: At::Axes(out), value, guard: None }];
            for (index, extent) in loops.into_iter().rev() {
                code = vec![Tree::For { index, extent, body: code }];
            }
            code.into_iter().for_each(|t| self.push(t));
            self.accumulators[m] = Some(Accumulator::Memory);
            return Ok(());
        }
        let dtype = self.graph.nodes[node].ty.dtype;
        let mut vars = Vec::new();
        for _ in self.unrolled(m, depth, false) {
            vars.push(match &self.graph.nodes[node].kind {
                NodeKind::ArgReduce { largest, .. } => {
                    let of = dtype_of(self.graph, self.graph.nodes[node].operands[0]);
                    let worst = worst(of, *largest);
                    (self.var(of, worst), Some(self.var(dtype, Literal::zero(dtype))))
                }
                _ => (self.var(dtype, identity), None),
            });
        }
        self.accumulators[m] = Some(Accumulator::Vars(vars));
        Ok(())
    }

    /// Defines the results of a fold from its accumulator variables, after its loop.
    pub(crate) fn end_fold(&mut self, m: usize) {
        let Some(Accumulator::Vars(vars)) = self.accumulators[m].take() else { return };
        let depth = self.bound[m].len();
        for index in self.unrolled(m, depth, false) {
            let mut along = self.bound[m].clone();
            along.extend(index);
            let slot = self.slot(m, &along);
            let (out, _) = self.indices_of(m, &along);
            let (first, second) = vars[slot];
            self.define(self.candidates[m].node, out, Arg::Var(second.unwrap_or(first)));
        }
    }

    pub(crate) fn fold_start(&self, m: usize) -> (Arg, Arg) {
        let node = &self.graph.nodes[self.candidates[m].node];
        match &node.kind {
            NodeKind::ArgReduce { largest, .. } => {
                let of = dtype_of(self.graph, node.operands[0]);
                let zero = Literal::zero(node.ty.dtype);
                (Arg::Literal(worst(of, *largest)), Arg::Literal(zero))
            }
            _ => (Arg::Literal(self.identity(m).1), Arg::Literal(Literal::bool(false))),
        }
    }

    /// Returns the result of an unrolled fold, whose total started with the first term instead of the identity. A sum
    /// of floats must start at 0, so 0 is added to the total. This changes the total only if every term is -0.
    pub(crate) fn started(&mut self, m: usize, total: Arg) -> Arg {
        let node = &self.graph.nodes[self.candidates[m].node];
        let sums = match &node.kind {
            NodeKind::Reduce { code: Code::Add, axes, .. } => !axes.is_empty(),
            NodeKind::Contract { .. } => true,
            _ => false,
        };
        if !sums || self.sign(total) >= Sign::NeverMinusZero {
            return total;
        }
        let zero = Literal::zero(self.dtype(total));
        self.code(Code::Add, &[total, Arg::Literal(zero)])
    }

    /// Emits `code total, value`, which adds a term to the total of a fold. Returns `value` alone if the total is still
    /// the identity (see [`Self::started`]).
    pub(crate) fn fold_in(&mut self, code: Code, total: Arg, value: Arg) -> Arg {
        let neutral = match (code, total) {
            (Code::Add, Arg::Literal(l)) => l.is_zero(),
            (Code::Mul, Arg::Literal(l)) => l.is_one(),
            _ => false,
        };
        if neutral { value } else { self.code(code, &[total, value]) }
    }

    /// Emits the choice of the better of two (extremum, index) pairs: `old` wins if the values are equal, and nan is
    /// better than any number.
    pub(crate) fn better(&mut self, m: usize, old: (Arg, Arg), new: (Arg, Arg)) -> (Arg, Arg) {
        let node = &self.graph.nodes[self.candidates[m].node];
        let largest = matches!(node.kind, NodeKind::ArgReduce { largest: true, .. });
        let dtype = dtype_of(self.graph, node.operands[0]);
        let to = node.ty.dtype;
        let compare = if largest { Code::Gt } else { Code::Lt };
        let mut take = self.code(compare, &[new.0, old.0]);
        if dtype.is_float() {
            let nan = self.code(Code::Ne, &[new.0, new.0]);
            let number = self.code(Code::Eq, &[old.0, old.0]);
            let first = self.code(Code::And, &[nan, number]);
            take = self.code(Code::Or, &[take, first]);
        }
        let value = self.code(Code::Select, &[take, new.0, old.0]);
        let place = self.code(Code::Convert(to), &[new.1]);
        (value, self.code(Code::Select, &[take, place, old.1]))
    }
}

/// Returns the initial extremum of a fold: the least value for a maximum, the greatest for a minimum.
fn worst(dtype: Dtype, largest: bool) -> Literal {
    let bits = match (dtype, largest) {
        (Dtype::F64, true) => f64::NEG_INFINITY.to_bits(),
        (Dtype::F64, false) => f64::INFINITY.to_bits(),
        (Dtype::F32, true) => u64::from(f32::NEG_INFINITY.to_bits()),
        (Dtype::F32, false) => u64::from(f32::INFINITY.to_bits()),
        (Dtype::I32, true) => u64::from(i32::MIN as u32),
        (Dtype::I32, false) => u64::from(i32::MAX as u32),
        (Dtype::I64, true) => i64::MIN as u64,
        (Dtype::I64, false) => i64::MAX as u64,
        (Dtype::U32, false) => u64::from(u32::MAX),
        (Dtype::U64, false) => u64::MAX,
        (Dtype::Bool, false) => 1,
        (Dtype::U32 | Dtype::U64 | Dtype::Bool, true) => 0,
    };
    Literal { dtype, bits }
}
