//! The functions recorded in `matrices/values.jsonl`, as calls of this library.

use tapeloom::prelude::*;

/// A call of this library on the arguments of a recorded case.
pub(super) type Call = fn(&[Var]) -> Vec<Var>;

/// The result of a call, as a list of arrays; a complex result is two arrays, the real and the imaginary parts.
trait Results {
    fn list(self) -> Vec<Var>;
}
impl Results for Var {
    fn list(self) -> Vec<Var> {
        vec![self]
    }
}
impl Results for (Var, Var) {
    fn list(self) -> Vec<Var> {
        vec![self.0, self.1]
    }
}
impl Results for (Var, Var, Var) {
    fn list(self) -> Vec<Var> {
        vec![self.0, self.1, self.2]
    }
}
impl Results for Complex {
    fn list(self) -> Vec<Var> {
        vec![self.re, self.im]
    }
}

/// Declares the table of calls, from rows `name: |x| expression`.
macro_rules! calls {
    ($($name:literal: $body:expr;)*) => {
        pub(super) const CALLS: &[(&str, Call)] =
            &[$(($name, |x: &[Var]| Results::list(($body)(x)))),*];
    };
}

type X<'a> = &'a [Var];

fn z(x: X) -> Complex {
    Complex::new(x[0], x[1])
}

fn last() -> fft::Along {
    fft::along(-1)
}

fn by(norm: fft::Norm) -> fft::Along {
    last().norm(norm)
}

/// Returns `v vᵀ`, the projector onto the column `v` of unit length, which does not depend on the sign of `v`.
fn onto(v: Var) -> Var {
    v.matmul(v.swap_axes(-1, -2))
}

/// Returns `v vᴴ`, which does not depend on the phase of `v`.
fn onto_complex(v: Complex) -> Complex {
    v.matmul(v.conj().map(|x| x.swap_axes(-1, -2)))
}

/// Returns the `einsum` product with which a recorded value is compared: `conj(b)ᵢ Σⱼ aᵢⱼ bⱼ` for a vector `b`, and
/// `a bᵀ` for a matrix `b`.
fn expected(a: Complex, b: Complex) -> Complex {
    match b.re.rank() {
        1 => Complex::einsum("i,ij,j->i", &[b.conj(), a, b]),
        _ => Complex::einsum("...ij,kj->...ik", &[a, b]),
    }
}

/// Returns `Re Σ w²` and `Σ |w|²` over the eigenvalues w, which do not depend on their order.
fn moments(a: Var) -> Var {
    let (re, im) = linalg::eigvals(a);
    let of = |x: Var| x.sum_axis(-1);
    stack(&[of(re * re - im * im), of(re * re + im * im)], -1)
}

fn polar(a: Var) -> Var {
    let (u, _, vt) = linalg::svd(a);
    u.matmul(vt)
}

const LOWER: Triangle = Triangle::LOWER;
const UPPER: Triangle = Triangle::UPPER;
use fft::Norm::{Backward, Forward, Ortho};
use linalg::MatrixNorm::{Columns, Frobenius, Nuclear, Rows, Spectral};

calls! {
    "cholesky": |x: X| linalg::cholesky(x[0]);
    "lu": |x: X| linalg::lu(x[0]);
    "qr": |x: X| linalg::qr(x[0]);

    "solve": |x: X| linalg::solve(x[0], x[1]);
    "inv": |x: X| linalg::inv(x[0]);
    "det": |x: X| linalg::det(x[0]);
    "slogdet": |x: X| linalg::slogdet(x[0]);
    "cho_solve": |x: X| linalg::cho_solve(x[0], x[1]);
    "solve_triangular lower": |x: X| linalg::solve_triangular(x[0], x[1], LOWER);
    "solve_triangular lower unit": |x: X| linalg::solve_triangular(x[0], x[1], LOWER.unit_diagonal());
    "solve_triangular lower transposed": |x: X| linalg::solve_triangular(x[0], x[1], LOWER.transposed());
    "solve_triangular lower transposed unit":
        |x: X| linalg::solve_triangular(x[0], x[1], LOWER.transposed().unit_diagonal());
    "solve_triangular upper": |x: X| linalg::solve_triangular(x[0], x[1], UPPER);
    "solve_triangular upper unit": |x: X| linalg::solve_triangular(x[0], x[1], UPPER.unit_diagonal());
    "solve_triangular upper transposed": |x: X| linalg::solve_triangular(x[0], x[1], UPPER.transposed());
    "solve_triangular upper transposed unit":
        |x: X| linalg::solve_triangular(x[0], x[1], UPPER.transposed().unit_diagonal());
    "tridiagonal_solve": |x: X| linalg::tridiagonal_solve(x[0], x[1], x[2], x[3]);
    "lstsq": |x: X| linalg::lstsq(x[0], x[1]);
    "pinv": |x: X| linalg::pinv(x[0]);

    "eigvalsh": |x: X| linalg::eigvalsh(x[0]);
    "eigh_projector": |x: X| onto(linalg::eigh(x[0]).1.slice_axis(-1, 0..1));
    "eigvals_moments": |x: X| moments(x[0]);
    "spectrum_exp": |x: X| linalg::eigvalsh(x[0]).exp().sum();
    "spectrum_squares": |x: X| linalg::svdvals(x[0]).square().sum();
    "svdvals": |x: X| linalg::svdvals(x[0]);
    "svd_polar": |x: X| polar(x[0]);
    "expm": |x: X| linalg::expm(x[0]);
    "sqrtm": |x: X| linalg::sqrtm(x[0]);
    "norm frobenius": |x: X| linalg::matrix_norm(x[0], Frobenius);
    "norm nuclear": |x: X| linalg::matrix_norm(x[0], Nuclear);
    "norm one": |x: X| linalg::matrix_norm(x[0], Columns);
    "norm spectral": |x: X| linalg::matrix_norm(x[0], Spectral);
    "norm infinity": |x: X| linalg::matrix_norm(x[0], Rows);
    "matrix_rank": |x: X| linalg::matrix_rank(x[0]);
    "cond_number": |x: X| linalg::cond_number(x[0]);
    "polyfit": |x: X| linalg::polyfit(x[0], x[1], 3);
    "normal_logpdf": |x: X| linalg::multivariate_normal_logpdf(x[0], x[1], x[2]);

    "complex eigvalsh": |x: X| z(x).eigvalsh();
    "complex eigh onto lowest": |x: X| onto_complex(z(x).eigh_range(..1).1);
    "complex expm": |x: X| z(x).expm();
    "complex solve": |x: X| z(x).solve(z(&x[2..]));
    "complex trace": |x: X| z(x).trace();
    "complex spectrum exp": |x: X| z(x).eigvalsh().exp().sum();
    "complex kron": |x: X| z(x).kron(z(&x[2..]));
    "complex einsum": |x: X| expected(z(x), z(&x[2..]));

    "fft backward": |x: X| fft::fft(z(x), -1);
    "fft ortho": |x: X| fft::fft(z(x), by(Ortho));
    "fft forward": |x: X| fft::fft(z(x), by(Forward));
    "ifft backward": |x: X| fft::ifft(z(x), by(Backward));
    "ifft ortho": |x: X| fft::ifft(z(x), by(Ortho));
    "ifft forward": |x: X| fft::ifft(z(x), by(Forward));
    "rfft backward": |x: X| fft::rfft(x[0], -1);
    "rfft ortho": |x: X| fft::rfft(x[0], by(Ortho));
    "rfft forward": |x: X| fft::rfft(x[0], by(Forward));
    "irfft backward": |x: X| fft::irfft(z(x), -1);
    "irfft ortho": |x: X| fft::irfft(z(x), by(Ortho));
    "irfft forward": |x: X| fft::irfft(z(x), by(Forward));
    "fft_of_real": |x: X| fft::fft(x[0], -1);
    "ifft_of_real": |x: X| fft::ifft(x[0], -1);
    "irfft to 1": |x: X| fft::irfft(z(x), last().points(1));
    "irfft to 2": |x: X| fft::irfft(z(x), last().points(2));
    "irfft to 3": |x: X| fft::irfft(z(x), last().points(3));
    "irfft to 5": |x: X| fft::irfft(z(x), last().points(5));
    "irfft to 6": |x: X| fft::irfft(z(x), last().points(6));
    "irfft to 7": |x: X| fft::irfft(z(x), last().points(7));
    "irfft to 9": |x: X| fft::irfft(z(x), last().points(9));
    "fft to 3": |x: X| fft::fft(z(x), last().points(3));
    "fft to 7": |x: X| fft::fft(z(x), last().points(7));
    "rfft to 3": |x: X| fft::rfft(x[0], last().points(3));
    "rfft to 7": |x: X| fft::rfft(x[0], last().points(7));
    "fft axis": |x: X| fft::fft(z(x), -2);
    "ifft axis": |x: X| fft::ifft(z(x), -2);
    "rfft axis": |x: X| fft::rfft(x[0], -2);
    "irfft axis": |x: X| fft::irfft(z(x), -2);
    "fft2": |x: X| fft::fft2(z(x));
    "ifft2": |x: X| fft::ifft2(z(x));
    "rfft2": |x: X| fft::rfft2(x[0]);
    "irfft2": |x: X| fft::irfft2(z(x));
    "fftn first and last": |x: X| fft::fftn(z(x), [0, 2]);
    "ifftn ortho": |x: X| fft::ifftn(z(x), fft::along(..).norm(Ortho));
    "rfftn": |x: X| fft::rfftn(x[0], ..);
    "irfftn to 2x3x5": |x: X| fft::irfftn(z(x), fft::along(..).points_each([2, 3, 5]));
    "dct None": |x: X| fft::dct(x[0], fft::Cosine::II, -1);
    "dct ortho": |x: X| fft::dct(x[0], fft::Cosine::II, by(Ortho));
    "idct None": |x: X| fft::idct(x[0], fft::Cosine::II, -1);
    "idct ortho": |x: X| fft::idct(x[0], fft::Cosine::II, by(Ortho));
    "fftconvolve full": |x: X| fft::fftconvolve(x[0], x[1], fft::Mode::Full);
    "fftconvolve same": |x: X| fft::fftconvolve(x[0], x[1], fft::Mode::Same);
    "fftconvolve valid": |x: X| fft::fftconvolve(x[0], x[1], fft::Mode::Valid);
}
