//! `rolling_buffer`: a loop that computes each row of an array from earlier rows carries rows in place of the
//! array.
//!
//! ```text
//! %1: f64[9,4] = loop{body=@f, trip=8, takes=[index,carry0]} %0    @f(i, x) = x with x[i + 1] = sin x[i]
//! ```
//! becomes
//! ```text
//! %1: f64[4] = slice of %0, row 0
//! %2: f64[4], %3: f64[8,4] = loop{body=@f, trip=8, takes=[index,carry0]} %1       @f(i, x) = sin x, x
//! %4: f64[9,4] = dynamic_update_slice %0, %3, 0, 0
//! %5: f64[9,4] = dynamic_update_slice %4, %2, 8, 0
//! ```
//!
//! Loops that store a time series in one array have this form. Each row is written in one iteration, so for every read
//! it is known when the row was written: a fixed number of iterations earlier, or before the loop. After the pass,
//! reverse mode and its budgets see a loop whose state is a row, and not all rows.
//!
//! Both loops have the same derivative, bit for bit, since both sum the cotangents of a row in the same order. The
//! first term of the sum is the cotangent from after the loop. To keep it first, an iteration of the new loop returns
//! the oldest row that it reads, not the row that it computes, and the last rows are the final carries. The other terms
//! are the cotangents from the row's readers, one for each equation, in the order in which transposition visits reads
//! at dynamic indices.

use super::access::{Access, number};
use super::integer_facts::{Symbol, ValueFacts};
use super::loop_editor::Looped;
use super::region_rewriter::{RegionSite, Replacement, Rewrite, inside_out};
use super::uses::{OneBox, SoleReads};
use crate::ad::transpose::reads_late;
use crate::passes::dce::dce;
use crate::passes::pass::{Pass, Run};
use tapeloom_ir::analysis::affine::Affine;
use tapeloom_ir::fault::{Fault, planted};
use tapeloom_ir::prim::{
    Binding, Direction, Exactness, Regions, TripCount, first_axis_to, put_box, reshaped, sum,
    take_box,
};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, FuncId, Literal, Module, Problem, Type, ValueId, ValueRemap,
};

/// The largest number of iterations after which a row (the slice of the array that one iteration writes) may be read
/// again. If a row is read later, the loop stays unchanged.
const ITERATIONS: usize = 4;

/// The entry of the pass `rolling_buffer` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "rolling_buffer",
    about: "loops that compute each row of an array from earlier rows carry these rows",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| {
        inside_out(module, f, Rewrite::Loops(|site| rolled(site, None)))
    }),
};

/// The variant of [`PASS`] for arrays of which only the last row (the slice that the last iteration writes) is read
/// after the loop: the loop's output becomes that row.
pub(crate) const LAST: Pass = Pass {
    name: "rolling_buffer_last",
    about: "the same if only the last row is read after the loop: the array is not stored",
    exactness: Exactness::Exact,
    run: Run::Program(rolling_buffer_last),
};

/// Rewrites loops that compute an array of which only the last row (the slice that the last iteration writes) is read
/// after the loop.
fn rolling_buffer_last(
    regions: &mut dyn Regions,
    module: &mut Module,
    f: FuncId,
) -> Result<FuncId, Problem> {
    let rows = inside_out(module, f, Rewrite::Loops(|site| rolled(site, Some(site.behind))))?;
    // Remove the equations that computed the rows that are not read any more.
    if rows == f { Ok(f) } else { dce(regions, module, rows) }
}

/// A carried array of which each iteration computes one row (a slice of extent 1 along `axis`) from earlier rows.
struct Rows {
    /// The index of the body's parameter that is the array.
    param: usize,
    /// The index of the body's result that is the array after all writes.
    result: usize,
    /// The axis of the array along which rows follow each other.
    axis: usize,
    /// The index of the row that iteration i writes, minus i: the same in all iterations.
    to: Affine<Symbol>,
    iterations: usize,
    /// The equations of the body that access the array, each with the kind of its access.
    touches: Vec<(usize, Kind)>,
    /// The distance, in iterations, of the earliest row that an iteration reads, and so the number of rows that the new
    /// loop carries.
    deep: usize,
    /// Whether iterations read rows that the loop has not yet written, which still have their values from before the
    /// loop.
    old: bool,
    row: ArrayType,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A write of the row of the current iteration.
    Writes,
    /// A read of the current iteration's row after this iteration has written it.
    Own,
    /// A read of a row that still has the value that it had before the loop.
    Old,
    /// A read of the row that was written this number of iterations earlier.
    Before(usize),
}

/// The rows (slices that one iteration writes) of one array that are written back to the array after the loop.
struct Back {
    output: usize,
    array: Atom,
    axis: usize,
    /// The index of the loop's stacked output, with one row per iteration, and the indices in the array at which the
    /// rows of this output begin.
    stacked: (usize, Vec<Atom>),
    /// The outputs of the loop that are one row each: the output's index, and the indices in the array to which the row
    /// is written.
    last: Vec<(usize, Vec<Atom>)>,
}

/// Rewrites a loop to carry rows in place of an array, and returns the new loop's outputs; `None` if the loop carries
/// no such array. If `behind` is `Some`, replaces only arrays of which later equations read the last row alone, and the
/// new loop's output is that row.
fn rolled(site: &RegionSite<'_>, behind: Option<&SoleReads<'_>>) -> Replacement {
    let (Some(mut at), b) = (site.looped(), site.b) else { return Ok(None) };
    let (mut param, mut back, results) = (0, Vec::new(), at.body.results.len());
    loop {
        let body = at.body.clone();
        let known = b.with_module(|m| ValueFacts::of(m, &body, &at.facts));
        let wanted = |rows: &Rows| behind.is_none_or(|read| rows.is_last(&at, read(rows.result)));
        let mut all = (param..body.params.len()).filter_map(|p| Rows::of(&at, &known, p));
        let rows = all.find(wanted);
        let Some(rows) = rows else { break };
        param = rows.param + 1;
        back.extend(rows.take(b, &mut at)?);
    }
    if back.is_empty() {
        return Ok(None);
    }
    let Some(mut outputs) = at.emit(b) else { return Ok(None) };
    if behind.is_some() {
        outputs.truncate(results);
        return Ok(Some(outputs));
    }
    for Back { output, array, axis, stacked: (rows, starts), last } in back {
        let rows = first_axis_to(b, outputs[rows], axis);
        let mut sizes = b.shape_of(array).to_vec();
        sizes[axis] = 1;
        let mut whole = put_box(b, array, rows, &starts);
        for (row, starts) in last {
            whole = put_box(b, whole, reshaped(b, outputs[row], &sizes), &starts);
        }
        outputs[output] = whole;
    }
    outputs.truncate(results);
    Ok(Some(outputs))
}

impl Rows {
    fn of(at: &Looped, known: &ValueFacts<'_>, param: usize) -> Option<Rows> {
        let (Binding::Carry(result), TripCount::Static(iterations)) =
            (at.spec.takes[param], &at.spec.trip)
        else {
            return None;
        };
        let body = &at.body;
        let p = *body.params.get(param)?;
        let array = body.types[p].as_array().filter(|ty| !ty.shape.is_empty())?;
        let mut versions = vec![p];
        let mut found: Vec<(usize, Access, usize, Affine<Symbol>, bool)> = Vec::new();
        for (i, e) in body.equations.iter().enumerate() {
            let is = |a: &Atom| a.value().is_some_and(|v| versions.contains(&v));
            if !e.operands.iter().any(is) {
                continue;
            }
            if e.operands[1..].iter().any(is) {
                return None;
            }
            let touch = Access::of(known, body, e)?;
            let area = touch.area(known, &array.shape, |v| at.is_constant(v))?;
            // The access must be to one whole row, whose index increases by 1 from iteration to iteration.
            let mut axes = (0..array.shape.len()).filter(|a| area.0[*a].size() != array.shape[*a]);
            let axis = match (axes.next(), axes.next()) {
                (Some(axis), None) => axis,
                _ => return None,
            };
            let whole = |a: usize| touch.part.sizes[a] == array.shape[a];
            if touch.part.sizes[axis] != 1 || !(0..array.shape.len()).all(|a| a == axis || whole(a))
            {
                return None;
            }
            let start = &touch.starts[axis];
            let (moves, base) = start.partition(|(v, _)| at.slot(v) == Some(Binding::Index));
            if !matches!(moves.terms(), [(_, 1)]) {
                return None;
            }
            if !base.terms().iter().all(|((v, _), _)| at.is_constant(*v)) {
                return None;
            }
            let fresh = e.operands[0] == Atom::Value(p);
            if touch.part.writes.is_some() {
                versions.push(e.outputs[0]);
            }
            found.push((i, touch, axis, base, fresh));
        }
        let handed = |r: usize| body.results[r].value().is_some_and(|v| versions.contains(&v));
        let last = body.results.get(result)?.value()?;
        let (axis, to) =
            found.iter().find(|t| t.1.part.writes.is_some()).map(|t| (t.2, t.3.clone()))?;
        if (0..body.results.len()).filter(|r| handed(*r)).ne([result])
            || versions.last() != Some(&last)
        {
            return None;
        }
        let step = match at.spec.direction {
            Direction::Up => 1,
            Direction::Down => -1,
        };
        let mut touches = Vec::new();
        for (i, touch, along, base, fresh) in &found {
            if *along != axis {
                return None;
            }
            let before = base.checked_plus(&to, -1)?.value()?.checked_mul(-step)?;
            touches.push((
                *i,
                match (touch.part.writes.is_some(), before) {
                    (true, 0) => Kind::Writes,
                    (true, _) => return None,
                    (false, 0) if *fresh => Kind::Old,
                    (false, 0) => Kind::Own,
                    (false, d) if d < 0 => Kind::Old,
                    (false, d) => {
                        Kind::Before(usize::try_from(d).ok().filter(|d| *d <= ITERATIONS)?)
                    }
                },
            ));
        }
        // The writes must form a chain: each changes the array that the write before it returned.
        let mut latest = p;
        for (i, _) in touches.iter().filter(|t| t.1 == Kind::Writes) {
            let e = &body.equations[*i];
            if e.operands[0] != Atom::Value(latest) {
                return None;
            }
            latest = e.outputs[0];
        }
        // If an iteration adds to a row that it has not written before, the iteration reads the row's value from before
        // the loop.
        let adds = found.iter().any(|t| t.4 && t.1.part.writes.is_some_and(|w| w.adds));
        let old = adds || touches.iter().any(|t| t.1 == Kind::Old);
        let deep = touches.iter().map(|t| if let Kind::Before(d) = t.1 { d } else { 0 }).max()?;
        let shape: Vec<usize> =
            (0..array.shape.len()).filter(|a| *a != axis).map(|a| array.shape[a]).collect();
        let row = ArrayType::new(array.dtype, shape);
        let small = row.shape.elements() * deep.max(1) < array.shape.elements();
        // Accept the loop. The writes are a chain in program order, so a read of the iteration's own row gets the value
        // of the last write before it.
        (deep > 0 && small).then_some(Rows {
            param,
            result,
            axis,
            to,
            iterations: *iterations,
            touches,
            deep,
            old,
            row,
        })
    }

    /// Returns whether the box `read` is the row that the last iteration writes. If the loop has no iteration, the box
    /// is the row before the first written row, which the loop carries from its beginning to its end.
    fn is_last(&self, at: &Looped, read: Option<OneBox>) -> bool {
        let last = match at.spec.direction {
            Direction::Up => self.iterations as i64 - 1,
            Direction::Down => 0,
        };
        read.is_some_and(|OneBox { starts, sizes }| {
            let whole = (0..sizes.len()).all(|a| a == self.axis || starts[a] == 0)
                && sizes.iter().product::<usize>() == self.row.shape.elements();
            let is_last = self.to == Affine::constant(starts[self.axis] - last);
            whole && sizes[self.axis] == 1 && (is_last || planted(Fault::LastButOne))
        })
    }

    /// Changes the loop `at` to carry rows, and returns the rows to write back after the loop. Leaves the loop
    /// unchanged and returns `None` if the index of a row cannot be computed in front of the loop.
    fn take(&self, b: &Builder<'_>, at: &mut Looped) -> Result<Option<Back>, Problem> {
        let Some(operand) = at.operand(self.param) else { return Ok(None) };
        let array = at.operands[operand];
        let end = self.iterations as i64 - 1;
        let (first, last, step) = match at.spec.direction {
            Direction::Up => (0, end, 1),
            Direction::Down => (end, 0, -1),
        };
        let mut sizes = b.shape_of(array).to_vec();
        sizes[self.axis] = 1;
        let starts = |at: &Looped, place: &Affine<Symbol>| {
            Some(self.starts(number(b, place, |v| at.value(v))?, sizes.len()))
        };
        let mut made = Vec::new();
        for d in 1..=self.deep {
            let place = self.to.clone().moved(first - step * d as i64);
            let Some(starts) = starts(at, &place) else { return Ok(None) };
            made.push(reshaped(b, take_box(b, array, &starts, &sizes), &self.row.shape));
        }
        let results = at.body.results.len();
        let oldest = self.to.clone().moved(-step * self.deep as i64);
        let Some(oldest) = starts(at, &oldest) else { return Ok(None) };
        let mut rest = Vec::new();
        for d in (0..self.deep).rev() {
            let place = self.to.clone().moved(last - step * d as i64);
            let Some(starts) = starts(at, &place) else { return Ok(None) };
            rest.push((if d == 0 { self.result } else { results + d - 1 }, starts));
        }
        let body = b.with_module(|m| self.body(m, at))?;
        at.operands[operand] = made[0];
        let slots = (1..self.deep).map(|d| Binding::Carry(results + d - 1));
        let mut more: Vec<(Binding, Atom)> = slots.zip(made[1..].iter().copied()).collect();
        more.extend(self.old.then_some((Binding::Const, array)));
        at.take(false, &more);
        at.run(b, body);
        let stacked = (results + self.deep - 1, oldest);
        Ok(Some(Back { output: self.result, array, axis: self.axis, stacked, last: rest }))
    }

    /// Returns the loop's new body, which takes rows in place of the array, and returns the new row and the oldest of
    /// the rows that the body took.
    fn body(&self, module: &mut Module, of: &Looped) -> Result<FuncId, Problem> {
        let body = &of.body;
        let late = reads_late(module, body, |_| true);
        let mut draft = Draft::new(body.name.clone());
        let mut copying = ValueRemap::new();
        let row = || Type::Array(self.row.clone());
        let mut rows = Vec::new();
        for (at, p) in body.params.iter().enumerate() {
            let ty = if at == self.param { row() } else { body.types[*p].clone() };
            let made = draft.param(ty);
            copying.bind(*p, made);
            if at == self.param {
                rows.push(made);
            }
        }
        rows.extend((1..self.deep).map(|_| draft.param(row())));
        let p = body.params[self.param];
        let old = self.old.then(|| draft.param(body.types[p].clone()));
        for p in &body.linear_params {
            copying.bind(*p, draft.linear_param(body.types[*p].clone()));
        }
        let lost = || Problem::internal("the index of a row became unknown");
        let b = Builder::new(module, &mut draft);
        // The shape of a row with an axis of extent 1 in front; readers of the array expect the row in that shape.
        let one: Vec<usize> = [1].into_iter().chain(self.row.shape.iter().copied()).collect();
        let read = |copying: &mut ValueRemap, i: usize, kind: Kind| {
            let e = &body.equations[i];
            let row =
                if let Kind::Before(d) = kind { rows[d - 1] } else { copying.read(e.operands[0]) };
            b.at(body.origin(i));
            let row = reshaped(&b, row, &one);
            let row = match &body.types[e.outputs[0]] {
                Type::Array(ty) => reshaped(&b, row, &ty.shape),
                Type::Tape(_) => row,
            };
            copying.define(e, [row]);
        };
        let reads = |kind: &Kind| matches!(kind, Kind::Before(_) | Kind::Own);
        // Transposition adds the cotangents of late reads (at dynamic indices, after another read of the array) last.
        // Emit these reads right after the array's definition, so that the order of additions stays.
        let read_late = |copying: &mut ValueRemap, array: ValueId| {
            let own =
                self.touches.iter().filter(|(i, kind)| late[*i] == Some(array) && reads(kind));
            own.for_each(|(i, kind)| read(copying, *i, *kind));
        };
        read_late(&mut copying, p);
        for (i, e) in body.equations.iter().enumerate() {
            b.at(body.origin(i));
            let kind = self.touches.iter().find(|(at, _)| *at == i).map(|(_, kind)| *kind);
            match kind {
                None => {
                    copying.define(e, b.copy(body, i, copying.all(&e.operands)));
                }
                Some(kind @ (Kind::Before(_) | Kind::Own)) => {
                    if late[i].is_none() {
                        read(&mut copying, i, kind);
                    }
                }
                Some(Kind::Old) => {
                    let mut operands = copying.all(&e.operands);
                    operands[0] = old.ok_or_else(lost)?;
                    let made = b.copy(body, i, operands);
                    copying.define(e, made);
                }
                Some(Kind::Writes) => {
                    let types: Vec<Type> = e.operands.iter().map(|a| body.type_of(*a)).collect();
                    let write = e.op.part(&types).and_then(|p| p.writes).ok_or_else(lost)?;
                    let update = copying.read(e.operands[write.operand]);
                    let update = reshaped(&b, update, &self.row.shape);
                    let made = match (write.adds, e.operands[0] == Atom::Value(p)) {
                        (false, _) => update,
                        (true, false) => sum(&b, copying.read(e.operands[0]), update),
                        (true, true) => {
                            let part = self.untouched(&b, of, &copying, old);
                            sum(&b, part.ok_or_else(lost)?, update)
                        }
                    };
                    // Later equations that read the array after this write must read the new row instead.
                    copying.define(e, [made]);
                    read_late(&mut copying, e.outputs[0]);
                }
            }
        }
        let mut results = copying.results(body);
        results.extend(rows.iter().take(self.deep - 1).copied());
        results.extend(rows.last());
        draft.finish(module, results)
    }

    /// Emits a read of the row that belongs to the iteration, with its value from before the loop.
    fn untouched(
        &self,
        b: &Builder<'_>,
        of: &Looped,
        copying: &ValueRemap,
        old: Option<Atom>,
    ) -> Option<Atom> {
        let index = of.spec.takes.iter().position(|slot| *slot == Binding::Index)?;
        let base = number(b, &self.to, |v| Some(copying.read(v.into())))?;
        let at = sum(b, copying.read(of.body.params[index].into()), base);
        let mut sizes = b.shape_of(old?).to_vec();
        sizes[self.axis] = 1;
        let starts = self.starts(at, sizes.len());
        Some(reshaped(b, take_box(b, old?, &starts, &sizes), &self.row.shape))
    }

    /// Returns the indices at which the row with index `at` begins, one per axis of the array.
    fn starts(&self, at: Atom, rank: usize) -> Vec<Atom> {
        let zero = || Atom::from(Literal::i64(0));
        (0..rank).map(|a| if a == self.axis { at } else { zero() }).collect()
    }
}
