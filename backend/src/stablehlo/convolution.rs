//! Recognizes convolutions: a contraction of a kernel with the windows of an array is written as
//! `stablehlo.convolution`.
//!
//! In the language, a convolution is a contraction of a kernel with a view whose elements are the windows of an array
//! x. Along each axis of x, the view's index is
//!
//! ```text
//! (stride o + dilation k + offset) / divisor
//! ```
//!
//! for an axis o that the contraction keeps and an axis k over which it sums. Such an axis of x is a spatial axis of
//! the convolution, with padding `-offset`, and with `divisor - 1` zeros between the elements of x. An axis of x whose
//! index is one axis of the view, unchanged, is a batch axis if the contraction keeps it, a feature axis if the
//! contraction sums over it, and a group axis if it is a batch axis of the contraction. The derivatives of a
//! convolution have the same form, with the roles of o and k exchanged, or with a divisor.
//!
//! If only convolutions read the view, it is not written.

use super::types::{integers, list};
use super::writer::{Value, Writer};
use smallvec::SmallVec;
use tapeloom_ir::prim::{AxisMap, Lowering, Piece};
use tapeloom_ir::{ArrayType, Atom, Equation, Function, Module, Shape, ValueId};

/// A contraction that is a convolution.
pub(super) struct Convolution {
    /// The array whose windows are read.
    pub(super) x: Atom,
    /// The kernel, with which the windows are multiplied.
    pub(super) kernel: Atom,
    /// The batch axes of x. Axes of x with extent 1 may be in none of the lists `batch`, `groups` and `features`.
    batch: Vec<usize>,
    groups: Vec<usize>,
    features: Vec<usize>,
    spatial: Vec<Spatial>,
    /// The axes of the kernel by their role: groups and features, in the order of the axes of x with these roles, and
    /// free axes, which the result keeps.
    kernel_groups: Vec<usize>,
    kernel_features: Vec<usize>,
    kernel_free: Vec<usize>,
    /// For each axis of the result: its index in the list of all group, batch, spatial and free axes.
    order: Vec<usize>,
}

/// An axis of x along which the window moves.
struct Spatial {
    axis: usize,
    /// The number of windows along this axis.
    windows: usize,
    /// The distance in elements of x between neighbouring windows.
    stride: i64,
    /// The axis of the kernel that runs along this axis, if there is one.
    kernel_axis: Option<usize>,
    /// The number of elements of the kernel along this axis.
    taps: usize,
    /// The distance in elements of x between neighbouring elements of the kernel.
    dilation: i64,
    /// Whether the kernel's elements are read in reverse order along this axis.
    reversed: bool,
    low: i64,
    divisor: i64,
}

/// The role that an axis of the windows has in the contraction. The number is the kernel's axis that it is contracted
/// with.
#[derive(Clone, Copy)]
enum Role {
    Kept,
    Summed(usize),
    Batch(usize),
}

/// For each value of a function, the equation that defines it.
pub(super) struct Definitions<'a> {
    module: &'a Module,
    f: &'a Function,
    of: cranelift_entity::SecondaryMap<ValueId, Option<u32>>,
}

impl<'a> Definitions<'a> {
    pub(super) fn of(module: &'a Module, f: &'a Function) -> Definitions<'a> {
        let mut of = cranelift_entity::SecondaryMap::new();
        for (i, e) in f.equations.iter().enumerate() {
            for v in &e.outputs {
                of[*v] = u32::try_from(i).ok();
            }
        }
        Definitions { module, f, of }
    }

    /// Returns the index of the equation that defines a value; `None` for a literal or a parameter.
    pub(super) fn index(&self, x: Atom) -> Option<usize> {
        self.of[x.value()?].map(|i| i as usize)
    }

    /// Returns the equation that defines a value, and its lowering; `None` for a literal or a parameter.
    pub(super) fn definition(&self, x: Atom) -> Option<(&'a Equation, Lowering)> {
        let e: &Equation = &self.f.equations[self.index(x)?];
        Some((e, e.lower(self.module, self.f)))
    }

    pub(super) fn shape(&self, x: Atom) -> Option<Shape> {
        self.f.type_of(x).as_array().map(|ty| ty.shape.clone())
    }

    /// If `x` is a view with a single piece, returns the piece, the array that it reads, and whether all elements of
    /// the view outside of the piece are zero (true if there are none).
    pub(super) fn view(&self, x: Atom) -> Option<(Piece, Atom, bool)> {
        let (e, Lowering::View { pieces, fill }) = self.definition(x)? else { return None };
        let [piece] = pieces.as_slice() else { return None };
        let zero = |i: usize| match e.operands[i] {
            Atom::Literal(x) => x.is_zero(),
            Atom::Value(_) => false,
        };
        Some((piece.clone(), e.operands[piece.operand], fill.is_none_or(zero)))
    }

    /// If `x` consists of windows, returns the array from which they are taken, and the map of each of its axes. If
    /// that array is itself a view that only repeats or reorders axes, returns the view's operand instead.
    fn windows(&self, x: Atom) -> Option<(Atom, Vec<AxisMap>)> {
        let (piece, mut array, zero) = self.view(x)?;
        let mut maps = piece.axes;
        if !zero || maps.iter().all(|map| map.terms.len() < 2) {
            return None;
        }
        while let Some((inner, next, _)) = self.view(array) {
            let plain = |(map, extent): (&AxisMap, &usize)| match map.terms.as_slice() {
                [] => map.apply(&[], *extent) == Some(0) && *extent == 1,
                [(_, 1)] => map.offset == 0 && map.divisor == 1,
                _ => false,
            };
            let (from, to) = (self.shape(next)?, self.shape(array)?);
            let whole =
                |(map, n): (&AxisMap, &usize)| map.terms.first().is_none_or(|t| to[t.0] == *n);
            let axes = || inner.axes.iter().zip(from.iter());
            if !axes().all(plain) || !axes().all(whole) {
                break;
            }
            let through = |map: &AxisMap| match map.terms.first() {
                Some((axis, _)) => maps[*axis].clone(),
                None => AxisMap::zero(),
            };
            maps = inner.axes.iter().map(through).collect();
            array = next;
        }
        Some((array, maps))
    }

    /// Returns the convolution that computes the same array as the contraction `e`; `None` if there is none.
    pub(super) fn convolution(
        &self,
        e: &Equation,
        batch: &[(usize, usize)],
        contract: &[(usize, usize)],
    ) -> Option<Convolution> {
        let is_float = self.f.type_of(e.operands[0]).as_array()?.dtype.is_float();
        if !is_float {
            return None;
        }
        (0..2).find_map(|side| self.convolution_of(e, batch, contract, side))
    }

    /// Returns the convolution, if operand `side` of the contraction `e` consists of windows of an array; otherwise
    /// `None`.
    fn convolution_of(
        &self,
        e: &Equation,
        batch: &[(usize, usize)],
        contract: &[(usize, usize)],
        side: usize,
    ) -> Option<Convolution> {
        let windows = e.operands[side];
        let kernel = e.operands[1 - side];
        let (x, maps) = self.windows(windows)?;
        let (shape, extents) = (self.shape(x)?, self.shape(windows)?);
        let kernel_shape = self.shape(kernel)?;
        if [&shape, &extents, &kernel_shape].iter().any(|shape| shape.elements() == 0) {
            return None;
        }
        let own = |p: &(usize, usize)| if side == 0 { *p } else { (p.1, p.0) };
        let mut roles = vec![Role::Kept; extents.len()];
        contract.iter().map(own).for_each(|(axis, k)| roles[axis] = Role::Summed(k));
        batch.iter().map(own).for_each(|(axis, k)| roles[axis] = Role::Batch(k));
        let mut all = Convolution {
            x,
            kernel,
            batch: Vec::new(),
            groups: Vec::new(),
            features: Vec::new(),
            spatial: Vec::new(),
            kernel_groups: Vec::new(),
            kernel_features: Vec::new(),
            kernel_free: Vec::new(),
            order: Vec::new(),
        };
        // For each axis of the windows that is in the result: its role in the convolution.
        let mut kept: Vec<(usize, Place)> = Vec::new();
        let mut seen = vec![0; extents.len()];
        for (axis, map) in maps.iter().enumerate() {
            map.terms.iter().for_each(|(q, _)| seen[*q] += 1);
            let n = shape[axis];
            match map.terms.as_slice() {
                [] if n == 1 && map.apply(&[], 1) == Some(0) => {}
                [(q, 1)] if map.offset == 0 && map.divisor == 1 && extents[*q] == n => {
                    match roles[*q] {
                        Role::Kept => {
                            kept.push((*q, Place::Batch(all.batch.len())));
                            all.batch.push(axis);
                        }
                        Role::Summed(k) => {
                            all.features.push(axis);
                            all.kernel_features.push(k);
                        }
                        Role::Batch(k) => {
                            kept.push((*q, Place::Group(all.groups.len())));
                            all.groups.push(axis);
                            all.kernel_groups.push(k);
                        }
                    }
                }
                terms => {
                    let spatial = Spatial::of(axis, map, terms, &roles, &extents)?;
                    for (q, _) in terms {
                        if let Role::Kept = roles[*q] {
                            kept.push((*q, Place::Spatial(all.spatial.len())));
                        }
                    }
                    all.spatial.push(spatial);
                }
            }
        }
        if seen.iter().any(|n| *n != 1) {
            return None;
        }
        let used = |k: &usize| contract.iter().chain(batch).any(|p| own(p).1 == *k);
        all.kernel_free = (0..kernel_shape.len()).filter(|k| !used(k)).collect();
        all.order = all.result_order(&kept, &roles, batch.iter().map(|p| own(p).0), side);
        Some(all)
    }
}

/// The role that an axis of the windows has in a convolution, with its index in the list of axes with this role.
#[derive(Clone, Copy)]
enum Place {
    Group(usize),
    Batch(usize),
    Spatial(usize),
}

impl Spatial {
    fn of(
        axis: usize,
        map: &AxisMap,
        terms: &[(usize, i64)],
        roles: &[Role],
        extents: &Shape,
    ) -> Option<Spatial> {
        let mut of = Spatial {
            axis,
            windows: 1,
            stride: 1,
            kernel_axis: None,
            taps: 1,
            dilation: 1,
            reversed: false,
            low: -map.offset,
            divisor: map.divisor,
        };
        let (mut kept, mut summed) = (0, 0);
        for (q, factor) in terms {
            match roles[*q] {
                Role::Kept if *factor > 0 => {
                    (of.windows, of.stride) = (extents[*q], *factor);
                    kept += 1;
                }
                Role::Summed(k) => {
                    (of.kernel_axis, of.taps) = (Some(k), extents[*q]);
                    (of.dilation, of.reversed) = (factor.abs(), *factor < 0);
                    if *factor < 0 {
                        // With a negative factor the kernel is reversed, and its last element meets the first element
                        // of the window.
                        of.low -= factor * (of.taps as i64 - 1);
                    }
                    summed += 1;
                }
                Role::Kept | Role::Batch(_) => return None,
            }
        }
        (kept < 2 && summed < 2).then_some(of)
    }

    /// Returns the padding after the last element of an axis of x with extent `n`.
    fn high(&self, n: usize) -> i64 {
        let reach =
            (self.windows as i64 - 1) * self.stride + (self.taps as i64 - 1) * self.dilation + 1;
        reach - self.low - ((n as i64 - 1) * self.divisor + 1)
    }
}

impl Convolution {
    /// Returns, for each axis of the result, its index in the list of all group, batch, spatial and free axes; `None`
    /// if an axis is not in this list.
    fn result_order(
        &self,
        kept: &[(usize, Place)],
        roles: &[Role],
        batch: impl Iterator<Item = usize>,
        side: usize,
    ) -> Vec<usize> {
        let (groups, batches) = (self.groups.len(), self.batch.len());
        // The operation's result has its axes in this order: batch, groups, the kernel's free axes, spatial axes.
        let free = self.kernel_free.len();
        let place = |q: usize| {
            let found = kept.iter().find(|(axis, _)| *axis == q).map(|(_, place)| *place);
            match found {
                Some(Place::Batch(i)) => i,
                Some(Place::Group(i)) => batches + i,
                Some(Place::Spatial(i)) => batches + groups + free + i,
                None => usize::MAX,
            }
        };
        let mut order: Vec<usize> = batch.map(place).collect();
        let windows = (0..roles.len()).filter(|q| matches!(roles[*q], Role::Kept)).map(place);
        let kernel = (0..free).map(|i| batches + groups + i);
        match side {
            0 => order.extend(windows.chain(kernel)),
            _ => order.extend(kernel.chain(windows)),
        }
        order
    }

    /// Appends the operations of the convolution. Returns the result, which has the type `ty`.
    pub(super) fn emit(&self, w: &mut Writer, x: &Value, kernel: &Value, ty: &ArrayType) -> Value {
        let product =
            |of: &Value, axes: &[usize]| axes.iter().map(|a| of.ty.shape[*a]).product::<usize>();
        let groups = product(x, &self.groups);
        // Reshape x to the axes batch, groups and features, spatial axes.
        let spatial: Vec<usize> = self.spatial.iter().map(|s| s.axis).collect();
        let dropped = (0..x.ty.shape.len()).filter(|axis| {
            ![&self.batch, &self.groups, &self.features, &spatial].iter().any(|l| l.contains(axis))
        });
        let by: Vec<usize> = [&self.batch, &self.groups, &self.features, &spatial]
            .into_iter()
            .flatten()
            .copied()
            .chain(dropped)
            .collect();
        let input = super::views::transpose(w, x, &by);
        let extents = [product(x, &self.batch), groups * product(x, &self.features)];
        let extents = extents.into_iter().chain(spatial.iter().map(|a| x.ty.shape[*a]));
        let input = w.reshape(&input, extents.collect());
        // Reshape the kernel to the axes features, groups and free axes, spatial axes.
        let taps: Vec<usize> = self.spatial.iter().filter_map(|s| s.kernel_axis).collect();
        let backwards = self.spatial.iter().filter(|s| s.reversed && s.taps > 1);
        let backwards: Vec<usize> = backwards.filter_map(|s| s.kernel_axis).collect();
        let filter = w.reverse(kernel, &backwards);
        let by: Vec<usize> = [&self.kernel_features, &self.kernel_groups, &self.kernel_free, &taps]
            .into_iter()
            .flatten()
            .copied()
            .collect();
        let filter = super::views::transpose(w, &filter, &by);
        let outputs = groups * product(kernel, &self.kernel_free);
        let extents = [product(kernel, &self.kernel_features), outputs];
        let extents = extents.into_iter().chain(self.spatial.iter().map(|s| s.taps));
        let filter = w.reshape(&filter, extents.collect());
        let windows = self.spatial.iter().map(|s| s.windows);
        let shape: Shape =
            [product(x, &self.batch), outputs].into_iter().chain(windows.clone()).collect();
        let numbers: Vec<String> = (0..self.spatial.len()).map(|i| format!(", {i}")).collect();
        let numbers = numbers.concat();
        let padding: Vec<String> =
            (self.spatial.iter()).map(|s| list([s.low, s.high(x.ty.shape[s.axis])])).collect();
        let attributes = format!(
            "{{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f{numbers}]x[i, o{numbers}]->[b, f{numbers}]>, feature_group_count = {groups} : i64, lhs_dilation = {}, padding = dense<[{}]> : tensor<{}x2xi64>, precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>], rhs_dilation = {}, window_strides = {}}}",
            integers(self.spatial.iter().map(|s| s.divisor)),
            padding.join(", "),
            self.spatial.len(),
            integers(self.spatial.iter().map(|s| s.dilation)),
            integers(self.spatial.iter().map(|s| s.stride)),
        );
        let y = ArrayType::new(x.ty.dtype, shape);
        let y = w.generic("stablehlo.convolution", &[&input, &filter], &attributes, y);
        // Separate the merged axes of the result, and bring them into the order of the contraction.
        let extent = |of: &Value, axes: &[usize]| -> SmallVec<[usize; 4]> {
            axes.iter().map(|a| of.ty.shape[*a]).collect()
        };
        let own: Shape = extent(x, &self.batch)
            .into_iter()
            .chain(extent(x, &self.groups))
            .chain(extent(kernel, &self.kernel_free))
            .chain(windows)
            .collect();
        // A spatial axis with one window may have no axis in the contraction's result. It has extent 1 in the
        // operation's result, and the reshape drops it.
        let rest = (0..own.len()).filter(|axis| !self.order.contains(axis));
        let order: Vec<usize> = self.order.iter().copied().chain(rest).collect();
        let y = w.reshape(&y, own);
        let y = super::views::transpose(w, &y, &order);
        w.reshape(&y, ty.shape.clone())
    }
}
