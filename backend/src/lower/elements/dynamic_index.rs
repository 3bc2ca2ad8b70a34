//! Lowers indices that are known only at run time: an index that a reshape divides, an index that is clamped to an
//! array, and an index that is loaded from an array of indices.

use super::fusion_state::FusionState;
use super::view::Condition;
use crate::loop_ir::Arg;
use crate::lower::graph::{NodeId, Source};
use crate::lower::trees::affine::{Affine, Index, Term};
use crate::lower::trees::loop_tree::{At, Def};
use smallvec::SmallVec;
use tapeloom_ir::analysis::affine::{Division, flatten};
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::Bounds;
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// If the least value of an index is greater than `-INDEX_LIMIT`, an addition can make the index nonnegative without
/// overflow.
const INDEX_LIMIT: i128 = 1 << 60;

impl FusionState<'_> {
    /// Emits an element of the reshape node `id`. The operand has the same element at the same row-major position. If
    /// this position is an affine index of the operand, the operand is read at that index. Otherwise, an operand in
    /// memory is loaded by position; for any other operand, the position is divided at run time to get its index.
    pub(crate) fn reshaped(
        &mut self,
        id: NodeId,
        index: &Index,
        guard: Option<Arg>,
    ) -> Result<Arg, Problem> {
        let graph = self.graph;
        let node = &graph.nodes[id];
        let operand = node.operands[0];
        let flat = flatten(index, &node.ty.shape);
        let strides = graph.array(operand).shape.strides();
        let mut left = Some(flat.clone());
        let mut at = Index::new();
        for stride in &strides {
            let division = left.map(|a| a.divide(*stride as i64, |t| self.range_of(t)));
            left = division.and_then(Division::exact).map(|(quotient, remainder)| {
                at.push(quotient);
                remainder
            });
        }
        if left.is_some() {
            return self.element(operand, &at, guard);
        }
        if let Source::Node(n) = operand
            && !graph.nodes[n].kind.is_movement()
        {
            return Ok(self.load(n, At::Flat(flat), guard));
        }
        let mut at = Index::new();
        let mut left = flat;
        for stride in &strides {
            let (quotient, remainder) = self.divided(&left, *stride as i64);
            at.push(quotient);
            left = remainder;
        }
        self.element(operand, &at, guard)
    }

    /// Returns the quotient, rounded down, and the remainder of index `a` divided by the positive constant
    /// `by`.
    pub(crate) fn divided(&mut self, a: &Affine, by: i64) -> (Affine, Affine) {
        let Division { quotient, remainder, inner } = a.divide(by, |t| self.range_of(t));
        let Some((x, c)) = inner else { return (quotient, remainder) };
        let (q, r) = self.divided_at_run_time(x, c);
        (quotient.plus(&q, 1), remainder.plus(&r, by / c))
    }

    /// Emits a run-time division of index `x` by the constant `by`, for the case that the ranges of the terms of `x` do
    /// not determine the result. Each division is emitted once, in the outermost block in which the index is defined.
    fn divided_at_run_time(&mut self, x: Affine, by: i64) -> (Affine, Affine) {
        let key = (x, by);
        if let Some(found) = self.blocks.iter().find_map(|b| b.divided.get(&key)) {
            return found.clone();
        }
        let x = &key.0;
        let Interval { least, most } = self.range(x);
        let down = |n: i128| n.div_euclid(by.into());
        // Machine division truncates towards zero, so an `x` that may be negative is first shifted by a
        // multiple of the divisor: x / by = (x + m by) / by - m with x + m by >= 0.
        let bounded = least > -INDEX_LIMIT;
        let moved = if bounded { (-down(least)).max(0) as i64 } else { 0 };
        let value = self.index_value(&x.clone().moved(moved * by));
        let divisor = Arg::Literal(Literal::i64(by));
        let mut quotient = self.code(Code::Div, &[value, divisor]);
        let mut remainder = self.code(Code::Rem, &[value, divisor]);
        if !bounded {
            let zero = Arg::Literal(Literal::i64(0));
            let below = self.code(Code::Lt, &[remainder, zero]);
            let one = self.code(Code::Convert(Dtype::I64), &[below]);
            let above = self.code(Code::Add, &[remainder, divisor]);
            quotient = self.code(Code::Sub, &[quotient, one]);
            remainder = self.code(Code::Select, &[below, above, remainder]);
        }
        let level = self.level(quotient).max(self.level(remainder));
        let range = Interval::new(down(least), down(most)).plus(Interval::number(moved));
        let quotient = self.bounded(quotient, range).moved(-moved);
        let remainder = self.bounded(remainder, Interval::new(0, by - 1));
        self.blocks[level].divided.insert(key, (quotient.clone(), remainder.clone()));
        (quotient, remainder)
    }

    /// Returns an i64 value as an index, whose range `range` the caller knows.
    fn bounded(&mut self, value: Arg, range: Interval) -> Affine {
        match value {
            Arg::Literal(l) => Affine::constant(l.bits as i64),
            Arg::Index(i) => Affine::atom(Term::Index(i)),
            Arg::Scalar(s) => {
                self.scalars[s].range.get_or_insert(range);
                Affine::atom(Term::Scalar(s))
            }
            Arg::Var(_) => {
                // A variable has no range: copy its current value to a scalar.
                let level = self.level(value);
                let zero = Arg::Literal(Literal::i64(0));
                let code = Def::Code(Code::Add, SmallVec::from_slice(&[value, zero]));
                let named = self.let_at(level, Dtype::I64, code);
                self.bounded(named, range)
            }
        }
    }

    /// Emits code that computes the value of an affine index from its terms, and returns the value as an i64 scalar.
    pub(crate) fn index_value(&mut self, a: &Affine) -> Arg {
        let mut sum: Option<Arg> = None;
        for (t, factor) in a.terms() {
            let scaled = self.code(Code::Mul, &[t.arg(), Arg::Literal(Literal::i64(*factor))]);
            sum = Some(match sum {
                None => scaled,
                Some(before) => self.code(Code::Add, &[before, scaled]),
            });
        }
        let offset = Arg::Literal(Literal::i64(a.offset()));
        match sum {
            None => offset,
            Some(sum) => self.code(Code::Add, &[sum, offset]),
        }
    }

    /// Returns the start index along one axis of the dynamic slice or update `id` (its operand number `operand`),
    /// clamped to `0..=room`. `room` is the array's extent minus the extent of the slice.
    pub(crate) fn start(
        &mut self,
        id: NodeId,
        operand: usize,
        room: i64,
    ) -> Result<Affine, Problem> {
        if room <= 0 {
            return Ok(Affine::default());
        }
        if let Some(known) = self.starts.get(&(id, operand)) {
            return Ok(known.clone());
        }
        let source = self.graph.nodes[id].operands[operand];
        let value = self.element(source, &Index::new(), None)?;
        let start = self.clamped(value, room);
        self.starts.insert((id, operand), start.clone());
        Ok(start)
    }

    fn clamped(&mut self, value: Arg, room: i64) -> Affine {
        let Arg::Scalar(known) = value else { return self.clamp(value, room) };
        let key = (known, room);
        if let Some(found) = self.blocks.iter().find_map(|b| b.clamped.get(&key)) {
            return found.clone();
        }
        let level = self.level(value);
        let clamped = self.clamp(value, room);
        self.blocks[level].clamped.insert(key, clamped.clone());
        clamped
    }

    pub(crate) fn clamp(&mut self, value: Arg, room: i64) -> Affine {
        let mut value = value;
        if self.dtype(value) == Dtype::U64 {
            // Half of the u64 values are not representable in i64: clamp to the upper bound first.
            let last = Literal { dtype: Dtype::U64, bits: room as u64 };
            value = self.code(Code::Min, &[value, Arg::Literal(last)]);
        }
        let value = self.as_i64(value);
        let zero = Arg::Literal(Literal::i64(0));
        let value = self.code(Code::Max, &[value, zero]);
        let value = self.code(Code::Min, &[value, Arg::Literal(Literal::i64(room))]);
        self.bounded(value, Interval::new(0, room))
    }

    fn as_i64(&mut self, value: Arg) -> Arg {
        self.code(Code::Convert(Dtype::I64), &[value])
    }

    /// Returns the index of the element of the array that a gather or scatter accesses, and the condition that this
    /// element is inside the array (`None` if it always is). `index` is the index of the gathered or scattered element:
    /// its leading part is the index into the leading axes of `indices`, and the rest runs along the axes of the array
    /// that are not indexed.
    pub(crate) fn addressed(
        &mut self,
        (array, indices): (Source, Source),
        batch: usize,
        axes: &[usize],
        bounds: Bounds,
        index: &Index,
        guard: Option<Arg>,
    ) -> Result<(Index, Option<Arg>), Problem> {
        let graph = self.graph;
        let (lead, rest) = index.split_at(graph.shape(indices).len() - 1);
        let mut at = Index::new();
        let mut inside = None;
        let mut rest = rest.iter();
        for (axis, extent) in graph.shape(array).iter().enumerate() {
            if axis < batch {
                at.push(lead[axis].clone());
                continue;
            }
            let Some(k) = axes.iter().position(|a| *a == axis) else {
                at.push(rest.next().cloned().unwrap_or_default());
                continue;
            };
            let mut which = Index::from(lead);
            which.push(Affine::constant(k as i64));
            let value = self.element(indices, &which, guard)?;
            let last = *extent as i64 - 1;
            match bounds {
                Bounds::Clip => {
                    let last = last - i64::from(planted(Fault::GatherBound));
                    at.push(self.clamped(value, last.max(0)));
                }
                Bounds::Drop => {
                    let value = self.as_i64(value);
                    let mut index = self.bounded(value, Interval::of(Dtype::I64));
                    let conditions = [
                        Condition::AtLeastZero(index.clone()),
                        Condition::Below(index.clone(), *extent as i64),
                    ];
                    // A constant index outside the array may be any i64, so it must not enter an address.
                    let outside =
                        index.value().is_some_and(|at| !(0..*extent as i64).contains(&at));
                    let here = match outside {
                        true => Some(Arg::Literal(Literal::bool(false))),
                        false => self.all(&conditions),
                    };
                    if outside {
                        index = Affine::default();
                    }
                    inside = self.both(inside, here);
                    at.push(index);
                }
            }
        }
        Ok((at, inside))
    }
}
