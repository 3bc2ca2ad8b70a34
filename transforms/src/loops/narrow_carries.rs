//! `narrow_carries`: a loop carries the part of an array that it writes, instead of the whole array.
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
//! The elements of the array that iterations read outside of the written part become a constant. So an accumulator in
//! one element becomes a scalar carry, and one in a row a carry of the row's shape. Reverse mode then saves the
//! constant once, in place of an array that differs in each iteration. If the parts that are read and written are not
//! known to be disjoint, or if nothing is gained, the loop stays unchanged. Innermost loops come first: the body around
//! them then has reads and writes of the narrowed parts.
//!
//! For scalars this is register promotion; for boxes, array privatization (Feautrier, 1988).

use super::access::{Access, number};
use super::access_box::{Area, AxisRange};
use super::integer_facts::ValueFacts;
use super::loop_editor::Looped;
use super::region_rewriter::{RegionSite, Replacement, Rewrite, inside_out};
use crate::passes::pass::{Pass, Run};
use cranelift_entity::SecondaryMap;
use tapeloom_ir::prim::{Binding, Exactness, TripCount, Within, put_box, reshaped, take_box};
use tapeloom_ir::{
    ArrayType, Atom, Builder, Draft, Equation, FuncId, Function, Module, Problem, Type, ValueId,
    ValueRemap,
};

/// The entry of the pass `narrow_carries` in the list `PASSES`.
pub(crate) const PASS: Pass = Pass {
    name: "narrow_carries",
    about: "loops carry the parts of arrays that iterations write, instead of the arrays",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| {
        inside_out(module, f, Rewrite::Loops(|site| narrowed(site, OFTEN)))
    }),
};

/// The variant of [`PASS`] that runs before reverse mode, where saving loop state in each iteration costs more than
/// copying a part of an array.
pub(crate) const EAGER: Pass = Pass {
    name: "narrow_carries_eager",
    about: "the same, even if copies cost more than they save: reverse mode saves less state",
    exactness: Exactness::Exact,
    run: Run::Program(|_, module, f| {
        inside_out(module, f, Rewrite::Loops(|site| narrowed(site, 1)))
    }),
};

/// In a loop without derivatives, copying a window (the part of an array that the loop accesses) out before the loop
/// and in again after it pays if iterations access each element of the window at least this number of times on average.
const OFTEN: usize = 4;
/// A window of at most this number of elements stays in registers, so one access per element suffices for the copy to
/// pay.
const SMALL: usize = 64;

/// A box (a range of indices along each axis) of an array, which a loop carries or reads in place of the whole array.
struct Window {
    area: Area,
    /// The number of element accesses to the window, by all iterations together.
    touched: usize,
}

impl Window {
    /// Returns whether carrying the window pays in place of an array of `array` elements: the window has fewer
    /// elements, and iterations access each element of the window `often` times on average, or once in a window of at
    /// most `SMALL` elements. Copying the window costs one access per element.
    fn pays(&self, array: usize, often: usize) -> bool {
        let (elements, touched) = (self.area.elements(), self.touched);
        let least = if elements <= SMALL { elements } else { elements.saturating_mul(often) };
        elements < array && least <= touched
    }

    /// Emits, in front of the loop, the window's first index along each axis of the array; `None` if such an index
    /// depends on values of the body.
    fn starts(&self, b: &Builder<'_>, at: &Looped) -> Option<Vec<Atom>> {
        self.area.0.iter().map(|along| number(b, &along.start(), |v| at.value(v))).collect()
    }

    /// Returns the axes along which the window has more than one index.
    fn axes(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.area.0.len()).filter(|a| self.area.0[*a].size() != 1)
    }

    fn sizes(&self) -> Vec<usize> {
        self.area.0.iter().map(AxisRange::size).collect()
    }

    fn shape(&self) -> Vec<usize> {
        self.axes().map(|a| self.area.0[a].size()).collect()
    }
}

/// A plan that replaces one carried or constant array of a loop by windows (boxes of indices) of the array.
struct Plan {
    /// The index of the body's parameter that is the array.
    param: usize,
    /// The windows: if the loop writes the array, first the window that it writes; then windows that it only reads.
    windows: Vec<Window>,
    writes: bool,
    /// The accesses of the body to the array: the index of the equation, and the index in `windows` of the window that
    /// it accesses.
    touches: Vec<(usize, usize)>,
}

/// A window that is written back into its array after the loop: the index of the loop's output, the array, the
/// window's first indices and its sizes.
struct Back {
    output: usize,
    array: Atom,
    starts: Vec<Atom>,
    sizes: Vec<usize>,
}

/// Replaces arrays that a loop carries by windows of them, and returns the outputs of the new loop; `None` if no
/// array can be narrowed. `often` is the least number of accesses per element for which a window pays.
fn narrowed(site: &RegionSite<'_>, often: usize) -> Replacement {
    let (Some(mut at), b) = (site.looped(), site.b) else { return Ok(None) };
    let (mut param, mut back, mut changed) = (0, Vec::new(), false);
    loop {
        let body = at.body.clone();
        let known = b.with_module(|m| ValueFacts::of(m, &body, &at.facts));
        let plan = (param..at.spec.takes.len()).find_map(|p| Plan::of(&at, &known, p, often));
        let Some(plan) = plan else { break };
        param = plan.param + 1;
        let Some(more) = plan.take(b, &mut at, &known)? else { continue };
        back.extend(more);
        changed = true;
    }
    if !changed {
        return Ok(None);
    }
    let Some(mut outputs) = at.emit(b) else { return Ok(None) };
    for Back { output, array, starts, sizes } in back {
        let part = reshaped(b, outputs[output], &sizes);
        outputs[output] = put_box(b, array, part, &starts);
    }
    Ok(Some(outputs))
}

/// The accesses of a loop's body to an array that is one of its parameters.
struct CarryAccesses {
    /// Per access: the equation's index, the area over all iterations, the number of elements in one iteration, and
    /// whether the access writes.
    touches: Vec<(usize, Area, usize, bool)>,
    /// The indices of the body's results that are the array after all writes.
    results: Vec<usize>,
}

impl CarryAccesses {
    /// Finds the accesses to parameter `p`; `None` if the area of an access is not known.
    fn of(
        at: &Looped,
        known: &ValueFacts<'_>,
        p: ValueId,
        extents: &[usize],
    ) -> Option<CarryAccesses> {
        // `versions` marks the parameter that is the array, and the outputs of all writes to it.
        let body = &at.body;
        let mut versions: SecondaryMap<ValueId, bool> =
            SecondaryMap::with_capacity(body.types.len());
        versions[p] = true;
        let is = |a: &Atom, versions: &SecondaryMap<ValueId, bool>| {
            a.value().is_some_and(|v| versions[v])
        };
        let mut touches = Vec::new();
        for (i, e) in body.equations.iter().enumerate() {
            if !e.operands.iter().any(|a| is(a, &versions)) {
                continue;
            }
            if e.operands[1..].iter().any(|a| is(a, &versions)) {
                return None;
            }
            let touch = Access::of(known, body, e)?;
            let area = touch.area(known, extents, |v| at.is_constant(v))?;
            let writes = touch.part.writes.is_some();
            touches.push((i, area, touch.elements(), writes));
            if writes {
                versions[e.outputs[0]] = true;
            }
        }
        let handed_on = |r: &usize| is(&body.results[*r], &versions);
        Some(CarryAccesses {
            touches,
            results: (0..body.results.len()).filter(handed_on).collect(),
        })
    }

    /// Returns the area of all writes, extended by the areas of those reads that may overlap it.
    fn written(&self, known: &ValueFacts<'_>, extents: &[usize]) -> Option<Area> {
        let mut all = self.touches.iter().find(|t| t.3)?.1.clone();
        loop {
            let mut more = all.clone();
            for (_, area, _, writes) in &self.touches {
                if *writes || !area.is_disjoint(&more, known) {
                    more = more.or(area, known, extents);
                }
            }
            if more == all {
                return Some(all);
            }
            all = more;
        }
    }
}

impl Plan {
    fn of(at: &Looped, known: &ValueFacts<'_>, param: usize, often: usize) -> Option<Plan> {
        let carried = match at.spec.takes[param] {
            Binding::Carry(_) => true,
            Binding::Const if at.facts[param].carried => false,
            Binding::Const | Binding::Index | Binding::Xs => return None,
        };
        let times = match &at.spec.trip {
            TripCount::While { reads, .. } if reads.contains(&param) => return None,
            TripCount::Static(n) => *n,
            TripCount::Runtime | TripCount::While { .. } => 1,
        };
        let p = at.body.all_params().nth(param)?;
        let array = at.body.types[p].as_array().filter(|ty| !ty.shape.is_empty())?;
        let extents = &array.shape[..];
        let found = CarryAccesses::of(at, known, p, extents)?;
        let writes = found.touches.iter().any(|t| t.3);
        match at.spec.takes[param] {
            Binding::Carry(result) if found.results != [result] || !writes => return None,
            Binding::Const if !found.results.is_empty() || writes => return None,
            Binding::Carry(_) | Binding::Const | Binding::Index | Binding::Xs => {}
        }
        let own = if carried { Some(found.written(known, extents)?) } else { None };
        let mut windows: Vec<Window> = Vec::new();
        windows.extend(own.clone().map(|area| Window { area, touched: 0 }));
        let clear = |area: &Area| own.as_ref().is_none_or(|own| area.is_disjoint(own, known));
        let mut touches = Vec::new();
        for (i, area, elements, writes) in &found.touches {
            let touched = times.saturating_mul(*elements);
            // Join a read with an earlier window if the joined area has no more elements than the two areas together.
            let joined = |w: &Window| {
                let more = w.area.or(area, known, extents);
                let cheap = more.elements() <= w.area.elements() + area.elements();
                (clear(&more) && cheap || w.area.holds(area)).then_some(more)
            };
            let w = if *writes || !clear(area) {
                0
            } else {
                let first = usize::from(own.is_some());
                match (first..windows.len()).find_map(|k| Some((k, joined(&windows[k])?))) {
                    Some((k, more)) => {
                        windows[k].area = more;
                        k
                    }
                    None => {
                        windows.push(Window { area: area.clone(), touched: 0 });
                        windows.len() - 1
                    }
                }
            };
            windows[w].touched = windows[w].touched.saturating_add(touched);
            touches.push((*i, w));
        }
        let all = array.shape.elements();
        if !windows.first()?.pays(all, often) {
            return None;
        }
        let whole = Area(extents.iter().map(|n| AxisRange::whole(*n)).collect());
        windows.iter_mut().filter(|w| !w.pays(all, often)).for_each(|w| w.area = whole.clone());
        Some(Plan { param, windows, writes: carried, touches })
    }

    /// Changes the loop `at` to take the windows in place of the array. The inner result is the window to write back
    /// after the loop. The outer result is `None` if the first index of a window cannot be computed in front of the
    /// loop; the loop then stays unchanged.
    fn take(
        &self,
        b: &Builder<'_>,
        at: &mut Looped,
        known: &ValueFacts<'_>,
    ) -> Result<Option<Option<Back>>, Problem> {
        let Some(operand) = at.operand(self.param) else { return Ok(None) };
        let array = at.operands[operand];
        let starts: Option<Vec<_>> = self.windows.iter().map(|w| w.starts(b, at)).collect();
        let Some(starts) = starts else { return Ok(None) };
        let part = |(window, starts): (&Window, &Vec<Atom>)| {
            let part = take_box(b, array, starts, &window.sizes());
            (Binding::Const, reshaped(b, part, &window.shape()))
        };
        let parts: Vec<(Binding, Atom)> = self.windows.iter().zip(&starts).map(part).collect();
        let body = b.with_module(|m| self.body(m, &at.body, known))?;
        let back = match at.spec.takes[self.param] {
            Binding::Carry(output) if self.writes => {
                let (starts, sizes) = (starts[0].clone(), self.windows[0].sizes());
                Some(Back { output, array, starts, sizes })
            }
            _ => None,
        };
        at.operands[operand] = parts[0].1;
        at.take(self.param >= at.body.params.len(), &parts[1..]);
        at.run(b, body);
        Ok(Some(back))
    }

    /// Returns the body with the windows as parameters in place of the array, and with accesses to the windows in place
    /// of accesses to the array.
    fn body(
        &self,
        module: &mut Module,
        body: &Function,
        known: &ValueFacts<'_>,
    ) -> Result<FuncId, Problem> {
        let mut draft = Draft::new(body.name.clone());
        let mut copying = ValueRemap::new();
        let mut parts: Vec<Atom> = Vec::new();
        let first = body.params.len();
        let old: Vec<ValueId> = body.all_params().collect();
        let dtype = body.types[old[self.param]].as_array().map(|ty| ty.dtype);
        let Some(dtype) = dtype else {
            return Err(Problem::internal("a window of a value that is no array"));
        };
        let ty = |w: &Window| Type::Array(ArrayType::new(dtype, w.shape()));
        let linear = self.param >= first;
        for (at, p) in old.iter().enumerate() {
            let own = match at == self.param {
                true => ty(&self.windows[0]),
                false => body.types[*p].clone(),
            };
            let made = draft.param_of(at >= first, own);
            copying.bind(*p, made);
            if at == self.param {
                parts.push(made);
            }
            let last = if linear { at + 1 == old.len() } else { at + 1 == first };
            if last {
                parts.extend(self.windows[1..].iter().map(|w| draft.param_of(linear, ty(w))));
            }
        }
        let b = Builder::new(module, &mut draft);
        for (i, e) in body.equations.iter().enumerate() {
            b.at(body.origin(i));
            let touch = self.touches.iter().find(|(at, _)| *at == i);
            let Some((_, w)) = touch else {
                copying.define(e, b.copy(body, i, copying.all(&e.operands)));
                continue;
            };
            let window = &self.windows[*w];
            let Some(touch) = Access::of(known, body, e) else {
                return Err(Problem::internal("the position of a window became unknown"));
            };
            // A write changes the written window, so each access to that window takes its latest version; windows that
            // are only read do not change.
            let part = match (*w, self.writes) {
                (0, true) => copying.read(e.operands[0]),
                (w, _) => parts[w],
            };
            let made = touch.within(&b, window, part, body, e, &copying);
            let made = made.ok_or_else(|| Problem::internal("an index that is not affine"))?;
            copying.define(e, [made]);
        }
        draft.finish(module, copying.results(body))
    }
}

impl Access {
    /// Emits this access, of equation `e`, to the window `part` in place of the array; `None` if a start index
    /// cannot be computed.
    fn within(
        &self,
        b: &Builder<'_>,
        window: &Window,
        part: Atom,
        body: &Function,
        e: &Equation,
        copying: &ValueRemap,
    ) -> Option<Atom> {
        let value = |v: ValueId| Some(copying.read(v.into()));
        let (mut starts, mut sizes) = (Vec::new(), Vec::new());
        for axis in window.axes() {
            // Start indices are relative to the window's first index; along an axis whose whole window the access
            // covers, no index is needed.
            let (along, size) = (&window.area.0[axis], self.part.sizes[axis]);
            let start = self.starts[axis].plus(&along.start(), -1);
            let apart = size < along.size();
            starts.push(if apart { Some(number(b, &start, value)?) } else { None });
            sizes.push(size);
        }
        let update = self.part.writes.map(|w| copying.read(e.operands[w.operand]));
        let within = Within { array: part, starts: &starts, sizes: &sizes, update };
        let made = e.op.of_part(b, &within)?;
        match (&body.types[e.outputs[0]], update) {
            (Type::Array(ty), None) => Some(reshaped(b, made, &ty.shape)),
            (Type::Array(_) | Type::Tape(_), _) => Some(made),
        }
    }
}
