//! Tests of `irfft`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Irfft, Rfft};
use tapeloom_ir::{Dtype, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(Irfft::samples());
}

#[test]
fn a_sequence_comes_back_n_fold() {
    for n in [1, 2, 3, 4, 5] {
        let x = Tensor::from((0..n).map(|k| f64::from(k * k) - 2.0).collect::<Vec<f64>>());
        let n = usize::try_from(n).unwrap();
        let back = eval1(
            Irfft { n, rank: 1, axis: 0 },
            &[eval1(Rfft { rank: 1, axis: 0 }, std::slice::from_ref(&x))],
        );
        let pairs = back.to_vec::<f64>().unwrap().into_iter().zip(x.to_vec::<f64>().unwrap());
        for (back, x) in pairs {
            assert!((back - n as f64 * x).abs() < 1e-12, "n = {n}: {back} and {x}");
        }
    }
}

#[test]
fn imaginary_parts_at_both_ends_are_not_read() {
    let nan = f64::NAN;
    let x = eval1(
        Irfft { n: 4, rank: 1, axis: 0 },
        &[Tensor::from([[4.0, 0.0, 0.0], [nan, 0.0, nan]])],
    );
    assert_eq!(x, Tensor::from([4.0; 4]));
    let odd = eval1(Irfft { n: 3, rank: 1, axis: 0 }, &[Tensor::from([[4.0, 0.0], [0.0, nan]])]);
    assert!(odd.to_vec::<f64>().unwrap().iter().all(|x| x.is_nan()));
}

#[test]
fn errors_name_a_remedy() {
    let wrong = |x: &[usize]| {
        problem(Irfft { n: 6, rank: 1, axis: 0 }, &[Type::array(Dtype::F64, x)]).to_string()
    };
    assert!(wrong(&[2, 3]).contains("4 frequencies"));
    assert!(wrong(&[4]).contains("extent 2"));
}
