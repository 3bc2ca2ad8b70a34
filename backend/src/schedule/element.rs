//! One element: code that gives the element of a node at an index.
//!
//! An element of a computed node is a scalar that is already there, or a load. Where a load would be
//! the first to need the node's memory, and the element is one or two cheap operations away from
//! memory that exists anyway, it is computed again instead. An element of a movement node is an
//! element of something else:
//!
//! ```text
//! y = pad{low=[1]} x, 0.0       y[i] = select(i >= 1, x[i - 1] if i >= 1, 0.0)
//! y = rev{axes=[0]} x           y[i] = x[n - 1 - i]
//! ```
//!
//! Conditions are decided here wherever the ranges of the loops decide them. Others become guards:
//! a guarded load reads nothing where its guard is false.

use super::affine::{Affine, Division, Index, Term, flatten};
use super::emit::Emit;
use super::graph::{Kind, NodeId, Source};
use super::tree::{At, Tree, Value};
use crate::kernel::Arg;
use smallvec::SmallVec;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{Bounds, Combine, Piece};
use tapeloom_ir::{Code, Dtype, Literal, Problem};

/// The index into a piece of a view, and the conditions under which it has an element there: always,
/// if there are none.
type Inside = (Index, SmallVec<[Condition; 2]>);

/// A condition that the loops' ranges do not decide.
enum Condition {
    /// `0 <= a`
    AtLeastZero(Affine),
    /// `a < bound`
    Below(Affine, i64),
    /// `a == 0`
    Zero(Affine),
}

/// No index is further from 0, where anything is known of it.
const INDEX_LIMIT: i64 = 1 << 60;

impl Emit<'_> {
    /// The element of `source` at `index`, or zero (or anything, if nothing is loaded) where the
    /// guard is false.
    pub(crate) fn element(
        &mut self,
        source: Source,
        index: &Index,
        guard: Option<Arg>,
    ) -> Result<Arg, Problem> {
        let id = match source {
            Source::Literal(l) => return Ok(Arg::Literal(l)),
            Source::Node(n) => n,
        };
        if let Some(found) = self.recall(id, index, guard) {
            return Ok(found);
        }
        let graph = self.graph;
        let node = &graph.nodes[id];
        let value = match &node.kind {
            Kind::Input(_)
            | Kind::Reduce { .. }
            | Kind::ArgReduce { .. }
            | Kind::Contract { .. }
            | Kind::Update
            | Kind::Scatter { .. }
            | Kind::Copy => self.load(id, At::Axes(index.clone()), guard),
            Kind::Map(code) => {
                let mut budget = Budget { operations: 3, loads: 2 };
                if self.needs[id] || !self.cheap(id, &mut budget) {
                    self.load(id, At::Axes(index.clone()), guard)
                } else {
                    let mut args: SmallVec<[Arg; 3]> = SmallVec::new();
                    for s in &node.operands {
                        args.push(self.element(*s, index, guard)?);
                    }
                    self.code(*code, &args)
                }
            }
            Kind::Empty => {
                return Err(Problem::internal("an element of an array that has none"));
            }
            Kind::View { pieces, fill } => self.view(id, pieces, *fill, index, guard)?,
            Kind::Reshape => return self.reshaped(id, index, guard),
            Kind::Iota { axis } => {
                let value = self.index_value(&index[*axis]);
                self.code(Code::Convert(node.ty.dtype), &[value])
            }
            Kind::Slice => {
                let from = self.shape(node.operands[0]);
                let mut at = Index::new();
                for (axis, i) in index.iter().enumerate() {
                    let room = from[axis] as i64 - node.ty.shape[axis] as i64;
                    let start = self.start(id, 1 + axis, room)?;
                    at.push(i.add(&start));
                }
                return self.element(node.operands[0], &at, guard);
            }
            Kind::Gather { batch, axes, bounds } => {
                let rank = self.shape(node.operands[1]).len();
                let lead: Index = index[..rank - 1].iter().cloned().collect();
                let rest: Index = index[rank - 1..].iter().cloned().collect();
                let (at, inside) = self.addressed(
                    node.operands[0],
                    node.operands[1],
                    *batch,
                    axes,
                    *bounds,
                    &lead,
                    &rest,
                    guard,
                )?;
                match inside {
                    None => self.element(node.operands[0], &at, guard)?,
                    Some(inside) => {
                        let guard = self.both(guard, Some(inside));
                        let value = self.element(node.operands[0], &at, guard)?;
                        let zero = Arg::Literal(Literal::zero(node.ty.dtype));
                        self.code(Code::Select, &[inside, value, zero])
                    }
                }
            }
        };
        self.remember(id, index, guard, value);
        Ok(value)
    }

    fn shape(&self, source: Source) -> SmallVec<[usize; 4]> {
        source
            .node()
            .map_or(SmallVec::new(), |n| SmallVec::from_slice(&self.graph.nodes[n].ty.shape))
    }

    /// Loads an element, in the outermost block where its index is there.
    fn load(&mut self, node: NodeId, at: At, guard: Option<Arg>) -> Arg {
        self.needs[node] = true;
        let affine_level = |a: &Affine| {
            let level = |t: &Term| match t {
                Term::Index(i) => self.level(Arg::Index(*i)),
                Term::Scalar(s) => self.level(Arg::Scalar(*s)),
            };
            a.terms.iter().map(|(t, _)| level(t)).max().unwrap_or(0)
        };
        let level = match &at {
            At::Axes(index) => index.iter().map(affine_level).max().unwrap_or(0),
            At::Flat(a) => affine_level(a),
        };
        let level = level.max(guard.map_or(0, |g| self.level(g)));
        let dtype = self.graph.nodes[node].ty.dtype;
        self.let_at(level, dtype, Value::Load { node, at, guard })
    }

    // --- recomputation ---

    /// Whether a node is a few cheap operations away from memory that exists anyway.
    fn cheap(&self, id: NodeId, budget: &mut Budget) -> bool {
        let node = &self.graph.nodes[id];
        let mut operands =
            node.operands.iter().filter_map(|s| s.node()).collect::<SmallVec<[NodeId; 3]>>();
        match &node.kind {
            _ if self.overwritten[id] => return false,
            Kind::Input(_) => return budget.load(),
            _ if self.needs[id] => return budget.load(),
            Kind::Map(code) if code.row().flops <= CHEAP && budget.operation() => {}
            Kind::Iota { .. } => return true,
            Kind::View { pieces, .. } if pieces.len() == 1 => {}
            Kind::Reshape => {
                let from = self.shape(node.operands[0]);
                if super::member::equal_axes(&from, &node.ty.shape)
                    .iter()
                    .zip(&from)
                    .any(|(same, extent)| same.is_none() && *extent != 1)
                {
                    return false;
                }
            }
            Kind::Map(_)
            | Kind::Empty
            | Kind::Reduce { .. }
            | Kind::ArgReduce { .. }
            | Kind::Contract { .. }
            | Kind::Update
            | Kind::Scatter { .. }
            | Kind::Copy
            | Kind::View { .. }
            | Kind::Slice
            | Kind::Gather { .. } => return false,
        }
        operands.dedup();
        operands.iter().all(|n| self.cheap(*n, budget))
    }

    // --- views ---

    /// The element of one piece of the view `source`, at an output index that is inside it.
    pub(crate) fn piece(
        &mut self,
        source: Source,
        piece: usize,
        index: &Index,
    ) -> Result<Arg, Problem> {
        let graph = self.graph;
        let Some(Kind::View { pieces, .. }) = source.node().map(|n| &graph.nodes[n].kind) else {
            return Err(Problem::internal("a piece of something that is not a view"));
        };
        let Some(view) = source.node() else {
            return Err(Problem::internal("a piece of a literal"));
        };
        let p = &pieces[piece];
        let operand = graph.nodes[view].operands[p.operand];
        match self.piece_index(p, &self.shape(operand), index) {
            Some((at, conditions)) => {
                let inside = self.all(&conditions);
                self.element(operand, &at, inside)
            }
            None => Err(Problem::internal("a piece of a view is read outside its box")),
        }
    }

    fn view(
        &mut self,
        id: NodeId,
        pieces: &[Piece],
        fill: Option<usize>,
        index: &Index,
        guard: Option<Arg>,
    ) -> Result<Arg, Problem> {
        let graph = self.graph;
        let node = &graph.nodes[id];
        let mut found: SmallVec<[(Arg, Arg); 2]> = SmallVec::new();
        let mut rest = None;
        for p in pieces {
            let operand = node.operands[p.operand];
            let Some((at, conditions)) = self.piece_index(p, &self.shape(operand), index) else {
                continue;
            };
            let inside = self.all(&conditions);
            let guard = self.both(guard, inside);
            let value = self.element(operand, &at, guard)?;
            match inside {
                Some(inside) => found.push((inside, value)),
                None => {
                    rest = Some(value);
                    break;
                }
            }
        }
        let rest = match (rest, fill) {
            (Some(value), _) => value,
            (None, Some(f)) => self.element(node.operands[f], &Index::new(), None)?,
            // The pieces fill everything, so the last one has what the others have not.
            (None, None) => match found.pop() {
                Some((_, value)) => value,
                // Nor has the last one: then the guard is never true.
                None => Arg::Literal(Literal::zero(node.ty.dtype)),
            },
        };
        let mut value = rest;
        for (inside, piece) in found.into_iter().rev() {
            value = self.code(Code::Select, &[inside, piece, value]);
        }
        Ok(value)
    }

    /// Where in a piece an output index is; `None` if it is certainly not in this piece.
    fn piece_index(&mut self, piece: &Piece, operand: &[usize], index: &Index) -> Option<Inside> {
        let mut at = Index::new();
        let mut conditions = SmallVec::new();
        for (map, extent) in piece.axes.iter().zip(operand) {
            let o = map.axis.map_or(Affine::default(), |a| index[a].clone());
            let mut i = o.scale(map.scale, map.offset);
            if map.divisor != 1 {
                let (quotient, remainder) = self.divided(&i, map.divisor);
                if remainder.is_constant() && remainder.offset != 0 {
                    return None;
                }
                if !remainder.is_constant() {
                    conditions.push(Condition::Zero(remainder));
                }
                i = quotient;
            }
            let (lo, hi) = self.range(&i);
            let extent = *extent as i64;
            if hi < 0 || lo >= extent {
                return None;
            }
            if lo < 0 {
                conditions.push(Condition::AtLeastZero(i.clone()));
            }
            if hi >= extent {
                conditions.push(Condition::Below(i.clone(), extent));
            }
            at.push(i);
        }
        Some((at, conditions))
    }

    /// The conjunction of conditions; `None` if there are none.
    fn all(&mut self, conditions: &[Condition]) -> Option<Arg> {
        let mut all = None;
        for c in conditions {
            let (code, a, bound) = match c {
                Condition::AtLeastZero(a) => (Code::Ge, a, 0),
                Condition::Below(a, bound) => (Code::Lt, a, *bound),
                Condition::Zero(a) => (Code::Eq, a, 0),
            };
            // `i - 1 >= 0` is `i >= 1`.
            let moved = a.scale(1, -a.offset);
            let value = self.index_value(&moved);
            let bound = Arg::Literal(Literal::i64(bound - a.offset));
            let one = self.code(code, &[value, bound]);
            all = self.both(all, Some(one));
        }
        all
    }

    /// The conjunction of two guards.
    pub(crate) fn both(&mut self, a: Option<Arg>, b: Option<Arg>) -> Option<Arg> {
        match (a, b) {
            (Some(a), Some(b)) if a == b => Some(a),
            (Some(a), Some(b)) => Some(self.code(Code::And, &[a, b])),
            (one, None) | (None, one) => one,
        }
    }

    /// A reshape keeps the row-major position. Where that is no index of the operand, the operand is
    /// read by position, and if it is itself no array in memory, the position is divided when the
    /// program runs.
    fn reshaped(&mut self, id: NodeId, index: &Index, guard: Option<Arg>) -> Result<Arg, Problem> {
        let graph = self.graph;
        let node = &graph.nodes[id];
        let operand = node.operands[0];
        let from = self.shape(operand);
        let flat = flatten(index, &node.ty.shape);
        let strides = tapeloom_ir::Shape::from(&*from).strides();
        let mut left = Some(flat.clone());
        let mut at = Index::new();
        for stride in &strides {
            let division = left.map(|a| a.divide(*stride as i64, &|t| self.range_of(t)));
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

    // --- indices at run time ---

    /// An index divided by a positive number, rounded down, and what is left of it.
    fn divided(&mut self, a: &Affine, by: i64) -> (Affine, Affine) {
        let Division { quotient, remainder, inner } = a.divide(by, &|t| self.range_of(t));
        let Some((x, c)) = inner else { return (quotient, remainder) };
        let (q, r) = self.divided_at_run_time(x, c);
        (quotient.add(&q), remainder.add(&r.scale(by / c, 0)))
    }

    /// The same where the ranges decide nothing: once for each index, in the outermost block where
    /// it is there.
    fn divided_at_run_time(&mut self, x: Affine, by: i64) -> (Affine, Affine) {
        let key = (x, by);
        if let Some(found) = self.blocks.iter().find_map(|b| b.divided.get(&key)) {
            return found.clone();
        }
        let x = &key.0;
        let (lo, hi) = self.range(x);
        // (x + m by) / by - m = x / by: what may be negative is moved, since machines round to zero.
        let moved = if lo > -INDEX_LIMIT { (-lo.div_euclid(by)).max(0) } else { 0 };
        let value = self.index_value(&x.scale(1, moved * by));
        let divisor = Arg::Literal(Literal::i64(by));
        let mut quotient = self.code(Code::Div, &[value, divisor]);
        let mut remainder = self.code(Code::Rem, &[value, divisor]);
        if lo <= -INDEX_LIMIT {
            let zero = Arg::Literal(Literal::i64(0));
            let below = self.code(Code::Lt, &[remainder, zero]);
            let one = self.code(Code::Convert(Dtype::I64), &[below]);
            let above = self.code(Code::Add, &[remainder, divisor]);
            quotient = self.code(Code::Sub, &[quotient, one]);
            remainder = self.code(Code::Select, &[below, above, remainder]);
        }
        let level = self.level(quotient).max(self.level(remainder));
        let range = (lo.div_euclid(by) + moved, hi.div_euclid(by).saturating_add(moved));
        let quotient = self.bounded(quotient, range).scale(1, -moved);
        let remainder = self.bounded(remainder, (0, by - 1));
        self.blocks[level].divided.insert(key, (quotient.clone(), remainder.clone()));
        (quotient, remainder)
    }

    /// An i64 scalar as an index, with what is known about it.
    fn bounded(&mut self, value: Arg, range: (i64, i64)) -> Affine {
        match value {
            Arg::Literal(l) => Affine::constant(l.bits as i64),
            Arg::Index(i) => Affine::term(Term::Index(i)),
            Arg::Scalar(s) => {
                self.scalars[s].range.get_or_insert(range);
                Affine::term(Term::Scalar(s))
            }
            Arg::Var(_) => {
                // A variable has no range: give its present value a name.
                let level = self.level(value);
                let zero = Arg::Literal(Literal::i64(0));
                let code = Value::Code(Code::Add, SmallVec::from_slice(&[value, zero]));
                let named = self.let_at(level, Dtype::I64, code);
                self.bounded(named, range)
            }
        }
    }

    /// An index as an i64.
    pub(crate) fn index_value(&mut self, a: &Affine) -> Arg {
        let mut sum: Option<Arg> = None;
        for (t, factor) in &a.terms {
            let term = match t {
                Term::Index(i) => Arg::Index(*i),
                Term::Scalar(s) => Arg::Scalar(*s),
            };
            let scaled = self.code(Code::Mul, &[term, Arg::Literal(Literal::i64(*factor))]);
            sum = Some(match sum {
                None => scaled,
                Some(before) => self.code(Code::Add, &[before, scaled]),
            });
        }
        let offset = Arg::Literal(Literal::i64(a.offset));
        match sum {
            None => offset,
            Some(sum) => self.code(Code::Add, &[sum, offset]),
        }
    }

    /// The start of a dynamic slice or update along an axis, clamped to `0..=room`.
    fn start(&mut self, id: NodeId, operand: usize, room: i64) -> Result<Affine, Problem> {
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

    fn clamp(&mut self, value: Arg, room: i64) -> Affine {
        let mut value = value;
        if self.dtype(value) == Dtype::U64 {
            // Half of these are no i64: the upper bound comes first.
            let last = Literal { dtype: Dtype::U64, bits: room as u64 };
            value = self.code(Code::Min, &[value, Arg::Literal(last)]);
        }
        let value = self.as_i64(value);
        let zero = Arg::Literal(Literal::i64(0));
        let value = self.code(Code::Max, &[value, zero]);
        let value = self.code(Code::Min, &[value, Arg::Literal(Literal::i64(room))]);
        self.bounded(value, (0, room))
    }

    fn as_i64(&mut self, value: Arg) -> Arg {
        self.code(Code::Convert(Dtype::I64), &[value])
    }

    /// The index into an array that a gather or scatter addresses: `lead` indexes the leading axes
    /// of the indices, `rest` the axes that are taken whole. The condition says whether it is inside
    /// the array, if that has to be asked.
    #[allow(clippy::too_many_arguments, reason = "the attributes of a gather")]
    fn addressed(
        &mut self,
        array: Source,
        indices: Source,
        batch: usize,
        axes: &[usize],
        bounds: Bounds,
        lead: &Index,
        rest: &Index,
        guard: Option<Arg>,
    ) -> Result<(Index, Option<Arg>), Problem> {
        let extents = self.shape(array);
        let mut at = Index::new();
        let mut inside = None;
        let mut rest = rest.iter();
        for (axis, extent) in extents.iter().enumerate() {
            if axis < batch {
                at.push(lead[axis].clone());
                continue;
            }
            let Some(k) = axes.iter().position(|a| *a == axis) else {
                at.push(rest.next().cloned().unwrap_or_default());
                continue;
            };
            let mut which = lead.clone();
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
                    let mut index = self.bounded(value, (i64::MIN, i64::MAX));
                    let conditions = [
                        Condition::AtLeastZero(index.clone()),
                        Condition::Below(index.clone(), *extent as i64),
                    ];
                    // A known index outside is no place to count strides from: it may be any i64.
                    let outside =
                        index.is_constant() && !(0..*extent as i64).contains(&index.offset);
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

    /// The loop of an update over its new elements.
    pub(crate) fn updates(&mut self, id: NodeId) -> Result<(), Problem> {
        let graph = self.graph;
        let node = &graph.nodes[id];
        match &node.kind {
            Kind::Update => {
                let new = node.operands[1];
                let shape = self.shape(new);
                let mut starts = Index::new();
                for (axis, extent) in node.ty.shape.iter().enumerate() {
                    let room = *extent as i64 - shape.get(axis).map_or(1, |n| *n as i64);
                    starts.push(self.start(id, 2 + axis, room)?);
                }
                self.nest(&shape, |emit, index| {
                    let value = emit.element(new, index, None)?;
                    let at = index.iter().zip(&starts).map(|(i, s)| i.add(s)).collect();
                    emit.push(Tree::Store { node: id, at: At::Axes(at), value, guard: None });
                    Ok(())
                })
            }
            Kind::Scatter { combine, batch, axes, bounds } => {
                let (indices, new) = (node.operands[1], node.operands[2]);
                let shape = self.shape(new);
                let rank = self.shape(indices).len();
                self.nest(&shape, |emit, index| {
                    let lead: Index = index[..rank - 1].iter().cloned().collect();
                    let rest: Index = index[rank - 1..].iter().cloned().collect();
                    let (at, guard) = emit.addressed(
                        Source::Node(id),
                        indices,
                        *batch,
                        axes,
                        *bounds,
                        &lead,
                        &rest,
                        None,
                    )?;
                    let value = emit.element(new, index, None)?;
                    let at = At::Axes(at);
                    let value = match combine {
                        Combine::Set => value,
                        Combine::Add => emit.combined(id, Code::Add, &at, value, guard),
                        Combine::Mul => emit.combined(id, Code::Mul, &at, value, guard),
                        Combine::Max => emit.combined(id, Code::Max, &at, value, guard),
                        Combine::Min => emit.combined(id, Code::Min, &at, value, guard),
                    };
                    emit.push(Tree::Store { node: id, at, value, guard });
                    Ok(())
                })
            }
            Kind::Input(_)
            | Kind::Empty
            | Kind::Map(_)
            | Kind::Reduce { .. }
            | Kind::ArgReduce { .. }
            | Kind::Contract { .. }
            | Kind::Copy
            | Kind::View { .. }
            | Kind::Reshape
            | Kind::Iota { .. }
            | Kind::Slice
            | Kind::Gather { .. } => Err(Problem::internal("an update that updates nothing")),
        }
    }

    /// What is in memory now, combined with a new value. The load stays in the innermost loop: the
    /// same element may be hit again.
    fn combined(
        &mut self,
        node: NodeId,
        code: Code,
        at: &At,
        value: Arg,
        guard: Option<Arg>,
    ) -> Arg {
        let level = self.blocks.len() - 1;
        let dtype = self.graph.nodes[node].ty.dtype;
        let before = self.let_at(level, dtype, Value::Load { node, at: at.clone(), guard });
        self.code(code, &[before, value])
    }
}

/// What recomputation may cost.
struct Budget {
    operations: u32,
    loads: u32,
}

impl Budget {
    fn operation(&mut self) -> bool {
        let left = self.operations > 0;
        self.operations = self.operations.saturating_sub(1);
        left
    }

    fn load(&mut self) -> bool {
        let left = self.loads > 0;
        self.loads = self.loads.saturating_sub(1);
        left
    }
}

/// What an operation may cost to count as little as a load, in additions.
const CHEAP: u32 = 2;
