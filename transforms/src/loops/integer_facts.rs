//! Facts about the integers of a function: intervals, and indices as affine forms.
//!
//! ```text
//! func @iteration(%0: i64[], %1: i64[], ..)     %0 in 0..=4, the iteration number; %1 in 0..=2
//!   %3: i64[] = mul %1, 5                   in 0..=10
//!   %4: i64[] = add %3, %0                  in 0..=14, the affine form 5 %1 + %0
//! ```
//!
//! One forward walk over the equations computes the facts, from the caller's facts about the parameters ([`Fact`]).
//! [`ValueFacts::facts`] returns the facts about the parameters of a function that an equation runs.

use cranelift_entity::SecondaryMap;
use smallvec::{SmallVec, smallvec};
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::prim::{Binding, Bounds, Combine, LoopSpec, Lowering, Piece, Region, TripCount};
use tapeloom_ir::{Atom, Code, Dtype, Equation, Function, Literal, Module, Type, ValueId, deeper};

/// The facts about a parameter, or another value, of a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Fact {
    /// An interval that contains all elements of the value, if they are integers or truth values; `None` means the
    /// dtype's whole range.
    pub(super) range: Option<Interval>,
    /// Whether the value is loop state: whether it changes from iteration to iteration of some enclosing loop.
    pub(super) carried: bool,
}

/// One element of a value (its id, and the element's index), as an unknown in affine forms.
pub(super) type Symbol = (ValueId, u32);

/// The elements of a scalar or of a vector of at most `PARTS` elements, each as an affine form.
type Parts = SmallVec<[Affine<Symbol>; 1]>;

/// The largest number of terms of an affine form; a value with a longer form becomes a symbol of its own.
const TERMS: usize = 8;

/// The largest number of elements of a vector whose elements are tracked as affine forms.
const PARTS: usize = 8;

/// The facts about all values of a function.
pub(super) struct ValueFacts<'a> {
    f: &'a Function,
    facts: SecondaryMap<ValueId, Fact>,
    parts: SecondaryMap<ValueId, Option<Parts>>,
    definitions: SecondaryMap<ValueId, Option<(Code, &'a Equation)>>,
}

impl<'a> ValueFacts<'a> {
    pub(super) fn of(module: &Module, f: &'a Function, given: &[Fact]) -> ValueFacts<'a> {
        let n = f.types.len();
        let mut known = ValueFacts {
            f,
            facts: SecondaryMap::with_capacity(n),
            parts: SecondaryMap::with_capacity(n),
            definitions: SecondaryMap::with_capacity(n),
        };
        for (i, p) in f.all_params().enumerate() {
            known.facts[p] = given.get(i).copied().unwrap_or_default();
        }
        for e in &f.equations {
            let lowering = e.lower(module, f);
            if let (Lowering::Elementwise(code), [y]) = (&lowering, e.outputs.as_slice()) {
                known.definitions[*y] = Some((*code, e));
            }
            // The output of a write to loop state is loop state, and so are the outputs of a loop or branch that
            // gets loop state.
            let hands_on = match lowering {
                Lowering::DynamicUpdateSlice | Lowering::Scatter { .. } => 1,
                Lowering::Loop { .. } | Lowering::Branch { .. } => e.operands.len(),
                _ => 0,
            };
            let state = e.operands[..hands_on].iter().any(|a| known.fact(*a).carried);
            let run = known.run(module, e, &lowering);
            for (n, o) in e.outputs.iter().enumerate() {
                let range = known.computed(e, &lowering, *o).or_else(|| *run.get(n)?);
                known.facts[*o] = Fact { range, carried: state };
            }
            if let [y] = e.outputs.as_slice() {
                known.parts[*y] = known.sums(e, &lowering, *y);
            }
        }
        known
    }

    fn fact(&self, a: Atom) -> Fact {
        a.value().map_or(Fact::default(), |v| self.facts[v])
    }

    /// Returns an interval that contains all elements of the atom `a`, an array of integers or truth values.
    pub(super) fn range(&self, a: Atom) -> Interval {
        match a {
            Atom::Literal(x) => Interval::literal(x),
            Atom::Value(v) => self.facts[v].range.unwrap_or_else(|| self.all(v)),
        }
    }

    /// Returns the interval of all numbers of the dtype of value `v`.
    fn all(&self, v: ValueId) -> Interval {
        Interval::of(self.f.types[v].as_array().map_or(Dtype::F64, |ty| ty.dtype))
    }

    /// Returns an interval that contains the value of the affine form `sum`, provided that its integer arithmetic
    /// does not wrap.
    pub(super) fn range_of(&self, sum: &Affine<Symbol>) -> Interval {
        sum.interval(|(v, _)| self.range(v.into()))
    }

    /// Returns the elements of `a` as affine forms, if `a` is an `i64` scalar or a vector of at most `PARTS`
    /// elements.
    pub(super) fn parts(&self, a: Atom) -> Option<Parts> {
        let v = match a {
            Atom::Literal(x) if x.dtype == Dtype::I64 => {
                return Some(smallvec![Affine::constant(x.bits as i64)]);
            }
            Atom::Literal(_) => return None,
            Atom::Value(v) => v,
        };
        if let Some(parts) = &self.parts[v] {
            return Some(parts.clone());
        }
        let n = self.width(v)?;
        Some((0..n).map(|j| Affine::atom((v, j as u32))).collect())
    }

    /// Returns the number of elements of `v` if it is an `i64` scalar or a vector of at most `PARTS` elements,
    /// else `None`.
    fn width(&self, v: ValueId) -> Option<usize> {
        let ty = self.f.types[v].as_array()?;
        let n = ty.shape.elements();
        (ty.dtype == Dtype::I64 && ty.shape.len() <= 1 && n <= PARTS).then_some(n)
    }

    /// Returns the elements of output `y` of `e` as affine forms in the elements of the operands; `None` if they
    /// are not affine.
    fn sums(&self, e: &Equation, lowering: &Lowering, y: ValueId) -> Option<Parts> {
        let n = self.width(y)?;
        let all = |a: &Atom| {
            let parts = self.parts(*a)?;
            let spread = parts.len() == 1 && a.literal().is_some();
            (parts.len() == n || spread).then_some((parts, spread))
        };
        let part = |(parts, spread): &(Parts, bool), j: usize| match spread {
            true => parts[0].clone(),
            false => parts[j].clone(),
        };
        let each = |sum: &dyn Fn(usize) -> Option<Affine<Symbol>>| {
            (0..n).map(sum).collect::<Option<Parts>>()
        };
        let found = match (lowering, e.operands.as_slice()) {
            (Lowering::Elementwise(code @ (Code::Add | Code::Sub)), [x, y]) => {
                let (x, y) = (all(x)?, all(y)?);
                let factor = if matches!(code, Code::Add) { 1 } else { -1 };
                each(&|j| Some(part(&x, j).plus(&part(&y, j), factor)))
            }
            (Lowering::Elementwise(Code::Neg), [x]) => {
                let x = all(x)?;
                each(&|j| Some(part(&x, j).times(-1)))
            }
            (Lowering::Elementwise(Code::Mul), [x, y]) => {
                let (x, y) = (all(x)?, all(y)?);
                each(&|j| {
                    let (x, y) = (part(&x, j), part(&y, j));
                    match (x.value(), y.value()) {
                        (_, Some(by)) => Some(x.times(by)),
                        (Some(by), None) => Some(y.times(by)),
                        (None, None) => None,
                    }
                })
            }
            (Lowering::Elementwise(Code::Select), [which, x, y]) => {
                let arm = match self.range(*which).only()? {
                    0 => y,
                    _ => x,
                };
                let arm = all(arm)?;
                each(&|j| Some(part(&arm, j)))
            }
            (Lowering::Reshape | Lowering::Alias { .. }, [x]) => self.parts(*x),
            (Lowering::View { pieces, fill }, operands) => {
                each(&|j| self.viewed(pieces, *fill, operands, j))
            }
            _ => None,
        };
        found.filter(|parts| parts.iter().all(|sum| sum.terms().len() <= TERMS))
    }

    /// Returns element `j` of a view of vectors, as an affine form.
    fn viewed(
        &self,
        pieces: &[Piece],
        fill: Option<usize>,
        x: &[Atom],
        j: usize,
    ) -> Option<Affine<Symbol>> {
        for piece in pieces {
            let parts = self.parts(x[piece.operand])?;
            let at = match piece.axes.as_slice() {
                [] => Some(0),
                [along] => along.apply(&[j], parts.len()),
                _ => return None,
            };
            if let Some(at) = at {
                return parts.get(at).cloned();
            }
        }
        self.parts(x[fill?])?.first().cloned()
    }

    /// Returns an interval that contains the elements of output `y` of `e`; `None` means the dtype's range.
    fn computed(&self, e: &Equation, lowering: &Lowering, y: ValueId) -> Option<Interval> {
        let ty = self.f.types[y].as_array().filter(|ty| !ty.dtype.is_float())?;
        let range = |i: usize| e.operands.get(i).map(|a| self.range(*a));
        let up_to = |n: usize| Some(Interval::below(n));
        let extent = |axis: usize| {
            let x = self.f.type_of(e.operands[0]);
            x.as_array().and_then(|x| up_to(x.shape[axis]))
        };
        match lowering {
            Lowering::Elementwise(Code::Select) => Some(self.selected(e)),
            Lowering::Elementwise(code) => {
                let x: SmallVec<[Interval; 3]> =
                    e.operands.iter().map(|a| self.range(*a)).collect();
                Some(Interval::computed(*code, &x, ty.dtype))
            }
            Lowering::View { pieces, fill } => {
                let read = pieces.iter().map(|p| p.operand).chain(*fill);
                read.filter_map(range).reduce(Interval::join)
            }
            Lowering::Reshape | Lowering::Alias { .. } | Lowering::DynamicSlice => range(0),
            Lowering::Gather { bounds: Bounds::Clip, .. } => range(0),
            Lowering::Gather { bounds: Bounds::Drop, .. } => {
                range(0).map(|x| x.join(Interval::number(0)))
            }
            Lowering::DynamicUpdateSlice => Some(range(0)?.join(range(1)?)),
            Lowering::Scatter { combine: Combine::Set, .. } => Some(range(0)?.join(range(2)?)),
            Lowering::Iota { axis } => up_to(ty.shape[*axis]),
            Lowering::ArgReduce { axis, .. } | Lowering::ArgSort { axis, .. } => extent(*axis),
            Lowering::Reduce { .. }
            | Lowering::Cumulate { .. }
            | Lowering::Contract { .. }
            | Lowering::Scatter { .. }
            | Lowering::Host(_)
            | Lowering::Routine(_)
            | Lowering::Call(_)
            | Lowering::Branch { .. }
            | Lowering::Loop { .. }
            | Lowering::Missing(_) => None,
        }
    }

    /// Returns, per output of a loop or branch, an interval that contains its elements; `None` for an output that does
    /// not have integers, and for a carry of a loop.
    fn run(&self, module: &Module, e: &Equation, lowering: &Lowering) -> Vec<Option<Interval>> {
        let (bodies, spec) = match lowering {
            Lowering::Loop { body, spec } => (vec![*body], Some(spec)),
            Lowering::Branch { branches } => (branches.clone(), None),
            _ => return Vec::new(),
        };
        let asked = |n: usize| {
            let ty = self.f.types[e.outputs[n]].as_array();
            ty.is_some_and(|ty| ty.dtype.is_integer())
                && spec.is_none_or(|spec| spec.carrier(n).is_none())
        };
        let asked: Vec<bool> = (0..e.outputs.len()).map(asked).collect();
        let mut all = vec![None; asked.len()];
        if !asked.contains(&true) {
            return all;
        }
        let regions = e.op.regions();
        for region in bodies.iter().filter_map(|f| regions.iter().find(|r| r.function == *f)) {
            let body = module.function(region.function);
            let facts = self.facts(module, e, region);
            let known = deeper(|| ValueFacts::of(module, body, &facts));
            for (n, result) in body.results.iter().enumerate().filter(|(n, _)| asked[*n]) {
                let range = known.range(*result);
                all[n] = Some(all[n].map_or(range, |others: Interval| others.join(range)));
            }
        }
        all
    }

    /// Returns an interval that contains the output of a `select`. The interval of each of its two values is
    /// narrowed by the condition under which that value is selected.
    fn selected(&self, e: &Equation) -> Interval {
        let side = |i: usize, holds: bool| self.range_where(e.operands[i], e.operands[0], holds);
        match self.range(e.operands[0]).only() {
            Some(0) => side(2, false),
            Some(_) => side(1, true),
            None => side(1, true).join(side(2, false)),
        }
    }

    /// Returns an interval that contains `a` wherever `condition` is true (if `holds`) or false (if not).
    fn range_where(&self, a: Atom, condition: Atom, holds: bool) -> Interval {
        let own = self.range(a);
        let definition = |a: Atom| a.value().and_then(|v| self.definitions[v]);
        let Some((code, Equation { operands, .. })) = definition(condition) else { return own };
        let [x, y] = operands.as_slice() else { return own };
        let narrowed = |a: Atom| match a {
            _ if a == *x => Some(self.range(a).where_holds(code, self.range(*y), holds)),
            _ if a == *y => {
                let turned = match code {
                    Code::Lt => Code::Gt,
                    Code::Le => Code::Ge,
                    Code::Gt => Code::Lt,
                    Code::Ge => Code::Le,
                    other => other,
                };
                Some(self.range(a).where_holds(turned, self.range(*x), holds))
            }
            _ => None,
        };
        if let Some(found) = narrowed(a) {
            return found;
        }
        match (definition(a), a.value().and_then(|v| self.f.types[v].as_array())) {
            (Some((code @ (Code::Add | Code::Sub), e)), Some(ty)) => {
                let x = e.operands.iter().map(|a| narrowed(*a).unwrap_or(self.range(*a)));
                let x: SmallVec<[Interval; 2]> = x.collect();
                own.meet(Interval::computed(code, &x, ty.dtype))
            }
            _ => own,
        }
    }

    /// Returns the facts about the parameters of the function `region`, which equation `e` runs; empty if none are
    /// known.
    pub(super) fn facts(&self, module: &Module, e: &Equation, region: &Region) -> Vec<Fact> {
        let given = |a: &Atom| {
            let fact = self.fact(*a);
            Fact { range: fact.range.or(a.literal().map(Interval::literal)), ..fact }
        };
        if let Some((body, spec)) = e.op.as_loop() {
            let all = self.in_iterations(e, &spec);
            return match &spec.trip {
                _ if region.function == body => all,
                TripCount::While { condition, reads } if region.function == *condition => {
                    reads.iter().map(|p| all[*p]).collect()
                }
                TripCount::Static(_) | TripCount::Runtime | TripCount::While { .. } => Vec::new(),
            };
        }
        match e.op.lower(module, &[]) {
            Lowering::Branch { branches } => {
                let which = branches.iter().position(|f| *f == region.function);
                let alone = branches.iter().filter(|f| **f == region.function).count() == 1;
                let holds = which.filter(|_| alone && branches.len() == 2).map(|i| i == 1);
                let narrowed = |a: &Atom| {
                    let fact = given(a);
                    match (holds, fact.range.is_some() || self.is_integer(*a)) {
                        (Some(holds), true) => {
                            let range = self.range_where(*a, e.operands[0], holds);
                            Fact { range: Some(range), ..fact }
                        }
                        _ => fact,
                    }
                };
                e.operands[1..].iter().map(narrowed).collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn is_scalar(&self, v: ValueId) -> bool {
        self.f.types[v].as_array().is_some_and(|ty| ty.shape.is_empty())
    }

    pub(super) fn lowering(&self, module: &Module, e: &Equation) -> Lowering {
        e.lower(module, self.f)
    }

    fn is_integer(&self, a: Atom) -> bool {
        matches!(self.f.type_of(a), Type::Array(ty) if ty.dtype.is_integer())
    }

    /// Returns the facts about the parameters of a loop's body, valid in every iteration.
    fn in_iterations(&self, e: &Equation, spec: &LoopSpec) -> Vec<Fact> {
        let most = match spec.trip {
            TripCount::Static(n) => n as i128,
            TripCount::Runtime => self.range(e.operands[0]).most,
            TripCount::While { .. } => i64::MAX.into(),
        };
        let mut operands = e.operands[spec.lead()..].iter();
        let fact = |slot: &Binding| match slot {
            Binding::Index => {
                Fact { range: Some(Interval::new(0, (most - 1).max(0))), carried: false }
            }
            Binding::Const => {
                let Some(a) = operands.next() else { return Fact::default() };
                let fact = self.fact(*a);
                Fact { range: fact.range.or(a.literal().map(Interval::literal)), ..fact }
            }
            Binding::Carry(_) => {
                operands.next();
                Fact { range: None, carried: true }
            }
            Binding::Xs => {
                let range = operands.next().and_then(|a| self.fact(*a).range);
                Fact { range, carried: false }
            }
        };
        spec.takes.iter().map(fact).collect()
    }

    /// Returns the value of `v`, a scalar integer or truth value, if only one value is possible.
    pub(super) fn only(&self, v: ValueId) -> Option<Literal> {
        let ty = self.f.types[v].as_array().filter(|ty| ty.shape.is_empty())?;
        let x = self.facts[v].range?.only()?;
        match ty.dtype {
            Dtype::Bool => Some(Literal::bool(x != 0)),
            dtype => Literal::exact_integer(dtype, x).filter(|_| !dtype.is_float()),
        }
    }
}

/// Returns, per value of `f` with an integer dtype, an interval that contains all its elements.
pub(crate) fn integers(module: &Module, f: &Function) -> SecondaryMap<ValueId, Option<Interval>> {
    let known = ValueFacts::of(module, f, &[]);
    let mut ranges = SecondaryMap::with_capacity(f.types.len());
    for (v, ty) in &f.types {
        if let Type::Array(ty) = ty
            && ty.dtype.is_integer()
        {
            ranges[v] = Some(known.range(v.into()));
        }
    }
    ranges
}
