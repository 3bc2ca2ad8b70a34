//! Emits the equations of a sum over windows, following the plan of each axis.

use super::super::dot::Side;
use super::super::window::Move;
use super::axis::{AxisPlan, LESS, MORE, Remainders};
use super::{Label, Labelled, Source, Sum};
use crate::fault::{Fault, planted};
use crate::lang::builder::Builder;
use crate::lang::function::Atom;
use crate::lang::literal::Literal;
use crate::prim::rules::slice_helpers::reshaped;
use crate::prim::{Broadcast, Concatenate, Dot, Pad, Permute, Reduce, Reducer, Rev, Slice, Window};

/// Emits the product of two labelled arrays. `batch` and `contract` name the axes of each pair by their labels. Returns
/// `None` if an array lacks a label.
fn multiplied(
    b: &Builder<'_>,
    of: &[Labelled; 2],
    batch: &[(Label, Label)],
    contract: &[(Label, Label)],
) -> Option<Labelled> {
    let [left, right] = of;
    let pairs = |pairs: &[(Label, Label)]| {
        let pair = |(l, r): &(Label, Label)| Some((left.place(*l)?, right.place(*r)?));
        pairs.iter().map(pair).collect::<Option<Vec<_>>>()
    };
    let dot = Dot { batch: pairs(batch)?, contract: pairs(contract)? };
    let mut labels: Vec<Label> = (0..batch.len()).map(Label::Batch).collect();
    for (side, x) in [(Side::Left, left), (Side::Right, right)] {
        labels.extend(dot.free(side, x.labels.len()).into_iter().map(|axis| x.labels[axis]));
    }
    Some(Labelled { atom: b.emit1(dot, &[left.atom, right.atom]), labels })
}

impl Sum {
    /// Returns whether the plans have few enough terms, compared with the sum as written, to be worth a rewrite
    /// (`LESS`, `MORE`).
    pub(super) fn pays(&self) -> bool {
        if planted(Fault::AllTaps) {
            return false;
        }
        let product = |of: fn(&AxisPlan) -> f64| self.plans.iter().map(of).product::<f64>();
        let written = product(|plan| plan.line.results as f64 * plan.line.extents[1] as f64);
        let pairs = product(|plan| plan.line.extents[0] as f64 * plan.line.extents[1] as f64);
        if self.products_first {
            // In matrix products the same number of terms takes less time than in windows with few results, so
            // allow more terms.
            return pairs <= MORE * written;
        }
        self.plans.iter().any(|plan| !plan.is_plain()) && product(AxisPlan::work) <= LESS * written
    }

    /// Emits the sum over windows as its plans say; `None` if a required axis is missing.
    pub(super) fn emit(mut self, b: &Builder<'_>) -> Option<Atom> {
        self.reverse_taps(b);
        if self.products_first
            && let Source::Product { batch, contract, of } = &self.source
        {
            let only = contract.iter().filter(|(l, _)| !matches!(l, Label::Term(_)));
            let of = multiplied(b, of, batch, &only.copied().collect::<Vec<_>>())?;
            self.source = Source::Array { of, over: Vec::new() };
        }
        let sum = self.parts(b, &mut Vec::new())?;
        self.interleaved(b, sum)
    }

    /// Reverses the taps that are counted from the last one into the order of the elements, unless the windows
    /// can move in the reverse direction.
    fn reverse_taps(&mut self, b: &Builder<'_>) {
        let must_reverse =
            |plan: &AxisPlan| plan.line.reversed && (plan.over_taps || plan.phases != 1);
        let reversed: Vec<Label> = (0..self.plans.len())
            .filter(|i| must_reverse(&self.plans[*i]))
            .map(Label::Tap)
            .collect();
        let all = match &mut self.source {
            Source::Product { of, .. } => &mut of[..],
            Source::Array { of, .. } => std::slice::from_mut(of),
        };
        for x in all {
            let axes: Vec<usize> =
                (0..x.labels.len()).filter(|a| reversed.contains(&x.labels[*a])).collect();
            if !axes.is_empty() {
                x.atom = b.emit1(Rev { axes }, &[x.atom]);
            }
        }
    }

    /// Emits the sums for all groups of remainders, given the groups `chosen` along the first axes. The sums along each
    /// of the other axes are concatenated along the axis of remainders.
    fn parts(&self, b: &Builder<'_>, chosen: &mut Vec<Remainders>) -> Option<Labelled> {
        let axis = chosen.len();
        let Some(plan) = self.plans.get(axis) else { return self.part(b, chosen) };
        let mut parts: Vec<Labelled> = Vec::new();
        for group in plan.groups() {
            chosen.push(group);
            parts.push(self.parts(b, chosen)?);
            chosen.pop();
        }
        let first = parts.first()?.clone();
        if plan.phases == 1 {
            return Some(first);
        }
        let at = first.place(Label::Remainder(axis))?;
        let atoms: Vec<Atom> = parts.iter().map(|part| part.atom).collect();
        let whole = match atoms.as_slice() {
            [one] => *one,
            _ => b.emit1(Concatenate { axis: at }, &atoms),
        };
        // If the windows leave gaps between them, some remainders have no terms. The results for these remainders are
        // zeros.
        let missing = plan.phases - b.shape_of(whole)[at] as i64;
        let whole = padded(b, whole, &[(at, 0, missing)]);
        Some(Labelled { atom: whole, labels: first.labels })
    }

    /// Emits the sum for one group of remainders along each axis: `groups[i]` along axis i.
    fn part(&self, b: &Builder<'_>, groups: &[Remainders]) -> Option<Labelled> {
        match &self.source {
            Source::Product { batch, contract, of } => {
                let mut of = of.clone();
                for x in &mut of {
                    self.split(b, x, groups);
                }
                for x in &mut of {
                    self.slid(b, x, groups);
                }
                // Contract only axes that are still there: an axis of terms with a single term has been removed.
                let there = |(l, _): &&(Label, Label)| {
                    !matches!(l, Label::Term(_)) || of[0].place(*l).is_some()
                };
                let contract: Vec<_> = contract.iter().filter(there).copied().collect();
                self.ordered(b, multiplied(b, &of, batch, &contract)?)
            }
            Source::Array { of, over } => {
                let mut x = self.exchanged(b, of);
                self.split(b, &mut x, groups);
                self.moved(b, &mut x, groups)?;
                let one = |l: &Label| matches!(l, Label::Dropped(_));
                let gone = |l: &Label| matches!(l, Label::Term(_)) || one(l) || over.contains(l);
                let axes: Vec<usize> =
                    (0..x.labels.len()).filter(|a| gone(&x.labels[*a])).collect();
                if axes.iter().all(|a| one(&x.labels[*a])) {
                    x.atom = reshaped(b, x.atom, &b.shape_of(x.atom).without(&axes));
                } else {
                    x.atom = b.emit1(Reduce { reducer: Reducer::Sum, axes }, &[x.atom]);
                }
                x.labels.retain(|l| !gone(l));
                self.ordered(b, x)
            }
        }
    }

    /// Permutes the axes of `x`, the results of one group of remainders, to the order of the whole result, with each
    /// remainder axis after its position axis.
    fn ordered(&self, b: &Builder<'_>, x: Labelled) -> Option<Labelled> {
        let (mut permutation, mut shape, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        let own = b.shape_of(x.atom);
        for label in &self.target {
            let at = x.place(*label)?;
            permutation.push(at);
            shape.push(own[at]);
            labels.push(*label);
            if let Label::Place(i) = label
                && self.plans[*i].phases != 1
            {
                let at = x.place(Label::Remainder(*i));
                permutation.extend(at);
                shape.push(at.map_or(1, |at| own[at]));
                labels.push(Label::Remainder(*i));
            }
        }
        let atom = Permute { permutation }.apply(b, x.atom);
        Some(Labelled { atom: reshaped(b, atom, &shape), labels })
    }

    /// Exchanges the element axis with the tap axis where a plan sums over elements, so that terms are added in
    /// the order of the plan.
    fn exchanged(&self, b: &Builder<'_>, x: &Labelled) -> Labelled {
        let mut permutation: Vec<usize> = (0..x.labels.len()).collect();
        for (i, plan) in self.plans.iter().enumerate() {
            if let (true, Some(e), Some(t)) =
                (plan.over_taps, x.place(Label::Element(i)), x.place(Label::Tap(i)))
            {
                permutation.swap(e, t);
            }
        }
        let labels = permutation.iter().map(|axis| x.labels[*axis]).collect();
        Labelled { atom: Permute { permutation }.apply(b, x.atom), labels }
    }

    /// Splits each summed axis of `x` into an axis of terms and an axis of remainders.
    fn split(&self, b: &Builder<'_>, x: &mut Labelled, groups: &[Remainders]) {
        for (i, (plan, group)) in self.plans.iter().zip(groups).enumerate() {
            let [_, summed] = plan.labels(i);
            let Some(at) = x.place(summed) else { continue };
            let shape = b.shape_of(x.atom);
            let (phases, terms) = (plan.phases as usize, group.terms);
            if phases == 1 {
                if plan.shifts(group) {
                    self.dropped(b, x, at, i);
                } else {
                    x.labels[at] = Label::Term(i);
                    if plan.over_taps && !plan.ascends() {
                        x.atom = b.emit1(Rev { axes: vec![at] }, &[x.atom]);
                    }
                }
                continue;
            }
            let several = group.to - group.from;
            let mut cut = Slice::dense(vec![0; shape.len()], shape.to_vec());
            cut.start[at] = group.from;
            if several == 1 {
                cut.limit[at] = group.from + phases * (terms - 1) + 1;
                cut.strides[at] = phases;
                x.atom = cut_to(b, x.atom, cut);
                x.labels[at] = Label::Term(i);
                if terms == 1 {
                    self.dropped(b, x, at, i);
                }
            } else if terms == 1 {
                cut.limit[at] = group.to;
                x.atom = cut_to(b, x.atom, cut);
                x.labels[at] = Label::Remainder(i);
            } else {
                // Use a window instead of a reshape to split the axis: if the new axes reach beyond the array, a
                // reshape would need index divisions.
                let repeated = Broadcast {
                    shape: [&shape[..=at], &[several], &shape[at + 1..]].concat().into(),
                    dims: (0..shape.len()).map(|d| d + usize::from(d > at)).collect(),
                };
                let moves = vec![Move {
                    axis: at,
                    tap: at + 1,
                    scale: plan.phases,
                    step: 1,
                    offset: group.from as i64,
                    divisor: 1,
                    extent: terms,
                }];
                let zero = Literal::zero(b.dtype_of(x.atom)).into();
                let repeated = b.emit1(repeated, &[x.atom]);
                x.atom = b.emit1(Window { moves }, &[repeated, zero]);
                x.labels.splice(at..=at, [Label::Term(i), Label::Remainder(i)]);
            }
            if terms > 1 && !plan.ascends() {
                x.atom = b.emit1(Rev { axes: vec![at] }, &[x.atom]);
            }
        }
    }

    /// Removes axis `at` of `x`, which has a single term. In a factor of a product, the axis is removed at once. In a
    /// single array, it is only marked, and removed after the windows that read it.
    fn dropped(&self, b: &Builder<'_>, x: &mut Labelled, at: usize, i: usize) {
        if let Source::Array { .. } = self.source {
            x.labels[at] = Label::Dropped(i);
        } else {
            x.labels.remove(at);
            x.atom = reshaped(b, x.atom, &b.shape_of(x.atom).without(&[at]));
        }
    }

    /// Shifts `x` along the axes on which each result has a single term: no windows are needed there.
    fn shifted(&self, b: &Builder<'_>, x: &mut Labelled, groups: &[Remainders]) {
        let mut edges = Vec::new();
        for (i, (plan, group)) in self.plans.iter().zip(groups).enumerate() {
            let [windowed, _] = plan.labels(i);
            if let Some(at) = x.place(windowed)
                && plan.shifts(group)
            {
                let ((first, count), n) = (plan.places(), b.shape_of(x.atom)[at]);
                edges.push((at, -first, first + count as i64 - n as i64));
                x.labels[at] = Label::Place(i);
            }
        }
        x.atom = padded(b, x.atom, &edges);
    }

    /// Returns the move of the windows of window axis `i`: along the array's axis `axis`, with `terms` taps along
    /// its axis `tap`.
    fn move_of(&self, i: usize, [axis, tap]: [usize; 2], terms: usize) -> Move {
        let plan = &self.plans[i];
        let (first, extent) = plan.places();
        let step = if plan.phases == 1 { plan.step } else { 1 };
        let (step, offset) = match plan.ascends() {
            true => (-step, first),
            false => (step, first - step * (terms as i64 - 1)),
        };
        Move {
            axis,
            tap,
            scale: plan.scale(),
            step,
            offset,
            divisor: plan.divisor as usize,
            extent,
        }
    }

    /// Emits windows of a factor of a product along its windowed axes; the terms become new last axes.
    fn slid(&self, b: &Builder<'_>, x: &mut Labelled, groups: &[Remainders]) {
        self.shifted(b, x, groups);
        let rank = x.labels.len();
        let (mut moves, mut taps, mut labels) = (Vec::new(), Vec::new(), Vec::new());
        for (i, group) in groups.iter().enumerate() {
            let [windowed, _] = self.plans[i].labels(i);
            let Some(axis) = x.place(windowed) else { continue };
            moves.push(self.move_of(i, [axis, rank + moves.len()], group.terms));
            taps.push(group.terms);
            labels.push(Label::Term(i));
            x.labels[axis] = Label::Place(i);
        }
        if !moves.is_empty() {
            x.atom = Window { moves }.over(b, x.atom, &taps);
            x.labels.extend(labels);
        }
    }

    /// Emits windows of a single array along its windowed axes; the taps are its axes of terms.
    fn moved(&self, b: &Builder<'_>, x: &mut Labelled, groups: &[Remainders]) -> Option<()> {
        self.shifted(b, x, groups);
        let mut moves = Vec::new();
        for (i, group) in groups.iter().enumerate() {
            let [windowed, _] = self.plans[i].labels(i);
            let Some(axis) = x.place(windowed) else { continue };
            moves.push(self.move_of(i, [axis, x.place(Label::Term(i))?], group.terms));
            x.labels[axis] = Label::Place(i);
        }
        if !moves.is_empty() {
            let fill = Literal::zero(b.dtype_of(x.atom)).into();
            x.atom = b.emit1(Window { moves }, &[x.atom, fill]);
        }
        Some(())
    }

    /// Emits the results in order: interleaves the remainders, cuts off positions outside the required results,
    /// and inserts zeros for results without terms.
    fn interleaved(&self, b: &Builder<'_>, sum: Labelled) -> Option<Atom> {
        let own = b.shape_of(sum.atom);
        let mut shape = Vec::new();
        let mut cut = Slice::dense(Vec::new(), Vec::new());
        let rank = self.target.len();
        let mut spread = Pad { low: vec![0; rank], high: vec![0; rank], interior: vec![0; rank] };
        let mut picked = Slice::dense(Vec::new(), Vec::new());
        for (axis, label) in self.target.iter().enumerate() {
            let at = sum.place(*label)?;
            let (mut extent, mut start, mut count) = (own[at], 0, own[at]);
            let (mut wanted, mut stride) = (count, 1);
            if let Label::Place(i) = label {
                let plan = &self.plans[*i];
                let (line, first) = (&plan.line, plan.places().0);
                if plan.phases != 1 {
                    extent *= plan.phases as usize;
                    (start, count) = ((plan.first - first * plan.phases) as usize, plan.count);
                }
                wanted = count;
                if plan.phases != 1 || plan.common != 1 {
                    let all = line.scale * (line.results as i64 - 1);
                    let last = plan.common * (plan.first + count as i64 - 1);
                    spread.low[axis] = plan.common * plan.first - line.offset;
                    spread.high[axis] = line.offset + all - last;
                    spread.interior[axis] = plan.common as usize - 1;
                    (wanted, stride) = (all as usize + 1, line.scale as usize);
                }
            }
            shape.push(extent);
            cut.start.push(start);
            cut.limit.push(start + count);
            cut.strides.push(1);
            picked.start.push(0);
            picked.limit.push(wanted);
            picked.strides.push(stride);
        }
        let y = reshaped(b, sum.atom, &shape);
        let y = cut_to(b, y, cut);
        let y = match spread.is_nothing() {
            true => y,
            false => b.emit1(spread, &[y, Literal::zero(b.dtype_of(y)).into()]),
        };
        let y = cut_to(b, y, picked);
        let mirrored = |label: &Label| match label {
            Label::Place(i) => self.plans[*i].line.mirrored,
            _ => false,
        };
        let axes: Vec<usize> = (0..rank).filter(|a| mirrored(&self.target[*a])).collect();
        Some(if axes.is_empty() { y } else { b.emit1(Rev { axes }, &[y]) })
    }
}

/// Emits the slice `cut` of `x`, or returns `x` if the slice is the whole array.
fn cut_to(b: &Builder<'_>, x: Atom, cut: Slice) -> Atom {
    let nothing = cut.limit[..] == b.shape_of(x)[..]
        && cut.start.iter().all(|n| *n == 0)
        && cut.strides.iter().all(|n| *n == 1);
    if nothing { x } else { b.emit1(cut, &[x]) }
}

/// Emits `x` with zeros in front of and behind some axes, given as (axis, front, behind); a negative number
/// removes elements.
fn padded(b: &Builder<'_>, x: Atom, edges: &[(usize, i64, i64)]) -> Atom {
    let rank = b.shape_of(x).len();
    let mut pad = Pad { low: vec![0; rank], high: vec![0; rank], interior: vec![0; rank] };
    for (axis, low, high) in edges {
        (pad.low[*axis], pad.high[*axis]) = (*low, *high);
    }
    let zero = Literal::zero(b.dtype_of(x)).into();
    if pad.is_nothing() { x } else { b.emit1(pad, &[x, zero]) }
}
