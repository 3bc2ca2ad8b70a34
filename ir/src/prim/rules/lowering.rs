//! Lowerings: the operations of all primitives in twenty target-neutral forms.
//!
//! A backend never sees a primitive. It matches on [`Lowering`], which expresses the primitive by loops and
//! indices: apply scalar code, read at other indices, reduce, contract, ...

use crate::address_space;
use crate::lang::function::{Atom, Equation, FuncId, Function};
use crate::lang::host::HostCall;
use crate::lang::literal::Literal;
use crate::lang::module::Module;
use crate::lang::problem::Problem;
use crate::lang::types::{ArrayType, Dtype, Shape, Type};
use crate::prim::facet::Facet;
use crate::prim::{Bounds, Code, Combine, LoopSpec, Mark, Op, Operand, RoutineCall};
use crate::sharding::PartitionSpec;
use crate::tensor::Tensor;
use smallvec::{SmallVec, smallvec};

/// The target-neutral operation of an equation with one output (or with several outputs, if it runs functions).
#[derive(Clone, Debug)]
pub enum Lowering {
    /// The elementwise operation `y[i] = code(x0[i], x1[i], ..)`; literals, and only literals, have no shape.
    Elementwise(Code),
    /// A view: `y[i]` is an element of one of the operands, found by index arithmetic (broadcast, permute, slice, rev,
    /// pad, concatenate, window). The first piece that contains `i` provides the element. If there is none, the element
    /// is the scalar operand `fill`.
    View {
        /// The sources of elements: operands, each with the index that is read.
        pieces: Vec<Piece>,
        /// The index of the scalar operand that fills all elements which no piece provides; `None` if the pieces cover
        /// the output.
        fill: Option<usize>,
    },
    /// The elements of the operand in row-major order under another shape.
    Reshape,
    /// The output is the operand itself, with no computation: `stop_gradient`, barriers and `sharded`.
    Alias {
        /// The purpose of the barrier, if the primitive is one.
        mark: Option<Mark>,
        /// The division of the output among devices; `None` if the program does not state one.
        sharding: Option<PartitionSpec>,
    },
    /// Each element `y[i]` is its own index along `axis`, in the output's dtype.
    Iota {
        /// The axis along which the output's elements count up from 0.
        axis: usize,
    },
    /// A fold over `axes`: `y[other axes] = fold(code, identity, x[other axes, axes])`, in row-major
    /// order of the operand; `y = x` if `axes` is empty.
    Reduce {
        /// The operation of the fold, associative and commutative in exact arithmetic.
        code: Code,
        /// The initial value of the fold, which is also the result for no elements.
        identity: Literal,
        /// The folded axes, ascending.
        axes: Vec<usize>,
    },
    /// The index (i64) of the first extremum along `axis`; NaN counts as more extreme than numbers.
    ArgReduce {
        /// The axis along which the extremum is searched.
        axis: usize,
        /// Whether the index of the maximum is computed, not that of the minimum.
        largest: bool,
    },
    /// A scan along an axis: each element is computed from the one before it, `y[i] = step(y[i-1], ..)`. The first
    /// element is the first element of the last operand.
    Cumulate {
        /// The axis along which elements are computed one after the other.
        axis: usize,
        /// Whether the computation runs from the last element to the first.
        reverse: bool,
        /// The computation of an element from the element before it.
        step: Step,
    },
    /// The indices (i64) of the elements along an axis in ascending or descending order; equal elements stay in
    /// their order, and NaN is largest.
    ArgSort {
        /// The sorted axis.
        axis: usize,
        /// Whether the largest element comes first.
        descending: bool,
        /// The number of indices that are computed: the extent of the sorted axis in the output.
        first: usize,
    },
    /// A contraction, `y[batch, m, n] = sum_k x0[batch, m, k] x1[batch, k, n]`, with possibly several axes of
    /// each kind.
    Contract {
        /// Batch axes, shared and kept in the result, as pairs (axis of x0, axis of x1).
        batch: Vec<(usize, usize)>,
        /// Contracted axes, shared and summed over, as pairs (axis of x0, axis of x1).
        contract: Vec<(usize, usize)>,
    },
    /// A box of an array, `y[i] = x0[start + i]`; operands after the first are the scalar starts, clamped to fit.
    DynamicSlice,
    /// An array with a box replaced: `y = x0` with `x1` written at `start`; operands after the second are the
    /// scalar starts, clamped to fit.
    DynamicUpdateSlice,
    /// A gather with the operands (array, indices): see [`crate::prim::Gather`].
    Gather {
        /// The number of leading axes that array and indices share.
        batch: usize,
        /// The indexed axes of the array: component `k` on the last axis of the indices is an index along `axes[k]`.
        axes: Vec<usize>,
        /// The treatment of out-of-range indices: they are clamped, or their reads and writes are dropped.
        bounds: Bounds,
    },
    /// A scatter with the operands (array, indices, updates), combined in row-major order of the updates: see
    /// [`crate::prim::Scatter`].
    Scatter {
        /// The operation that combines an update with the array's element.
        combine: Combine,
        /// The number of leading axes that array, indices and updates share.
        batch: usize,
        /// The indexed axes of the array: component `k` on the last axis of the indices is an index along `axes[k]`.
        axes: Vec<usize>,
        /// The treatment of out-of-range indices: they are clamped, or their reads and writes are dropped.
        bounds: Bounds,
    },
    /// Calls a Rust function with the operands. A function without results is called once, in program order.
    Host(HostCall),
    /// Calls a library routine on the members of a batch: see [`RoutineCall`].
    Routine(RoutineCall),
    /// Runs a function on the operands.
    Call(FuncId),
    /// Runs one of several functions: the first operand selects it ([`crate::prim::Cond`]), the others are its
    /// arguments.
    Branch {
        /// The functions, one per branch, all of one type.
        branches: Vec<FuncId>,
    },
    /// Runs a function in every iteration: see [`LoopSpec`].
    Loop {
        /// The function that runs in every iteration.
        body: FuncId,
        /// The trip count, the order of the iterations, and the source of each of the function's parameters.
        spec: LoopSpec,
    },
    /// The equation cannot be evaluated, for the given reason.
    Missing(Problem),
}

/// The computation of one element of a scan from the element before it along the axis.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// A running fold: `y[i] = code(y[i-1], x0[i])`.
    Fold(Code),
    /// A linear recurrence: `y[i] = x0[i] y[i-1] + x1[i]`.
    Affine,
    /// A running sum that restarts: `y[i] = y[i-1] + x1[i]` where `x0[i]` is true, `x1[i]` where it is false.
    Segments,
}

/// One source of a [`Lowering::View`]: an operand, and the index that is read along each of its axes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// The index of the operand that this part of the view reads.
    pub operand: usize,
    /// For each axis of the operand, the map from the output's indices to the operand's index.
    pub axes: Vec<AxisMap>,
}

/// The index along one axis of the operand as a function of the output's indices `o`:
/// `(Σ factor * o[axis] + offset) / divisor`. The element belongs to the piece only if the division is exact
/// and the index is within the operand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AxisMap {
    /// The terms `factor * o[axis]` as pairs (axis, factor). A factor is negative along a reversed axis,
    /// never 0; no axis occurs twice.
    pub terms: SmallVec<[(usize, i64); 2]>,
    /// The number that is added to the sum of the terms.
    pub offset: i64,
    /// The divisor, at least 1.
    pub divisor: i64,
}

impl AxisMap {
    /// Returns the axis map by which the operand is read at the output's index along `axis`.
    pub fn same(axis: usize) -> AxisMap {
        AxisMap::scaled(axis, 1, 0)
    }
    /// Returns the axis map by which the operand is always read at index 0.
    pub fn zero() -> AxisMap {
        AxisMap { terms: SmallVec::new(), offset: 0, divisor: 1 }
    }
    /// Returns the axis map by which the operand is read at the output's index along `axis` plus `offset`.
    pub fn shifted(axis: usize, offset: i64) -> AxisMap {
        AxisMap::scaled(axis, 1, offset)
    }
    /// Returns the axis map by which the operand is read at the output's index along `axis` times `factor`, plus
    /// `offset`.
    pub fn scaled(axis: usize, factor: i64, offset: i64) -> AxisMap {
        AxisMap { terms: smallvec![(axis, factor)], offset, divisor: 1 }
    }
    /// Returns the index into the operand for the given output indices; `None` if it is not in `0..extent`.
    pub fn apply(&self, output: &[usize], extent: usize) -> Option<usize> {
        let sum = self.terms.iter().map(|(axis, factor)| output[*axis] as i64 * factor).sum();
        self.index(sum, extent)
    }
    /// Returns the index into the operand, given the sum of the terms `factor * o[axis]` over output indices; `None` if
    /// it is not in `0..extent`.
    fn index(&self, sum: i64, extent: usize) -> Option<usize> {
        let n = sum + self.offset;
        if n.rem_euclid(self.divisor) != 0 {
            return None;
        }
        usize::try_from(n.div_euclid(self.divisor)).ok().filter(|i| *i < extent)
    }
}

/// The largest number in index arithmetic. Larger attributes and extents are rejected, so that
/// `o * scale + offset` never overflows i64.
pub(crate) const INDEX_LIMIT: usize = address_space::limit(60);

/// Evaluates [`Lowering::View`] on concrete operands.
///
/// If several pieces contain an element, the first one provides it, so the pieces are copied over the fill from
/// last to first. If each axis map reads one output axis, the elements of a piece are a product of lists, one
/// per output axis, of (output offset, operand offset). Otherwise the output axes that one map reads share a
/// list.
pub(crate) fn eval_view(
    operands: &[Tensor],
    pieces: &[Piece],
    fill: Option<usize>,
    shape: &Shape,
) -> Result<Tensor, Problem> {
    let model = pieces.first().map(|p| p.operand).or(fill);
    let dtype = model.map_or(Dtype::Bool, |i| operands[i].dtype());
    let mut y = match fill {
        Some(fill) => Tensor::full(shape, operands[fill].at(0))?,
        None => Tensor::zeros_of(&ArrayType::new(dtype, shape.clone()))?,
    };
    // Return before indices are enumerated if the view is empty: if one extent is 0, another may be too large.
    if y.elements() == 0 {
        return Ok(y);
    }
    for piece in pieces.iter().rev() {
        let x = &operands[piece.operand];
        let Some((from, steps)) = steps(piece, &x.ty().shape, shape) else { continue };
        match dtype.bytes() {
            1 => paint::<u8>(&mut y, x, from, &steps),
            4 => paint::<u32>(&mut y, x, from, &steps),
            _ => paint::<u64>(&mut y, x, from, &steps),
        }
    }
    Ok(y)
}

/// For each index along a group of output axes at which a [`Piece`] has an element: the offset of the element in the
/// output, and in the operand.
type Steps = Vec<(usize, usize)>;

/// Lists the elements that a view reads from one operand `x`: the offset of the first in `x`, and for each group of
/// output axes the pairs (output offset, operand offset). Returns `None` if the view reads no element from `x`.
fn steps(piece: &Piece, x: &Shape, y: &Shape) -> Option<(usize, Vec<Steps>)> {
    let (x_strides, y_strides) = (x.strides(), y.strides());
    let maps = || piece.axes.iter().zip(x.iter().zip(&x_strides));
    let mut from = 0;
    for (map, (extent, stride)) in maps().filter(|(map, _)| map.terms.is_empty()) {
        from += map.apply(&[], *extent)? * stride;
    }
    let mut all = Vec::with_capacity(y.len());
    for axes in joined_axes(piece, y.len()) {
        let own = |map: &AxisMap| map.terms.first().is_some_and(|(axis, _)| axes.contains(axis));
        let extents: Vec<usize> = axes.iter().map(|axis| y[*axis]).collect();
        let mut index = vec![0; y.len()];
        let mut inner = vec![0; axes.len()];
        let mut found = Steps::new();
        for _ in 0..extents.iter().product() {
            for (axis, i) in axes.iter().zip(&inner) {
                index[*axis] = *i;
            }
            let distance = maps()
                .filter(|(map, _)| own(map))
                .try_fold(0, |sum, (map, (n, stride))| Some(sum + map.apply(&index, *n)? * stride));
            if let Some(distance) = distance {
                found.push((
                    axes.iter().map(|axis| index[*axis] * y_strides[*axis]).sum(),
                    distance,
                ));
            }
            crate::tensor::step_index(&mut inner, &extents);
        }
        if found.is_empty() {
            return None;
        }
        all.push(found);
    }
    Some((from, all))
}

/// Returns the output axes in groups: axes that the same axis map reads are in one group.
fn joined_axes(piece: &Piece, rank: usize) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = (0..rank).map(|axis| vec![axis]).collect();
    for map in &piece.axes {
        let read = |group: &Vec<usize>| map.terms.iter().any(|(axis, _)| group.contains(axis));
        let (together, mut rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(read);
        let mut together = together.concat();
        together.sort_unstable();
        if !together.is_empty() {
            rest.push(together);
        }
        groups = rest;
    }
    groups.sort_unstable();
    groups
}

/// Copies the elements of `x` at the offsets `from` plus those in `steps` into `y`. `T` is any type of the size of an
/// element.
fn paint<T: bytemuck::Pod>(y: &mut Tensor, x: &Tensor, from: usize, steps: &[Steps]) {
    let x: &[T] = bytemuck::cast_slice(x.bytes());
    let y: &mut [T] = bytemuck::cast_slice_mut(y.bytes_mut());
    let Some((inner, outer)) = steps.split_last() else {
        y[0] = x[from];
        return;
    };
    let counts: Vec<usize> = outer.iter().map(Vec::len).collect();
    let mut index = vec![0; counts.len()];
    for _ in 0..counts.iter().product() {
        let (mut to, mut from) = (0, from);
        for (axis, i) in outer.iter().zip(&index) {
            to += axis[*i].0;
            from += axis[*i].1;
        }
        for (dy, dx) in inner {
            y[to + dy] = x[from + dx];
        }
        crate::tensor::step_index(&mut index, &counts);
    }
}

impl Module {
    /// Returns whether a function, or one that it runs, overwrites a part of an array (an update or a
    /// scatter).
    pub fn writes(&self, id: FuncId) -> bool {
        let f = self.function(id);
        f.equations.iter().any(|e| {
            let written = e.lower(self, f);
            matches!(written, Lowering::Scatter { .. } | Lowering::DynamicUpdateSlice)
                || e.runs().any(|inside| crate::deeper(|| self.writes(inside)))
        })
    }
}

impl Equation {
    /// Returns the functions that the equation runs; derivative rules are not among them.
    pub fn runs(&self) -> impl Iterator<Item = FuncId> {
        self.op
            .regions()
            .into_iter()
            .filter(|r: &crate::prim::Region| r.role.runs())
            .map(|r| r.function)
    }

    /// Returns the lowering of this equation of the function `f`.
    pub fn lower(&self, module: &Module, f: &Function) -> Lowering {
        self.with_operands(f, |operands| self.op.lower(module, operands))
    }

    /// Calls `run` with the types and literals of the operands of this equation of the function `f`.
    pub fn with_operands<T>(&self, f: &Function, run: impl FnOnce(&[Operand<'_>]) -> T) -> T {
        let types: Vec<Type> = self.operands.iter().map(|a| f.type_of(*a)).collect();
        let operand = |(ty, a): (_, &Atom)| Operand { ty, literal: a.literal() };
        let operands: Vec<Operand<'_>> = types.iter().zip(&self.operands).map(operand).collect();
        run(&operands)
    }
}

impl Op {
    /// Returns the body and the signature of a loop; `None` for other primitives.
    pub fn as_loop(&self) -> Option<(FuncId, LoopSpec)> {
        let Facet::Loop(of) = self.facet() else { return None };
        Some((of.body, of.spec.clone()))
    }

    /// Returns the primitive with other functions in place of the functions that it runs. Derivative rules are
    /// not run and stay.
    ///
    /// # Errors
    /// The errors of `other`.
    pub fn with_runs(
        &self,
        mut other: impl FnMut(FuncId) -> Result<FuncId, Problem>,
    ) -> Result<Op, Problem> {
        let regions = self.regions();
        let of = |r: &crate::prim::Region| match r.role.runs() {
            true => other(r.function),
            false => Ok(r.function),
        };
        let functions = regions.iter().map(of).collect::<Result<Vec<FuncId>, Problem>>()?;
        Ok(self.with_regions(&functions))
    }

    /// Returns the loop with another body and another signature; `None` if the primitive is not a loop.
    pub fn with_iterations(&self, body: FuncId, spec: LoopSpec) -> Option<Op> {
        let Facet::Loop(of) = self.facet() else { return None };
        Some(crate::prim::Loop { body, spec, carries: of.carries }.into())
    }
}
