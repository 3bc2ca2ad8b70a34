//! The pass `windows`: a loop carries what it writes of an array, and not the array.
//!
//! ```text
//! %3: f64[9] = loop{body=@f, trip=4, takes=[index,const,carry0]} %0, %1
//!
//! func @f(%0: i64[], %1: i64[], %2: f64[9]) -> (f64[9]) {     adds up %2[%0] into %2[%1], %1 in 5..=8
//! ```
//! becomes
//! ```text
//! %4: f64[1] = dynamic_slice{sizes=[1]} %1, %0
//! %5: f64[4] = slice{start=[0], limit=[4]} %1
//! %6: f64[] = loop{body=@f, trip=4, takes=[index,const,carry0,const]} %0, %4, %5
//! %3: f64[9] = dynamic_update_slice %1, %6, %0
//! ```
//!
//! What rounds read of it elsewhere is a constant. So accumulators are scalars, rows are rows, and
//! reverse mode keeps the part that is read instead of state of which all rounds have another version.
//! Where it is not known that what is read and what is written are apart, or nothing is gained, the loop
//! stays as it is. Innermost loops come first: around them stand reads and writes of what they took.
//!
//! Compilers know it for scalars as register promotion; over boxes as array privatization (Feautrier, 1988).

use super::area::{Along, Area};
use super::known::{Fact, Known};
use super::lift::lifted;
use super::touch::{Touch, number};
use super::walk::inside_out;
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Lowering, Rounds, Slot, Trip, put_box, reshaped, take_box};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Copying, Draft, Equation, FuncId, Function, Module, Op, OrderedMap,
    Problem, Type, ValueId,
};

/// The same function, whose loops carry parts of arrays where they read and write no more.
///
/// # Errors
/// None that a well-formed module can cause.
pub fn windows(module: &mut Module, f: FuncId) -> Result<FuncId, Problem> {
    inside_out(module, f, &[], narrow, &mut OrderedMap::default())
}

fn narrow(
    b: &Builder<'_>,
    op: &Op,
    operands: &[Atom],
    facts: &[Fact],
) -> Result<Option<Vec<Atom>>, Problem> {
    match b.with_module(|m| op.lower(m, &[])) {
        Lowering::Loop { body, rounds } => narrowed(b, op, (body, rounds), operands, facts),
        Lowering::Branch { branches } => {
            let lifted = lifted(b, &branches, &operands[1..])?;
            Ok(lifted.map(|(branches, given)| {
                let operands = [&operands[..1], &given].concat();
                b.emit(op.with_regions(&branches), &operands).to_vec()
            }))
        }
        _ => Ok(None),
    }
}

/// A part of an array that a loop takes in its place.
#[derive(Clone)]
struct Window {
    area: Area,
    /// What its rounds touch of it in all.
    touched: usize,
}

impl Window {
    /// Axes along which it has more than one place.
    fn axes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.area.0.len()).filter(|a| self.area.0[*a].size() != 1)
    }

    fn sizes(&self) -> Vec<usize> {
        self.area.0.iter().map(Along::size).collect()
    }

    fn shape(&self) -> Vec<usize> {
        self.axes().map(|a| self.area.0[a].size()).collect()
    }
}

/// What a loop takes in place of an array.
struct Plan {
    /// The parameter of the body that was the array.
    param: usize,
    /// What is written, the first one if anything is; then what is read.
    windows: Vec<Window>,
    writes: bool,
    /// Equations of the body that touch it: which window.
    touches: Vec<(usize, usize)>,
}

/// The outputs of a loop that carries less, if there is one that does the same.
fn narrowed(
    b: &Builder<'_>,
    op: &Op,
    (function, rounds): (FuncId, Rounds),
    operands: &[Atom],
    facts: &[Fact],
) -> Result<Option<Vec<Atom>>, Problem> {
    let body = b.with_module(|m| m.get(function));
    let plan = b.with_module(|m| {
        (0..rounds.takes.len()).find_map(|p| Plan::of(m, &rounds, &body, facts, p))
    });
    let Some(plan) = plan else { return Ok(None) };
    let place = |param: usize| Some(rounds.lead() + rounds.params().position(|p| p == param)?);
    let Some(at) = place(plan.param) else { return Ok(None) };
    let array = operands[at];
    let value = |v: ValueId| {
        let param = body.all_params().position(|p| p == v)?;
        place(param).map(|at| operands[at])
    };
    let starts = |window: &Window| -> Option<Vec<Atom>> {
        window.area.0.iter().map(|along| number(b, &along.start(), value)).collect()
    };
    let mut parts = Vec::new();
    for window in &plan.windows {
        let Some(starts) = starts(window) else { return Ok(None) };
        let part = take_box(b, array, &starts, &window.sizes());
        parts.push(reshaped(b, part, &window.shape()));
    }
    let inner = b.with_module(|m| plan.body(m, &body, facts))?;
    let slot = if plan.writes { rounds.takes[plan.param] } else { Slot::Const };
    let (mut new, mut given, mut all) = (rounds.clone(), operands.to_vec(), facts.to_vec());
    new.takes[plan.param] = slot;
    given[at] = parts[0];
    // What comes after the first window comes last of the parameters of its kind.
    let linear = plan.param >= body.params.len();
    let last = if linear { rounds.takes.len() } else { body.params.len() };
    let before = rounds.lead() + rounds.params().filter(|p| *p < last).count();
    all.resize(rounds.takes.len(), Fact::default());
    new.takes.splice(last..last, parts[1..].iter().map(|_| Slot::Const));
    all.splice(last..last, parts[1..].iter().map(|_| Fact::default()));
    given.splice(before..before, parts[1..].iter().copied());
    let Some(better) = op.with_rounds(inner, new.clone()) else { return Ok(None) };
    let mut outputs = match narrowed(b, &better, (inner, new), &given, &all)? {
        Some(outputs) => outputs,
        None => b.emit(better, &given).to_vec(),
    };
    if let (true, Slot::Carry(result)) = (plan.writes, slot) {
        let window = &plan.windows[0];
        let Some(starts) = starts(window) else { return Ok(None) };
        let part = reshaped(b, outputs[result], &window.sizes());
        outputs[result] = put_box(b, array, part, &starts);
    }
    Ok(Some(outputs))
}

impl Plan {
    fn of(
        module: &Module,
        rounds: &Rounds,
        body: &Function,
        facts: &[Fact],
        param: usize,
    ) -> Option<Plan> {
        let slot = rounds.takes[param];
        let carried = match slot {
            Slot::Carry(_) => true,
            Slot::Const if facts.get(param)?.carried => false,
            Slot::Const | Slot::Index | Slot::Xs => return None,
        };
        if let Trip::While { reads, .. } = &rounds.trip
            && reads.contains(&param)
        {
            return None;
        }
        let p = body.all_params().nth(param)?;
        let array = body.types[p].as_array().filter(|ty| !ty.shape.is_empty())?;
        let extents = array.shape.to_vec();
        let all = array.shape.elements();
        let known = Known::of(module, body, facts);
        let constant = |v: ValueId| {
            let at = body.all_params().position(|q| q == v);
            at.is_some_and(|at| rounds.takes[at] == Slot::Const)
        };
        // Values that are the array, after some writes.
        let mut versions: SecondaryMap<ValueId, bool> =
            SecondaryMap::with_capacity(body.types.len());
        versions[p] = true;
        let is = |a: &Atom, versions: &SecondaryMap<ValueId, bool>| {
            a.value().is_some_and(|v| versions[v])
        };
        let mut touched: Vec<(usize, Area, usize, bool)> = Vec::new();
        for (i, e) in body.equations.iter().enumerate() {
            if !e.operands.iter().any(|a| is(a, &versions)) {
                continue;
            }
            if e.operands[1..].iter().any(|a| is(a, &versions)) {
                return None;
            }
            let touch = Touch::of(&known, body, e)?;
            let area = touch.area(&known, &extents, constant)?;
            let writes = touch.part.writes.is_some();
            touched.push((i, area, touch.elements(), writes));
            if writes {
                versions[e.outputs[0]] = true;
            }
        }
        let results: Vec<usize> =
            (0..body.results.len()).filter(|r| is(&body.results[*r], &versions)).collect();
        let writes = touched.iter().any(|t| t.3);
        match slot {
            Slot::Carry(result) if results != [result] || !writes => return None,
            Slot::Const | Slot::Index | Slot::Xs if !results.is_empty() => return None,
            _ => {}
        }
        let times = match rounds.trip {
            Trip::Static(n) => n,
            Trip::Runtime | Trip::While { .. } => 1,
        };
        let window = |area: &Area, elements: usize| Window {
            area: area.clone(),
            touched: times.saturating_mul(elements),
        };
        let mut windows: Vec<Window> = Vec::new();
        if carried {
            let (_, first, ..) = touched.iter().find(|t| t.3)?;
            // All that is written, and what meets it.
            let mut all = first.clone();
            loop {
                let mut more = all.clone();
                for (_, area, _, writes) in &touched {
                    if *writes || !area.apart(&more, &known) {
                        more = more.or(area, &known, &extents);
                    }
                }
                if more == all {
                    break;
                }
                all = more;
            }
            windows.push(window(&all, 0));
        }
        let own = windows.first().map(|w| w.area.clone());
        let mut touches = Vec::new();
        for (i, area, elements, writes) in &touched {
            let mine = own.as_ref().is_some_and(|own| *writes || !area.apart(own, &known));
            let at = if mine {
                0
            } else {
                let clear = |more: &Area| own.as_ref().is_none_or(|own| more.apart(own, &known));
                let joins = |w: &Window| {
                    let more = w.area.or(area, &known, &extents);
                    (clear(&more) && more.elements() <= w.area.elements() + area.elements()
                        || w.area.holds(area))
                    .then_some(more)
                };
                let skip = usize::from(own.is_some());
                let known = (skip..windows.len()).find_map(|k| Some((k, joins(&windows[k])?)));
                match known {
                    Some((k, more)) => {
                        windows[k].area = more;
                        k
                    }
                    None => {
                        windows.push(window(area, 0));
                        windows.len() - 1
                    }
                }
            };
            windows[at].touched += times.saturating_mul(*elements);
            touches.push((*i, at));
        }
        // Taking a part out costs what it has; more than rounds touch of it is not worth it.
        let pays = |w: &Window| w.area.elements() < all && w.area.elements() <= w.touched;
        if !windows.first().is_some_and(pays) {
            return None;
        }
        let whole = Area(extents.iter().map(|n| Along::whole(*n)).collect());
        windows.iter_mut().filter(|w| !pays(w)).for_each(|w| w.area = whole.clone());
        Some(Plan { param, windows, writes: carried, touches })
    }

    /// The body that takes the windows.
    fn body(
        &self,
        module: &mut Module,
        body: &Function,
        facts: &[Fact],
    ) -> Result<FuncId, Problem> {
        let known = Known::of(module, body, facts);
        let mut draft = Draft::new(body.name.clone());
        let mut copying = Copying::new();
        let mut parts: Vec<Atom> = Vec::new();
        let first = body.params.len();
        let old: Vec<ValueId> = body.all_params().collect();
        let dtype = body.types[old[self.param]].as_array().map(|ty| ty.dtype);
        let Some(dtype) = dtype else { return Err(Problem::internal("a window of no array")) };
        let ty = |w: &Window| Type::Array(ArrayType::new(dtype, w.shape()));
        let linear = self.param >= first;
        for (at, p) in old.iter().enumerate() {
            let own = match at == self.param {
                true => ty(&self.windows[0]),
                false => body.types[*p].clone(),
            };
            let made = if at < first { draft.param(own) } else { draft.linear_param(own) };
            copying.bind(*p, made);
            if at == self.param {
                parts.push(made);
            }
            let last = if linear { at + 1 == old.len() } else { at + 1 == first };
            if last {
                let more = self.windows[1..].iter().map(|w| match linear {
                    true => draft.linear_param(ty(w)),
                    false => draft.param(ty(w)),
                });
                let more: Vec<Atom> = more.collect();
                parts.extend(more);
            }
        }
        let b = Builder::new(module, &mut draft);
        for (i, e) in body.equations.iter().enumerate() {
            b.at(body.location(i));
            let touch = self.touches.iter().find(|(at, _)| *at == i);
            let Some((_, w)) = touch else {
                let made = b.copy(body, i, copying.all(&e.operands));
                copying.define(e, made);
                continue;
            };
            let window = &self.windows[*w];
            let Some(touch) = Touch::of(&known, body, e) else {
                return Err(Problem::internal("a place that was known is not"));
            };
            // State goes from write to write, constants stay.
            let part = match (*w, self.writes) {
                (0, true) => copying.read(e.operands[0]),
                (w, _) => parts[w],
            };
            let made = touch.within(&b, window, part, body, e, &copying);
            let made = made.ok_or_else(|| Problem::internal("an index that is no sum"))?;
            copying.define(e, [made]);
        }
        draft.finish(module, copying.results(body))
    }
}

impl Touch {
    /// The same, of the window in place of the array.
    fn within(
        &self,
        b: &Builder<'_>,
        window: &Window,
        part: Atom,
        body: &Function,
        e: &Equation,
        copying: &Copying,
    ) -> Option<Atom> {
        let value = |v: ValueId| Some(copying.read(v.into()));
        let (mut starts, mut sizes) = (Vec::new(), Vec::new());
        for axis in window.axes() {
            // From the beginning of the window on, where the box is not all of it.
            let (along, size) = (&window.area.0[axis], self.part.sizes[axis]);
            let start = self.starts[axis].plus(&along.start(), -1);
            let apart = size < along.size();
            starts.push(if apart { Some(number(b, &start, value)?) } else { None });
            sizes.push(size);
        }
        let update = self.part.writes.map(|w| copying.read(e.operands[w.operand]));
        let made = e.op.of_part(b, part, &starts, &sizes, update)?;
        match (&body.types[e.outputs[0]], update) {
            (Type::Array(ty), None) => Some(reshaped(b, made, &ty.shape)),
            (Type::Array(_) | Type::Tape(_), _) => Some(made),
        }
    }
}
