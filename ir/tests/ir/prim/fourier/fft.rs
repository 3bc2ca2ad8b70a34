//! Tests of `fft`.

use crate::test_laws::{check_samples, eval1, problem};
use tapeloom_ir::prim::{ArrayPrimitive, Fft};
use tapeloom_ir::{Dtype, Tensor, Type};

#[test]
fn laws_hold() {
    check_samples(Fft::samples());
}

#[test]
fn directions_differ_in_the_sign_of_the_exponent() {
    // The transform of the vector x with x[1] = 1 and zeros elsewhere is y[j] = exp(∓2 π i j / 4).
    let x = Tensor::from([[0.0, 1.0, 0.0, 0.0], [0.0; 4]]);
    let forward = Tensor::from([[1.0, 0.0, -1.0, 0.0], [0.0, -1.0, 0.0, 1.0]]);
    let inverse = Tensor::from([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]);
    assert_eq!(eval1(Fft { inverse: false, rank: 1, axis: 0 }, std::slice::from_ref(&x)), forward);
    assert_eq!(eval1(Fft { inverse: true, rank: 1, axis: 0 }, &[x]), inverse);
}

#[test]
fn any_axis_is_transformed_where_it_is() {
    // Along axis 0, the first column is (0, 1); its transform is (1, -1). The second column is i times the first.
    let x = Tensor::from([[[0.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]]);
    let y = Tensor::from([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 1.0], [0.0, -1.0]]]);
    assert_eq!(eval1(Fft { inverse: false, rank: 2, axis: 0 }, std::slice::from_ref(&x)), y);
    // Along axis 1, row 1 is (1, i); its transform is (1 + i, 1 - i).
    let y = Tensor::from([[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]]]);
    assert_eq!(eval1(Fft { inverse: false, rank: 2, axis: 1 }, &[x]), y);
}

#[test]
fn a_failure_stays_in_its_member() {
    let x = Tensor::from([[[1.0, f64::NAN], [0.0, 3.0]], [[1.0, 3.0], [-1.0, 2.0]]]);
    let y = eval1(Fft { inverse: false, rank: 1, axis: 0 }, &[x]);
    assert!(y.row(0).unwrap().to_vec::<f64>().unwrap().iter().all(|y| y.is_nan()));
    assert_eq!(y.row(1).unwrap(), Tensor::from([[4.0, -2.0], [1.0, -3.0]]));
}

#[test]
fn errors_name_a_remedy() {
    let ty = |dtype, shape: &[usize]| Type::array(dtype, shape);
    let wrong = |x: Type| problem(Fft { inverse: false, rank: 1, axis: 0 }, &[x]).to_string();
    assert!(wrong(ty(Dtype::I64, &[2, 4])).contains("convert them"));
    assert!(wrong(ty(Dtype::F64, &[])).contains("axis 0 of the last 1"));
    let no_axis = Fft { inverse: false, rank: 1, axis: 1 };
    let no_axis = problem(no_axis, &[ty(Dtype::F64, &[2, 4])]).to_string();
    assert!(no_axis.contains("axis 1 of the last 1"), "{no_axis}");
    let beyond = Fft { inverse: false, rank: 2, axis: 0 };
    let beyond = problem(beyond, &[ty(Dtype::F64, &[2, 4])]).to_string();
    assert!(beyond.contains("extent 2"), "{beyond}");
    assert!(wrong(ty(Dtype::F64, &[4])).contains("extent 2"));
    assert!(wrong(ty(Dtype::F64, &[3, 4])).contains("extent 2"));
}
