//! The functions recorded in `tests/data/vocabulary`, as calls of this library.

use tapeloom::interpolate::{Border, Order, map_coordinates};
use tapeloom::prelude::*;

/// A call of this library on the arguments of a recorded case.
pub(super) type Call = fn(&[Var]) -> Vec<Var>;

/// Declares the table of calls: `name: |x| expression`, where the expression is one array, a list or a pair of arrays.
macro_rules! calls {
    ($($name:literal: $body:expr;)*) => {
        pub(super) const CALLS: &[(&str, Call)] = &[$(($name, |x: &[Var]| many(($body)(x)))),*];
    };
}

/// The result of a call, one array or several, as a list.
trait Results {
    fn list(self) -> Vec<Var>;
}
impl Results for Var {
    fn list(self) -> Vec<Var> {
        vec![self]
    }
}
impl Results for Vec<Var> {
    fn list(self) -> Vec<Var> {
        self
    }
}
impl Results for (Var, Var) {
    fn list(self) -> Vec<Var> {
        vec![self.0, self.1]
    }
}

fn many(x: impl Results) -> Vec<Var> {
    x.list()
}

type X<'a> = &'a [Var];

/// Returns the parts of a `unique` result in the order in which JAX returns them.
fn parts(u: tapeloom::Unique<Var>) -> Vec<Var> {
    vec![u.values, u.first, u.inverse, u.counts]
}

/// Returns the real and the imaginary parts, as the scripts record complex arrays.
fn parts_of(z: Complex) -> (Var, Var) {
    (z.re, z.im)
}

fn nine(like: Var) -> Var {
    constant(9i64).convert(like.dtype())
}

fn weights(x: X) -> nn::CellWeights<Var> {
    nn::CellWeights { input: x[0], hidden: x[1], input_bias: x[2], hidden_bias: x[3] }
}

calls! {
    "rem": |x: X| x[0].rem(x[1]);
    "mod_floor": |x: X| x[0].mod_floor(x[1]);
    "div_floor": |x: X| x[0].div_floor(x[1]);
    "div_mod": |x: X| x[0].div_mod(x[1]);

    "trunc": |x: X| x[0].trunc();
    "is_sign_negative": |x: X| x[0].is_sign_negative();
    "copysign": |x: X| x[0].copysign(x[1]);
    "heaviside": |x: X| x[0].heaviside(x[1]);
    "ldexp": |x: X| x[0].ldexp(x[1]);
    "nan_to_num": |x: X| x[0].nan_to_num();
    "fmax": |x: X| x[0].fmax(x[1]);
    "fmin": |x: X| x[0].fmin(x[1]);
    "to_radians": |x: X| x[0].to_radians();
    "to_degrees": |x: X| x[0].to_degrees();
    "count_ones": |x: X| x[0].count_ones();
    "leading_zeros": |x: X| x[0].leading_zeros();

    "is_close": |x: X| x[0].is_close(x[1], 1e-5, 1e-8);
    "all_close": |x: X| x[0].all_close(x[1], 1e-5, 1e-8);
    "array_equal": |x: X| x[0].array_equal(x[1]);
    "is_infinite": |x: X| x[0].is_infinite();
    "is_in": |x: X| x[0].is_in(x[1]);
    "select_first": |x: X| select_first(&[(x[0].lt(0.0), x[1]), (x[0].lt(1.0), x[0] * x[1])], x[0]);
    "select_nth": |x: X| select_nth(x[0], &x[1..]);

    "sinc": |x: X| x[0].sinc();
    "xlogy": |x: X| x[0].xlogy(x[1]);
    "xlog1py": |x: X| x[0].xlog1py(x[1]);
    "entr": |x: X| x[0].entr();
    "rel_entr": |x: X| x[0].rel_entr(x[1]);
    "kl_div": |x: X| x[0].kl_div(x[1]);
    "logit": |x: X| x[0].logit();
    "log_ndtr": |x: X| x[0].log_ndtr();
    "ndtri": |x: X| x[0].ndtri();
    "betaln": |x: X| x[0].betaln(x[1]);
    "beta": |x: X| x[0].beta(x[1]);
    "logaddexp2": |x: X| x[0].logaddexp2(x[1]);

    "relu": |x: X| x[0].relu();
    "relu6": |x: X| x[0].relu6();
    "leaky_relu": |x: X| x[0].leaky_relu(0.1);
    "elu_with": |x: X| x[0].elu_with(1.3);
    "celu": |x: X| x[0].celu(1.3);
    "selu": |x: X| x[0].selu();
    "hard_tanh": |x: X| x[0].hard_tanh();
    "hard_sigmoid": |x: X| x[0].hard_sigmoid();
    "hard_silu": |x: X| x[0].hard_silu();
    "silu": |x: X| x[0].silu();
    "mish": |x: X| x[0].mish();
    "gelu": |x: X| x[0].gelu();
    "gelu_tanh": |x: X| x[0].gelu_tanh();
    "log_sigmoid": |x: X| x[0].log_sigmoid();
    "softplus": |x: X| x[0].softplus();
    "squareplus": |x: X| x[0].squareplus(4.0);
    "sparse_plus": |x: X| x[0].sparse_plus();
    "logaddexp": |x: X| x[0].logaddexp(x[1]);
    "glu": |x: X| x[0].glu(1);
    "softmax": |x: X| x[0].softmax(-1);
    "log_softmax": |x: X| x[0].log_softmax(-1);
    "layer_norm": |x: X| x[0].layer_norm(-1, 1e-5);

    "cross_entropy": |x: X| x[0].cross_entropy(x[1]);
    "dot_product_attention": |x: X| dot_product_attention(x[0], x[1], x[2], Attention::new());
    "dot_product_attention.causal":
        |x: X| dot_product_attention(x[0], x[1], x[2], Attention::new().causal());
    "dot_product_attention.masked": |x: X| {
        let how = Attention::new().bias(x[3]).mask(x[4]).scale(0.3);
        dot_product_attention(x[0], x[1], x[2], how)
    };

    "nansum": |x: X| x[0].nansum();
    "nansum_axis": |x: X| x[0].nansum_axis(1);
    "nansum_keepdims": |x: X| x[0].nansum_keepdims(0);
    "nanprod": |x: X| x[0].nanprod();
    "nanprod_axis": |x: X| x[0].nanprod_axis(1);
    "nanprod_keepdims": |x: X| x[0].nanprod_keepdims(0);
    "nanmax": |x: X| x[0].nanmax();
    "nanmax_axis": |x: X| x[0].nanmax_axis(1);
    "nanmax_keepdims": |x: X| x[0].nanmax_keepdims(0);
    "nanmin": |x: X| x[0].nanmin();
    "nanmin_axis": |x: X| x[0].nanmin_axis(1);
    "nanmin_keepdims": |x: X| x[0].nanmin_keepdims(0);
    "nanmean": |x: X| x[0].nanmean();
    "nanmean_axis": |x: X| x[0].nanmean_axis(1);
    "nanmean_keepdims": |x: X| x[0].nanmean_keepdims(0);
    "nanvar": |x: X| x[0].nanvar();
    "nanvar_axis": |x: X| x[0].nanvar_axis(1);
    "nanvar_keepdims": |x: X| x[0].nanvar_keepdims(0);
    "nanstd": |x: X| x[0].nanstd();
    "nanstd_axis": |x: X| x[0].nanstd_axis(1);
    "nanstd_keepdims": |x: X| x[0].nanstd_keepdims(0);
    "ptp": |x: X| x[0].ptp();
    "ptp_axis": |x: X| x[0].ptp_axis(1);
    "ptp_keepdims": |x: X| x[0].ptp_keepdims(0);
    "count_nonzero": |x: X| x[0].count_nonzero();
    "count_nonzero_axis": |x: X| x[0].count_nonzero_axis(1);
    "count_nonzero_keepdims": |x: X| x[0].count_nonzero_keepdims(0);

    "average": |x: X| x[0].average(x[1], 1);
    "cov": |x: X| x[0].cov();
    "corrcoef": |x: X| x[0].corrcoef();
    "bincount": |x: X| x[0].bincount(4);
    "histogram": |x: X| x[0].histogram(x[1]);
    "digitize": |x: X| x[0].digitize(x[1]);
    "searchsorted": |x: X| x[0].searchsorted(x[1]);
    "searchsorted_right": |x: X| x[0].searchsorted_right(x[1]);

    "diff": |x: X| x[0].diff_n(2, 0);
    "central_diff": |x: X| x[0].central_diff(0.5, 1);
    "trapezoid": |x: X| x[0].trapezoid(0.5, 1);
    "trapezoid.at": |x: X| x[0].trapezoid(x[1], 1);
    "interp": |x: X| interp(x[0], x[1], x[2]);
    "polyval": |x: X| polyval(x[0], x[1]);
    "poly_from_roots": |x: X| x[0].poly_from_roots();
    "vander": |x: X| x[0].vander(4);

    "hstack": |x: X| hstack(x);
    "vstack": |x: X| vstack(x);
    "dstack": |x: X| dstack(x);
    "column_stack": |x: X| column_stack(x);
    "block_diag": |x: X| block_diag(x);
    "meshgrid": |x: X| meshgrid(x);
    "meshgrid_ij": |x: X| meshgrid_ij(x);
    "broadcast_arrays": |x: X| broadcast_arrays(x);
    "pad_like.edge": |x: X| x[0].pad_like(&[(1, 4), (7, 2)], Padding::Edge);
    "pad_like.reflect": |x: X| x[0].pad_like(&[(1, 4), (7, 2)], Padding::Reflect);
    "pad_like.symmetric": |x: X| x[0].pad_like(&[(1, 4), (7, 2)], Padding::Symmetric);
    "pad_like.wrap": |x: X| x[0].pad_like(&[(1, 4), (7, 2)], Padding::Wrap);
    "insert": |x: X| x[0].insert(1, x[1].expand_dims(1), 1);
    "delete": |x: X| x[0].delete(1..3, 1);
    "compress": |x: X| x[0].compress(&[true, false, true, true], 0);
    "resize": |x: X| x[0].resize([3, 3]);
    "split_at": |x: X| x[0].split_at(&[1, 3], 1);
    "array_split": |x: X| x[0].array_split(3, 0);
    "put_along_axis": |x: X| x[0].put_along_axis(x[1], x[2], 1);
    "take_along_axis": |x: X| x[0].take_along_axis(x[1], 1);

    "atleast_1d": |x: X| x[0].atleast_1d();
    "atleast_2d": |x: X| x[0].atleast_2d();
    "atleast_3d": |x: X| x[0].atleast_3d();
    "matrix_transpose": |x: X| x[0].matrix_transpose();
    "rot90.0": |x: X| x[0].rot90(0, [1, 0]);
    "rot90.1": |x: X| x[0].rot90(1, [1, 0]);
    "rot90.2": |x: X| x[0].rot90(2, [1, 0]);
    "rot90.3": |x: X| x[0].rot90(-1, [1, 0]);
    "fftshift": |x: X| x[0].fftshift(..);
    "ifftshift": |x: X| x[0].ifftshift(..);

    "logspace": |_: X| logspace(-1.0, 2.0, 5, 2.0, Dtype::F64);
    "geomspace": |_: X| geomspace(-1.0, -100.0, 4, Dtype::F64);
    "fftfreq": |_: X| fftfreq(5, 0.1, Dtype::F64);
    "full_like": |x: X| x[0].full_like(2.5);
    "tri": |_: X| tri(3, 4, -1, Dtype::F64);

    "toeplitz": |x: X| toeplitz(x[0], x[1]);
    "multi_dot": |x: X| multi_dot(x);
    "diag.-1": |x: X| x[0].diag(-1);
    "diag.0": |x: X| x[0].diag(0);
    "diag.2": |x: X| x[0].diag(2);
    "diagflat": |x: X| x[0].diagflat(1);
    "fill_diagonal": |x: X| x[0].fill_diagonal(x[1]);
    "diag_indices": |_: X| diag_indices(3);
    "kron": |x: X| x[0].kron(x[1]);
    "cross": |x: X| x[0].cross(x[1]);
    "inner": |x: X| x[0].inner(x[1]);
    "vdot": |x: X| x[0].vdot(x[1]);
    "vecdot": |x: X| x[0].vecdot(x[1], -1);
    "matrix_power": |x: X| x[0].matrix_power(5);

    "flatnonzero.0": |x: X| x[0].flatnonzero(0, -1);
    "argwhere.0": |x: X| x[0].argwhere(0, -1);
    "nonzero.0": |x: X| x[0].nonzero(0, 7);
    "extract.0": |x: X| x[0].extract(x[0].gt(0.5), 0, 9.0);
    "unique.0": |x: X| parts(x[0].unique(0, nine(x[0])));
    "unique_values.0": |x: X| x[0].unique(0, 9.0).values;
    "intersect1d.0": |x: X| x[0].intersect1d(x[1], 0, -1);
    "flatnonzero.3": |x: X| x[0].flatnonzero(3, -1);
    "argwhere.3": |x: X| x[0].argwhere(3, -1);
    "nonzero.3": |x: X| x[0].nonzero(3, 7);
    "extract.3": |x: X| x[0].extract(x[0].gt(0.5), 3, 9.0);
    "unique.3": |x: X| parts(x[0].unique(3, nine(x[0])));
    "unique_values.3": |x: X| x[0].unique(3, 9.0).values;
    "intersect1d.3": |x: X| x[0].intersect1d(x[1], 3, -1);
    "flatnonzero.20": |x: X| x[0].flatnonzero(20, -1);
    "argwhere.20": |x: X| x[0].argwhere(20, -1);
    "nonzero.20": |x: X| x[0].nonzero(20, 7);
    "extract.12": |x: X| x[0].extract(x[0].gt(0.5), 12, 9.0);
    "unique.20": |x: X| parts(x[0].unique(20, nine(x[0])));
    "unique_values.20": |x: X| x[0].unique(20, 9.0).values;
    "intersect1d.20": |x: X| x[0].intersect1d(x[1], 20, -1);

    "segment_sum": |x: X| x[0].segment_sum(x[1], 3);
    "segment_prod": |x: X| x[0].segment_prod(x[1], 3);
    "segment_max": |x: X| x[0].segment_max(x[1], 3);
    "segment_min": |x: X| x[0].segment_min(x[1], 3);
    "segment_mean": |x: X| x[0].segment_mean(x[1], 3);
    "segment_softmax": |x: X| x[0].segment_softmax(x[1], 3);

    "map_coordinates.0.constant":
        |x: X| map_coordinates(x[0], &x[1..], Order::Nearest, Border::Constant(0.7));
    "map_coordinates.1.constant":
        |x: X| map_coordinates(x[0], &x[1..], Order::Linear, Border::Constant(0.7));
    "map_coordinates.3.constant":
        |x: X| map_coordinates(x[0], &x[1..], Order::Cubic, Border::Constant(0.7));
    "map_coordinates.0.grid_constant":
        |x: X| map_coordinates(x[0], &x[1..], Order::Nearest, Border::GridConstant(0.7));
    "map_coordinates.1.grid_constant":
        |x: X| map_coordinates(x[0], &x[1..], Order::Linear, Border::GridConstant(0.7));
    "map_coordinates.3.grid_constant":
        |x: X| map_coordinates(x[0], &x[1..], Order::Cubic, Border::GridConstant(0.7));
    "map_coordinates.0.nearest":
        |x: X| map_coordinates(x[0], &x[1..], Order::Nearest, Border::Nearest);
    "map_coordinates.1.nearest":
        |x: X| map_coordinates(x[0], &x[1..], Order::Linear, Border::Nearest);
    "map_coordinates.3.nearest":
        |x: X| map_coordinates(x[0], &x[1..], Order::Cubic, Border::Nearest);
    "map_coordinates.0.mirror":
        |x: X| map_coordinates(x[0], &x[1..], Order::Nearest, Border::Mirror);
    "map_coordinates.1.mirror":
        |x: X| map_coordinates(x[0], &x[1..], Order::Linear, Border::Mirror);
    "map_coordinates.3.mirror":
        |x: X| map_coordinates(x[0], &x[1..], Order::Cubic, Border::Mirror);
    "map_coordinates.0.reflect":
        |x: X| map_coordinates(x[0], &x[1..], Order::Nearest, Border::Reflect);
    "map_coordinates.1.reflect":
        |x: X| map_coordinates(x[0], &x[1..], Order::Linear, Border::Reflect);
    "map_coordinates.3.reflect":
        |x: X| map_coordinates(x[0], &x[1..], Order::Cubic, Border::Reflect);
    "map_coordinates.0.wrap":
        |x: X| map_coordinates(x[0], &x[1..], Order::Nearest, Border::Wrap);
    "map_coordinates.1.wrap":
        |x: X| map_coordinates(x[0], &x[1..], Order::Linear, Border::Wrap);
    "map_coordinates.3.wrap":
        |x: X| map_coordinates(x[0], &x[1..], Order::Cubic, Border::Wrap);

    "hann.periodic": |_: X| fft::Window::Hann.periodic(8, Dtype::F64);
    "hann.symmetric": |_: X| fft::Window::Hann.symmetric(7, Dtype::F64);
    "hamming.periodic": |_: X| fft::Window::Hamming.periodic(8, Dtype::F64);
    "hamming.symmetric": |_: X| fft::Window::Hamming.symmetric(7, Dtype::F64);
    "blackman.periodic": |_: X| fft::Window::Blackman.periodic(8, Dtype::F64);
    "blackman.symmetric": |_: X| fft::Window::Blackman.symmetric(7, Dtype::F64);
    "stft.centered": |x: X| parts_of(fft::stft(x[0], fft::Frames::new(x[1], 3)));
    "stft.inside": |x: X| parts_of(fft::stft(x[0], fft::Frames::new(x[1], 3).inside()));
    "istft.centered": |x: X| fft::istft(Complex::new(x[0], x[1]), fft::Frames::new(x[2], 3), 14);
    "istft.inside": |x: X| fft::istft(Complex::new(x[0], x[1]), fft::Frames::new(x[2], 3).inside(), 14);
    "cdist.1": |x: X| linalg::cdist(x[0], x[1], 1.0);
    "cdist.2": |x: X| linalg::cdist(x[0], x[1], 2.0);
    "cdist.inf": |x: X| linalg::cdist(x[0], x[1], f64::INFINITY);
    "histogram2d": |x: X| x[0].histogram2d(x[1], x[2], x[3]);
    "multigammaln.3": |x: X| x[0].multigammaln(3);
    "lstm_cell": |x: X| nn::lstm_cell(x[0], (x[1], x[2]), &weights(&x[3..]));
    "gru_cell": |x: X| nn::gru_cell(x[0], x[1], &weights(&x[2..]));

    "normal_logpdf": |x: X| stats::normal_logpdf(x[0], x[1], x[2]);
    "laplace_logpdf": |x: X| stats::laplace_logpdf(x[0], x[1], x[2]);
    "logistic_logpdf": |x: X| stats::logistic_logpdf(x[0], x[1], x[2]);
    "gumbel_logpdf": |x: X| stats::gumbel_logpdf(x[0], x[1], x[2]);
    "cauchy_logpdf": |x: X| stats::cauchy_logpdf(x[0], x[1], x[2]);
    "uniform_logpdf": |x: X| stats::uniform_logpdf(x[0], x[1], x[2]);
    "student_t_logpdf": |x: X| stats::student_t_logpdf(x[0], x[1], x[2], x[3]);
    "truncated_normal_logpdf":
        |x: X| stats::truncated_normal_logpdf(x[0], x[1], x[2], x[3], x[4]);
    "exponential_logpdf": |x: X| stats::exponential_logpdf(x[0], x[1]);
    "gamma_logpdf": |x: X| stats::gamma_logpdf(x[0], x[1], x[2]);
    "chisquare_logpdf": |x: X| stats::chisquare_logpdf(x[0], x[1]);
    "beta_logpdf": |x: X| stats::beta_logpdf(x[0], x[1], x[2]);
    "dirichlet_logpdf": |x: X| stats::dirichlet_logpdf(x[0], x[1]);
    "dirichlet_logpdf.softmax": |x: X| stats::dirichlet_logpdf(x[0].softmax(-1), x[1]);
    "bernoulli_logpmf": |x: X| stats::bernoulli_logpmf(x[0], x[1]);
    "binomial_logpmf": |x: X| stats::binomial_logpmf(x[0], x[1], x[2]);
    "poisson_logpmf": |x: X| stats::poisson_logpmf(x[0], x[1]);
    "categorical_logpmf": |x: X| stats::categorical_logpmf(x[0], x[1], -1);
    "categorical_logpmf.0": |x: X| stats::categorical_logpmf(x[0], x[1], 0);

    "normal_entropy": |x: X| stats::normal_entropy(x[0]);
    "uniform_entropy": |x: X| stats::uniform_entropy(x[0], x[1]);
    "laplace_entropy": |x: X| stats::laplace_entropy(x[0]);
    "logistic_entropy": |x: X| stats::logistic_entropy(x[0]);
    "gumbel_entropy": |x: X| stats::gumbel_entropy(x[0]);
    "cauchy_entropy": |x: X| stats::cauchy_entropy(x[0]);
    "student_t_entropy": |x: X| stats::student_t_entropy(x[0], x[1]);
    "truncated_normal_entropy": |x: X| stats::truncated_normal_entropy(x[0], x[1], x[2]);
    "exponential_entropy": |x: X| stats::exponential_entropy(x[0]);
    "gamma_entropy": |x: X| stats::gamma_entropy(x[0], x[1]);
    "beta_entropy": |x: X| stats::beta_entropy(x[0], x[1]);
    "dirichlet_entropy": |x: X| stats::dirichlet_entropy(x[0]);
    "bernoulli_entropy": |x: X| stats::bernoulli_entropy(x[0]);
    "categorical_entropy": |x: X| stats::categorical_entropy(x[0], -1);

    "normal_kl": |x: X| stats::normal_kl((x[0], x[1]), (x[2], x[3]));
    "uniform_kl": |x: X| stats::uniform_kl((x[0], x[1]), (x[2], x[3]));
    "laplace_kl": |x: X| stats::laplace_kl((x[0], x[1]), (x[2], x[3]));
    "gumbel_kl": |x: X| stats::gumbel_kl((x[0], x[1]), (x[2], x[3]));
    "cauchy_kl": |x: X| stats::cauchy_kl((x[0], x[1]), (x[2], x[3]));
    "exponential_kl": |x: X| stats::exponential_kl(x[0], x[1]);
    "gamma_kl": |x: X| stats::gamma_kl((x[0], x[1]), (x[2], x[3]));
    "beta_kl": |x: X| stats::beta_kl((x[0], x[1]), (x[2], x[3]));
    "dirichlet_kl": |x: X| stats::dirichlet_kl(x[0], x[1]);
    "bernoulli_kl": |x: X| stats::bernoulli_kl(x[0], x[1]);
    "categorical_kl": |x: X| stats::categorical_kl(x[0], x[1], -1);
    "poisson_kl": |x: X| stats::poisson_kl(x[0], x[1]);

    "von_mises_logpdf": |x: X| stats::von_mises_logpdf(x[0], x[1], x[2]);
    "von_mises_entropy": |x: X| stats::von_mises_entropy(x[0]);
    "von_mises_kl": |x: X| stats::von_mises_kl((x[0], x[1]), (x[2], x[3]));
    "truncated_normal_kl":
        |x: X| stats::truncated_normal_kl((x[0], x[1], x[2], x[3]), (x[4], x[5], x[6], x[7]));
    "poisson_entropy": |x: X| stats::poisson_entropy(x[0]);
    "binomial_entropy": |x: X| stats::binomial_entropy(x[0], x[1]);
}
