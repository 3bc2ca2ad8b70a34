//! Printing compared with numpy's, and absurd arguments.

use super::buffer::zeros;
use std::ops::Bound;
use tapeloom_ir::{ArrayType, Dtype, Kind, Literal, Shape, Tensor};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// The expected texts are those of `numpy.array2string(x, separator=", ")` under numpy 2.4.6 with
/// `set_printoptions(floatmode="maxprec_equal")`. Arrays of whole numbers are left out, since numpy writes `1.`
/// and Rust `1.0`.
#[test]
fn prints_as_numpy_does() {
    let cases: Vec<(Tensor, &str)> = vec![
        (Tensor::from([1.5, -2.25, NAN, INF, -INF]), "[ 1.50, -2.25,   nan,   inf,  -inf]"),
        (
            Tensor::from([[1.5, -2.25], [100.125, 0.0]]),
            "[[  1.500,  -2.250],\n [100.125,   0.000]]",
        ),
        (Tensor::from([1e-5, 1.5]), "[1.0e-05, 1.5e+00]"),
        (Tensor::from([1.0 / 3.0, 2.0 / 3.0, 1.0]), "[0.33333333, 0.66666667, 1.00000000]"),
        (Tensor::from([123_456_789.5, 1.0]), "[1.2345679e+08, 1.0000000e+00]"),
        (Tensor::from([1.5e100, 1e-100, NAN]), "[1.5e+100, 1.0e-100,      nan]"),
        (Tensor::from([-0.0, 1.5e-300, 0.5]), "[-0.0e+000,  1.5e-300,  5.0e-001]"),
        (Tensor::from([[0.001, 999.0]]), "[[1.00e-03, 9.99e+02]]"),
        (Tensor::from([0.1 + 0.2, 1.0]), "[0.3, 1.0]"),
        (Tensor::from([0.1f32, 0.25]), "[0.10, 0.25]"),
        (Tensor::from([1_234_567.5f32, 0.25]), "[1.2345675e+06, 2.5000000e-01]"),
        (
            Tensor::from([[[1, 2], [3, 4]], [[5, 6], [7, 80]]]),
            "[[[ 1,  2],\n  [ 3,  4]],\n\n [[ 5,  6],\n  [ 7, 80]]]",
        ),
        (
            (0..40).collect(),
            "[ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n 18, 19, \
             20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35,\n 36, 37, 38, 39]",
        ),
        (
            (0..2000).map(|i| f64::from(i) * 0.5).collect(),
            "[0.000e+00, 5.000e-01, 1.000e+00, ..., 9.985e+02, 9.990e+02, 9.995e+02]",
        ),
        (
            (0..10_000).collect::<Tensor>().reshape(&[100, 100]).unwrap(),
            "[[   0,    1,    2, ...,   97,   98,   99],\n \
             [ 100,  101,  102, ...,  197,  198,  199],\n \
             [ 200,  201,  202, ...,  297,  298,  299],\n \
             ...,\n \
             [9700, 9701, 9702, ..., 9797, 9798, 9799],\n \
             [9800, 9801, 9802, ..., 9897, 9898, 9899],\n \
             [9900, 9901, 9902, ..., 9997, 9998, 9999]]",
        ),
        (
            (0..1458).collect::<Tensor>().reshape(&[729, 2, 1]).unwrap(),
            "[[[   0],\n  [   1]],\n\n [[   2],\n  [   3]],\n\n [[   4],\n  [   5]],\n\n ...,\n\n \
             [[1452],\n  [1453]],\n\n [[1454],\n  [1455]],\n\n [[1456],\n  [1457]]]",
        ),
    ];
    for (t, want) in cases {
        assert_eq!(t.to_string(), want);
    }
}

#[test]
fn differences_from_numpy_in_print() {
    let show = |t: Tensor| t.to_string();
    assert_eq!(show(Tensor::from([1.0, 2.0])), "[1.0, 2.0]");
    assert_eq!(show(Tensor::from([1e100, NAN])), "[1.0e+100,      nan]");
    assert_eq!(show(Tensor::from([true, false])), "[ true, false]");
    assert_eq!(show(Tensor::from([[0.0; 3]; 0])), "[]");
    // A single number is shown with all its digits.
    assert_eq!(show(Tensor::from(0.1 + 0.2)), "0.30000000000000004");
    assert_eq!(show(Tensor::from(0.1f32)), "0.1");
    assert_eq!(show(Tensor::from(NAN)), "nan");
    assert_eq!(show(Tensor::from(-INF)), "-inf");
    assert_eq!(show(Tensor::from(3u64)), "3");
    // Digits of an f32 beyond the significant ones must be printed as zeros.
    assert_eq!(show(Tensor::from([16_777.215f32, 100.062_5])), "[16777.2150,   100.0625]");
}

#[test]
fn the_format_is_obeyed() {
    let t = Tensor::from([1.0, -0.25, NAN]);
    assert_eq!(format!("{t:.3}"), "[ 1.000, -0.250,    nan]");
    assert_eq!(format!("{t:8.2}"), "[    1.00,    -0.25,      nan]");
    assert_eq!(format!("{t:+.0}"), "[ +1,  -0, nan]");
    assert_eq!(format!("{t:.2e}"), "[ 1.00e+00, -2.50e-01,       nan]");
    assert_eq!(format!("{:.2}", Tensor::from(2.0f32 / 3.0)), "0.67");
    assert_eq!(format!("{:6}", Tensor::from([1, -1])), "[     1,     -1]");
    assert_eq!(format!("{:+}", Tensor::from([1, -1])), "[+1, -1]");
    let long: Tensor = (0..1001).collect();
    assert_eq!(format!("{long:#}").matches(',').count(), 1000);
    assert_eq!(format!("{long}").matches(',').count(), 6);
}

#[test]
fn debug_says_dtype_and_shape() {
    assert_eq!(format!("{:?}", Tensor::from(2.5)), "f64[] 2.5");
    assert_eq!(format!("{:?}", Tensor::from([[0.0f32; 3]; 0])), "f32[0,3]\n[]");
    assert_eq!(format!("{:?}", Tensor::from([[1, 2], [3, 4]])), "i32[2,2]\n[[1, 2],\n [3, 4]]");
}

/// A tensor of a rank at which recursion would overflow the stack must print.
#[test]
fn many_axes_print() {
    let t = Tensor::from(1).reshape(&[1; 20_000]).unwrap();
    assert_eq!(t.to_string().len(), 40_001);
}

#[test]
fn parts_are_those_of_nested_loops() {
    let t = (0..60).collect::<Tensor>().reshape(&[3, 4, 5]).unwrap();
    for (a, b, c) in
        [(0..3, 1..3, 2..4), (1..2, 0..4, 0..5), (0..3, 0..4, 4..5), (2..3, 3..4, 0..1)]
    {
        let part = t.slice(&[a.clone(), b.clone(), c.clone()]).unwrap();
        let mut want = Vec::new();
        for i in a.clone() {
            for j in b.clone() {
                want.extend(c.clone().map(|k| ((i * 4 + j) * 5 + k) as i32));
            }
        }
        assert_eq!(part.to_vec::<i32>().unwrap(), want);
        assert_eq!(part.shape(), [a.len(), b.len(), c.len()]);
    }
    assert_eq!(t.slice_axis(-2, 1..1).unwrap().shape(), [3, 0, 5]);
    assert_eq!(t.slice::<std::ops::RangeFull>(&[]).unwrap(), t);
    assert_eq!(Tensor::from(1).slice::<std::ops::RangeFull>(&[]).unwrap(), Tensor::from(1));
    let rows: Vec<Tensor> = t.rows().rev().collect();
    assert_eq!(rows[0].shape(), [4, 5]);
    assert_eq!(rows[0].get::<i32>(&[3, 4]).unwrap(), 59);
    assert_eq!(Tensor::from(1).rows().count(), 0);
    assert_eq!(Tensor::from([[0; 0]; 2]).rows().count(), 2);
}

/// Every public function of a tensor must return an error for absurd arguments, and not panic.
#[test]
fn absurd_arguments_are_errors() {
    const HUGE: usize = 1 << 62;
    let t = Tensor::from([[1.0, 2.0], [3.0, 4.0]]);
    let shapes: [&[usize]; 5] =
        [&[HUGE], &[HUGE, HUGE], &[usize::MAX], &[1 << 45], &[3, usize::MAX / 2]];
    for shape in shapes {
        assert_eq!(Tensor::full(shape, 1.0).unwrap_err().kind, Kind::TooLarge);
        for dtype in Dtype::ALL {
            let ty = ArrayType::new(dtype, shape);
            assert_eq!(Tensor::zeros_of(&ty).unwrap_err().kind, Kind::TooLarge, "{ty}");
            assert!(Tensor::from_bytes(&ty, &[]).is_err());
        }
        assert_eq!(Tensor::new(shape, vec![1.0]).unwrap_err().kind, Kind::Shape);
        assert_eq!(t.reshape(shape).unwrap_err().kind, Kind::Shape);
    }
    // An extent of 0 makes the array empty, even though the product of the other extents overflows.
    let empty = Tensor::zeros_of(&ArrayType::new(Dtype::F64, [HUGE, HUGE, 0])).unwrap();
    assert_eq!(empty.row(1).unwrap().shape(), [HUGE, 0]);
    assert_eq!(empty.slice_axis(1, 5..9).unwrap().shape(), [HUGE, 4, 0]);
    assert_eq!(format!("{empty} {:?}", empty.literals().next()), "[] None");
    assert!(empty.get::<f64>(&[0, 0, 0]).is_err());

    for index in [&[][..], &[0], &[0, 2], &[2, 0], &[0, 0, 0], &[usize::MAX, usize::MAX]] {
        assert_eq!(t.get::<f64>(index).unwrap_err().kind, Kind::Shape);
        assert_eq!(t.clone().set(index, 0.0).unwrap_err().kind, Kind::Shape);
    }
    assert_eq!(t.get::<i64>(&[0, 0]).unwrap_err().kind, Kind::Dtype);
    assert_eq!(t.clone().set(&[0, 0], 1i64).unwrap_err().kind, Kind::Dtype);
    for position in [4, HUGE, usize::MAX] {
        assert_eq!(t.literal(position).unwrap_err().kind, Kind::Shape);
        let set = t.clone().set_literal(position, Literal::f64(0.0));
        assert_eq!(set.unwrap_err().kind, Kind::Shape);
    }
    assert_eq!(t.clone().set_literal(0, Literal::i64(0)).unwrap_err().kind, Kind::Dtype);
    let mut truth = Tensor::from([true]);
    let neither = Literal { dtype: Dtype::Bool, bits: 2 };
    assert_eq!(truth.set_literal(0, neither).unwrap_err().kind, Kind::Dtype);
    assert_eq!(Tensor::full(&[2], neither).unwrap_err().kind, Kind::Dtype);
    assert_eq!(Tensor::from(neither), Tensor::from(true));
    let mut one = Tensor::from(1.0f32);
    assert!(one.set_literal(0, Literal { dtype: Dtype::F32, bits: u64::MAX }).is_err());
    let truth = ArrayType::new(Dtype::Bool, [1]);
    assert_eq!(Tensor::from_bytes(&truth, &[2]).unwrap_err().kind, Kind::Dtype);
    assert_eq!(Tensor::from_bytes(&truth, &[1, 1]).unwrap_err().kind, Kind::Shape);
    assert_eq!(Tensor::from_lines(truth, zeros(2)).unwrap_err().kind, Kind::Shape);

    assert!(t.row(2).is_err() && t.row(usize::MAX).is_err() && Tensor::from(1.0).row(0).is_err());
    for axis in [2, -3, isize::MAX, isize::MIN] {
        assert_eq!(t.slice_axis(axis, ..).unwrap_err().kind, Kind::Shape);
    }
    assert!(t.slice_axis(0, ..=usize::MAX).is_err());
    assert!(t.slice_axis(0, (Bound::Excluded(usize::MAX), Bound::Unbounded)).is_err());
    #[allow(clippy::reversed_empty_ranges, reason = "absurd")]
    let backwards = t.slice_axis(0, 2..1);
    assert!(backwards.is_err());
    assert!(t.slice_axis(0, 3..).is_err() && t.slice_axis(0, ..3).is_err());
    assert!(t.slice(&[0..1, 0..1, 0..1]).is_err() && t.slice(&[0..1, 0..3]).is_err());
    assert!(Tensor::from_rows(&[vec![1], vec![]]).is_err());
    assert_eq!(Tensor::from_rows::<f64>(&[[]; 3]).unwrap().shape(), [3, 0]);
    assert_eq!(Tensor::from_rows::<f64>(&Vec::<Vec<f64>>::new()).unwrap().shape(), [0, 0]);
    assert!(t.item::<f64>().is_err() && t.iter::<f32>().is_err() && t.as_slice::<u64>().is_err());
    assert!(t.to_vec::<bool>().is_err());
}

#[test]
fn data_of_every_dtype_and_nesting() {
    let t = Tensor::from([[[1u32, 2, 3], [4, 5, 6]]]);
    assert_eq!((t.shape(), t.dtype()), (&[1, 2, 3][..], Dtype::U32));
    assert_eq!(Tensor::from(vec![[1, 2], [3, 4]]).ty().shape, Shape::from([2, 2]));
    assert_eq!(Tensor::from(vec![[[1], [2]]]).shape(), [1, 2, 1]);
    assert_eq!(Tensor::from(&[1, 2]), Tensor::from(&vec![1, 2]));
    assert_eq!(Tensor::from(&[[1], [2]]), Tensor::from([[1], [2]]));
    macro_rules! scalars {
        ($($x:expr => $dtype:ident),*) => {$(
            assert_eq!(Tensor::from($x).dtype(), Dtype::$dtype);
            assert_eq!(Tensor::from(Literal::from($x)), Tensor::from($x));
        )*};
    }
    scalars!(true => Bool, 1i32 => I32, -1i64 => I64, 1u32 => U32, 1u64 => U64, 1f32 => F32, 1.0 => F64);
}
