//! Arrays without elements whose other extents are large: values, derivatives, errors.
#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;

/// Extents whose product, without the last one, does not fit in memory or in an integer.
const LONG: [[usize; 3]; 2] = [[1 << 40, 1 << 20, 0], [1 << 59, 1 << 59, 0]];

/// Returns the compiled result, after comparing it with the interpreter's result.
#[track_caller]
fn both(f: impl Fn(()) -> Var) -> Tensor {
    let native = jit(&f).call(()).unwrap();
    assert_eq!(native, jit(&f).interpreted().call(()).unwrap());
    native
}

#[test]
fn whole_arrays_without_elements() {
    for shape in LONG {
        let [n, m, _] = shape;
        let x = || zeros(shape, Dtype::F64);
        assert_eq!(both(|()| x()).shape(), shape);
        assert_eq!(both(|()| (x() + 1.0).exp() * x()).shape(), shape);
        assert_eq!(both(|()| x().permute([2, 0, 1])).shape(), [0, n, m]);
        assert_eq!(both(|()| x().flatten()).shape(), [0]);
        assert_eq!(both(|()| concat(&[x(), x()], 0)).shape(), [2 * n, m, 0]);
        assert_eq!(both(|()| vmap(|x: Var| x.sin())(x())).shape(), shape);
        assert_eq!(both(|()| grad(|x: Var| x.sin().sum())(x())).shape(), shape);
    }
}

#[test]
fn reductions_and_slices_of_empty_arrays() {
    for shape in LONG {
        let x = || zeros(shape, Dtype::F64);
        assert_eq!(both(|()| x().sum()), Tensor::from(0.0));
        assert_eq!(both(|()| x().prod()), Tensor::from(1.0));
        assert_eq!(
            both(|()| x().slice_axis(0, 0..3).slice_axis(1, 0..1).sum_axis(2)).shape(),
            [3, 1]
        );
    }
}

/// If extents exceed the range of index arithmetic, a function may fail, but only with an error.
#[test]
fn extents_beyond_reach() {
    for shape in [[1 << 62, 1 << 62, 0], [0, usize::MAX, usize::MAX], [usize::MAX, 0, 2]] {
        let programs: [fn(Var) -> Var; 6] = [
            |x| x,
            |x| (x + 1.0).exp() * x,
            |x| x.permute([2, 0, 1]),
            |x| x.flatten(),
            |x| x.sum(),
            |x| grad(|x: Var| (x * x).sum())(x).sum_axis(0),
        ];
        for f in programs {
            let g = |()| f(zeros(shape, Dtype::F64));
            for result in [jit(g).call(()), jit(g).interpreted().call(())] {
                if let Err(e) = result {
                    assert!(e.to_string().contains("prelude/tests/it/empty.rs"), "{e}");
                }
            }
        }
    }
}

/// A transposed convolution of an axis without elements returns an axis without elements, for every stride and
/// kernel.
#[test]
fn nothing_is_enlarged_to_nothing() {
    for (kernel, stride) in [(1, 1), (1, 3), (2, 1), (3, 2), (2, 5)] {
        for how in [conv::Conv::new(), conv::Conv::new().same(), conv::Conv::new().same_lower()] {
            let f = |()| {
                let (x, w) = (zeros([1, 2, 0], Dtype::F64), ones([3, 2, kernel], Dtype::F64));
                conv::conv_transpose(x, w, how.clone().strides([stride]))
            };
            assert_eq!(both(f).shape(), [1, 3, 0], "kernel {kernel}, stride {stride}");
        }
    }
}
