//! Convolutions of arrays with channels.

use super::geometry::{AxisWindows, Steps, steps, view};
use crate::Var;
use crate::ops::{emit, permute, wrong};
use crate::var::{IntoVar, caller, on_behalf};
use tapeloom_ir::prim::Dot;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Loc, Problem};

/// The options of a convolution: strides, padding, dilations, groups and the order of axes.
///
/// ```
/// use tapeloom::prelude::*;
/// let how = conv::Conv::new().strides([2]).same().channels_last();
/// let y = run(
///     |(x, w): (Var, Var)| conv::conv(x, w, how.clone()),
///     (Tensor::zeros(&[8, 32, 32, 3], Dtype::F32)?, Tensor::zeros(&[3, 3, 3, 16], Dtype::F32)?),
/// )?;
/// assert_eq!(y.shape(), [8, 16, 16, 16]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Conv {
    pub(super) steps: Steps,
    groups: usize,
    layout: Order,
}

/// The order of the axes.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Order {
    ChannelsFirst,
    ChannelsLast,
    Named([String; 3]),
}

steps!(Conv);

impl Default for Conv {
    fn default() -> Conv {
        Conv::new()
    }
}

impl Conv {
    /// Returns a convolution with stride 1 and without padding, for arrays `[batch, channels, spatial..]` and
    /// kernels `[output channels, input channels, spatial..]`, as in PyTorch and `jax.lax`.
    #[must_use]
    pub fn new() -> Conv {
        Conv { steps: Steps::default(), groups: 1, layout: Order::ChannelsFirst }
    }

    /// Divides the channels into `groups` groups, each of which is convolved separately: kernels have only the
    /// input channels of one group. If there are as many groups as channels, the convolution is depthwise.
    #[doc(alias = "feature_group_count")]
    #[doc(alias = "depthwise")]
    #[must_use]
    pub fn groups(self, groups: usize) -> Conv {
        Conv { groups, ..self }
    }

    /// Expects arrays `[batch, spatial.., channels]` and kernels `[spatial.., input channels, output channels]`, as
    /// in Flax and TensorFlow.
    #[doc(alias = "NHWC")]
    #[must_use]
    pub fn channels_last(self) -> Conv {
        Conv { layout: Order::ChannelsLast, ..self }
    }

    /// Sets the order of the axes of input, kernel and output, with one letter per axis: N is the batch, C the
    /// channels, O and I the output and input channels of a kernel. All other letters are spatial axes. Their order in
    /// the input is the order of strides, padding and dilations. For instance `layout("NHWC", "OIHW", "NHWC")`.
    #[doc(alias = "dimension_numbers")]
    #[must_use]
    pub fn layout(self, input: &str, kernel: &str, output: &str) -> Conv {
        let named = [input, kernel, output].map(str::to_owned);
        Conv { layout: Order::Named(named), ..self }
    }

    /// Converts kernels from `[spatial.., input channels, output channels]` to the layout of this convolution. Initial
    /// weights, such as those of [`nn::he_normal`](crate::nn::he_normal), have the former order of axes.
    ///
    /// Errors: `shape` if there are fewer than two axes, or if the layout has another number of axes.
    ///
    /// ```
    /// use tapeloom::prelude::*;
    /// let how = conv::Conv::new().same();
    /// let w = run(
    ///     |()| how.kernel(nn::he_normal(random::key(0), [5, 3, 8, 16], Dtype::F32)),
    ///     (),
    /// )?;
    /// assert_eq!(w.shape(), [16, 8, 5, 3]);
    /// # Ok::<(), tapeloom::Error>(())
    /// ```
    #[track_caller]
    pub fn kernel(&self, w: Var) -> Var {
        let at = caller();
        let ty = w.ty(at);
        match self.order_of_kernel(&ty) {
            Ok(order) => permute(w, order, at),
            Err(problem) => wrong(problem, &[w], ty, at),
        }
    }

    /// Returns, for each axis of a kernel in the layout of this convolution, its index in the order `[spatial.., input
    /// channels, output channels]`.
    fn order_of_kernel(&self, w: &ArrayType) -> Result<Vec<usize>, Problem> {
        let Some(d) = w.shape.len().checked_sub(2) else {
            let help = "it is [spatial.., input channels, output channels]";
            return Err(Problem::new(Kind::Shape, format!("`kernel` of {w}"), help));
        };
        let [input, kernel, _] = self.layout.letters(d);
        let spatial: Vec<char> = input.into_iter().filter(|l| !['N', 'C'].contains(l)).collect();
        let positions = positions("kernel", &kernel, ['O', 'I'], &spatial)?;
        let mut order = vec![0; d + 2];
        let axes = positions.spatial.iter().chain([&positions.channels, &positions.first]);
        axes.enumerate().for_each(|(from, to)| order[*to] = from);
        Ok(order)
    }
}

/// The indices of the axes of an array: `first` is the batch (in a kernel, the output channels), `channels` are the
/// channels (in a kernel, the input channels).
struct AxisPositions {
    first: usize,
    channels: usize,
    spatial: Vec<usize>,
}

/// The axes of input, kernel and output of a convolution, and its windows along the spatial axes.
struct Planned {
    input: AxisPositions,
    kernel: AxisPositions,
    output: AxisPositions,
    along: Vec<AxisWindows>,
}

impl Order {
    /// Returns one letter for each axis of input, kernel and output, which have `d` spatial axes.
    fn letters(&self, d: usize) -> [Vec<char>; 3] {
        let spatial: Vec<char> = (0..d).filter_map(|i| char::from_digit(i as u32, 36)).collect();
        let first = |two: [char; 2]| [&two[..], &spatial].concat();
        match self {
            Order::ChannelsFirst => [first(['N', 'C']), first(['O', 'I']), first(['N', 'C'])],
            Order::ChannelsLast => {
                let kernel = [&spatial[..], &['I', 'O']].concat();
                let data = [&['N'], &spatial[..], &['C']].concat();
                [data.clone(), kernel, data]
            }
            Order::Named(all) => [0, 1, 2].map(|i| all[i].chars().collect()),
        }
    }
}

/// Returns the indices of the axes of an array, given the letter of each axis. `two` are the letters of the first and
/// the channel axis, and `spatial` those of the spatial axes, in the order in which their indices are returned.
fn positions(
    name: &str,
    letters: &[char],
    two: [char; 2],
    spatial: &[char],
) -> Result<AxisPositions, Problem> {
    let at = |letter: char| letters.iter().position(|l| *l == letter);
    let found: Option<Vec<usize>> = spatial.iter().map(|letter| at(*letter)).collect();
    match (at(two[0]), at(two[1]), found) {
        (Some(first), Some(channels), Some(spatial)) if letters.len() == spatial.len() + 2 => {
            Ok(AxisPositions { first, channels, spatial })
        }
        _ => {
            let (axes, spatial) =
                (letters.iter().collect::<String>(), spatial.iter().collect::<String>());
            Err(Problem::new(
                Kind::Shape,
                format!("`{name}` with the axes {axes:?}"),
                format!(
                    "they are {} and {} and the spatial axes {spatial:?}, each once",
                    two[0], two[1]
                ),
            ))
        }
    }
}

fn planned(name: &str, x: &ArrayType, w: &ArrayType, how: &Conv) -> Result<Planned, Problem> {
    let wrong = |message: String, help: String| Err(Problem::new(Kind::Shape, message, help));
    if x.dtype != w.dtype {
        let message = format!("`{name}` of {x} with kernels {w}");
        let help = crate::dtype::conversions(x.dtype, w.dtype);
        return Err(Problem::new(Kind::Dtype, message, help));
    }
    if x.dtype == Dtype::Bool {
        let message = format!("`{name}` of {x} with kernels {w}");
        return Err(Problem::new(Kind::Dtype, message, "it is of numbers; convert both"));
    }
    let rank = x.shape.len();
    if rank < 2 || w.shape.len() != rank {
        return wrong(
            format!("`{name}` of {x} with kernels {w}"),
            "both have two axes and the spatial ones".to_owned(),
        );
    }
    let [input, kernel, output] = how.layout.letters(rank - 2);
    let spatial: Vec<char> = input.iter().copied().filter(|l| !['N', 'C'].contains(l)).collect();
    let distinct = (1..spatial.len()).all(|i| !spatial[..i].contains(&spatial[i]));
    if !distinct || spatial.len() + 2 != rank || spatial.iter().any(|l| ['O', 'I'].contains(l)) {
        return wrong(
            format!("`{name}` of {x} with the axes {:?}", input.iter().collect::<String>()),
            format!("it has {rank} axes: N, C and {} spatial ones, other letters", rank - 2),
        );
    }
    let input = positions(name, &input, ['N', 'C'], &spatial)?;
    let kernel = positions(name, &kernel, ['O', 'I'], &spatial)?;
    let output = positions(name, &output, ['N', 'C'], &spatial)?;
    let (channels, outputs) = (x.shape[input.channels], w.shape[kernel.first]);
    let fits = how.groups > 0
        && w.shape[kernel.channels].checked_mul(how.groups) == Some(channels)
        && outputs % how.groups == 0;
    if !fits {
        return wrong(
            format!(
                "`{name}` of {x} with kernels {w}, groups {}: {channels} channels, kernels for {} \
                 channels, {outputs} outputs",
                how.groups, w.shape[kernel.channels]
            ),
            "the number of channels is that of a kernel times the groups, and the number of \
             outputs a multiple of the groups"
                .to_owned(),
        );
    }
    let extents: Vec<usize> = input.spatial.iter().map(|axis| x.shape[*axis]).collect();
    let sizes: Vec<usize> = kernel.spatial.iter().map(|axis| w.shape[*axis]).collect();
    let along = how.steps.along(name, &extents, &sizes)?;
    Ok(Planned { input, kernel, output, along })
}

/// Emits the convolution of the input `x` with the kernel `w`. With n the batch, o.. the position in the output, c the
/// output channel, i the input channel, k the position in the window and low.. the padding at the front:
/// `y[n, o.., c] = Σ_k,i x[n, o strides + k dilation - low.., i] w[c, i, k..]`.
fn written(x: Var, w: Var, plan: &Planned, groups: usize, at: Loc) -> Var {
    let Planned { input, kernel, output, along } = plan;
    let rank = x.rank();
    // Splits the channel axis of an operand into groups and channels of a group, and moves the axis of the groups to
    // the front.
    let grouped = |x: Var, axis: usize| {
        let mut shape = x.shape().to_vec();
        let n = std::mem::replace(&mut shape[axis], groups);
        shape.insert(axis + 1, n / groups.max(1));
        x.reshape(shape).move_axis(axis as i64, 0)
    };
    let single = groups == 1;
    let lead = usize::from(!single);
    let zero = Literal::zero(x.dtype());
    // Group the array first and then form its windows, so that the windows are operands of the product itself and its
    // transposes recognize them.
    let (x, w) = match single {
        true => (x, w),
        false => (grouped(x, input.channels), grouped(w, kernel.first)),
    };
    let spatial: Vec<usize> = input.spatial.iter().map(|axis| axis + lead).collect();
    // Insert the axes within a window directly after the last spatial axis, so that with channels last they are
    // adjacent to the channels and merge with them.
    let first = spatial.iter().max().map_or(x.rank(), |last| last + 1);
    let windows = view(x, &spatial, along, first, zero, at);
    let channels = input.channels + lead;
    let channels = channels + if channels < first { 0 } else { along.len() };
    let mut contract = vec![(channels, kernel.channels + lead)];
    let positions = kernel.spatial.iter().enumerate();
    contract.extend(positions.map(|(i, axis)| (first + i, axis + lead)));
    contract.sort_unstable();
    let batch = if single { Vec::new() } else { vec![(0, 0)] };
    // The shape of the product is [groups, batch and spatial axes in the order of the input, output channels of a
    // group].
    let mut y = emit(Dot { batch, contract }, &[windows, w], at);
    if !single {
        y = y.move_axis(0, -2);
        let shape = y.shape();
        let (kept, last) = shape.split_at(rank - 1);
        y = y.reshape([kept, &[last.iter().product()]].concat());
    }
    // The axes of y are those of the input without its channels, then the output channels. `order` contains, for each
    // axis of the output, its index in y.
    let without = |axis: usize| axis - usize::from(axis > input.channels);
    let mut order = vec![0; rank];
    order[output.first] = without(input.first);
    order[output.channels] = rank - 1;
    for (from, to) in input.spatial.iter().zip(&output.spatial) {
        order[*to] = without(*from);
    }
    y.permute(order)
}

fn of(name: &'static str, x: Var, w: Var, how: &Conv, at: Loc) -> Var {
    match planned(name, &x.ty(at), &w.ty(at), how) {
        Ok(plan) => on_behalf(name, at, || written(x, w, &plan, how.groups, at)),
        Err(problem) => wrong(problem, &[x, w], x.ty(at), at),
    }
}

/// Returns the convolution of `x` with kernels `w`, arrays of numbers of one dtype; [`Conv`] sets axes, strides,
/// padding, dilations and groups. As usual in machine learning, kernels are not reversed. It is SciPy's `correlate2d`,
/// and with `w.flip([-2, -1])` its `convolve2d`.
///
/// ```
/// use tapeloom::prelude::*;
/// let slope = |(x, w): (Var, Var)| conv::conv(x, w, conv::Conv::new());
/// let (x, w) = ([[[1.0, 2.0, 4.0, 7.0]]], [[[-1.0, 1.0]]]);
/// assert_eq!(run(slope, (x, w))?.to_vec::<f64>()?, [1.0, 2.0, 3.0]);
/// check_grads(slope, (x, w), 2)?;
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: `dtype` if the dtypes differ; `shape` if axes, channels and groups do not fit, or if the length of a
/// list in [`Conv`] differs from the number of spatial axes.
#[doc(alias = "convolve2d", alias = "correlate2d")]
#[doc(alias = "conv1d")]
#[doc(alias = "conv2d")]
#[doc(alias = "conv3d")]
#[track_caller]
pub fn conv(x: Var, w: impl IntoVar, how: Conv) -> Var {
    let at = caller();
    let w = w.beside(x, at);
    of("conv", x, w, &how, at)
}

/// Computes [`conv`] under the name that this function has in JAX.
#[track_caller]
pub fn conv_general_dilated(x: Var, w: impl IntoVar, how: Conv) -> Var {
    conv(x, w, how)
}

/// Returns the transposed convolution (deconvolution) of `x`, which enlarges the array: the elements of `x` are spread
/// apart by the strides of `how`. With [`Conv::same`], an extent is that of `x` times the stride. [`Conv::same_lower`]
/// has the effect of [`Conv::same`]. Without padding (`VALID` in JAX), the result has all elements that a kernel
/// reaches. The padding of [`Conv::padding`] is added around the spread `x`. Kernels have the layout of [`conv`], as in
/// JAX.
///
/// ```
/// use tapeloom::prelude::*;
/// let twice = |(x, w): (Var, Var)| conv::conv_transpose(x, w, conv::Conv::new().strides([2]));
/// let y = run(twice, ([[[1.0, 2.0]]], [[[10.0, 1.0]]]))?;
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 10.0, 2.0, 20.0]);
/// # Ok::<(), tapeloom::Error>(())
/// ```
///
/// Errors: those of [`conv`]; `shape` if an input dilation is set, because the strides already act as one.
#[doc(alias = "conv_transpose2d")]
#[doc(alias = "deconvolution")]
#[track_caller]
pub fn conv_transpose(x: Var, w: impl IntoVar, how: Conv) -> Var {
    let at = caller();
    let w = w.beside(x, at);
    if how.steps.input_dilation.iter().any(|n| *n != 1) {
        let message =
            format!("`conv_transpose` with the input dilation {:?}", how.steps.input_dilation);
        let problem = Problem::new(Kind::Shape, message, "its strides are its input dilation");
        return wrong(problem, &[x, w], x.ty(at), at);
    }
    let inner = match planned("conv_transpose", &x.ty(at), &w.ty(at), &how) {
        Ok(plan) => Conv { steps: how.steps.transposed(&plan.along), ..how },
        Err(problem) => return wrong(problem, &[x, w], x.ty(at), at),
    };
    of("conv_transpose", x, w, &inner, at)
}
