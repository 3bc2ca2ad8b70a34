//! Tests of `packing`.

use tapeloom_ir::prim::Packing;
use tapeloom_ir::{Builder, Draft, Dtype, Module, Tensor, Type};

/// Checks, for each exact packing of `x` with values in `least..=most`, that unpacking restores `x`; the packed sizes
/// must be `bytes`.
#[track_caller]
fn comes_back(x: &Tensor, least: i128, most: i128, bytes: &[usize]) {
    let all = Packing::exact(x.dtype(), least, most);
    let mut found = Vec::new();
    for packing in &all {
        let mut m = Module::new();
        let mut draft = Draft::new("both");
        let a = draft.param(Type::Array(x.ty().clone()));
        let b = Builder::new(&mut m, &mut draft);
        let packed = packing.pack(&b, a);
        assert_eq!(b.type_of(packed), packing.packed(x.ty()).into(), "{packing:?}");
        let again = packing.unpack(&b, packed, x.ty());
        let f = draft.finish(&mut m, vec![packed, again]).unwrap();
        let y = tapeloom_ir::eval(&m, f, std::slice::from_ref(x)).unwrap();
        assert_eq!(y[1], *x, "{packing:?}");
        found.push(y[0].bytes().len());
    }
    assert_eq!(found, bytes, "{all:?}");
}

#[test]
fn packing_round_trips() {
    let truth = |n: usize| -> Tensor {
        Tensor::new(&[n], (0..n).map(|i| i * i % 3 == 1).collect::<Vec<_>>()).unwrap()
    };
    comes_back(&truth(1), 0, 1, &[4, 8]);
    comes_back(&truth(32), 0, 1, &[4, 8]);
    comes_back(&truth(100), 0, 1, &[16, 16]);
    let numbers = |n: usize, least: i64, most: i64| -> Tensor {
        let one = |i: usize| least + (i as i64 * 7919).rem_euclid(most - least + 1);
        Tensor::new(&[n], (0..n).map(one).collect::<Vec<_>>()).unwrap()
    };
    // The packed numbers are, in this order, indices of one of three elements, five codes around 0, indices up to
    // 99,999, a constant, numbers near the least i64, and numbers with a range of more than 32 bits, which are not
    // packed.
    comes_back(&numbers(99, 0, 2), 0, 2, &[396, 28, 32]);
    comes_back(&numbers(33, -2, 2), -2, 2, &[132, 16, 16]);
    comes_back(&numbers(7, 0, 99_999), 0, 99_999, &[28, 24]);
    comes_back(&numbers(5, 3, 3), 3, 3, &[20, 4, 8]);
    let least = i64::MIN;
    comes_back(&numbers(3, least, least + 9), least.into(), (least + 9).into(), &[4, 8]);
    comes_back(&numbers(3, 0, 1 << 32), 0, 1 << 32, &[]);
}

#[test]
fn no_elements_take_no_bytes() {
    let none = Tensor::new(&[0, 3], Vec::<bool>::new()).unwrap();
    comes_back(&none, 0, 1, &[0, 0]);
}

#[test]
fn floats_are_packed_by_nobody_who_does_not_ask() {
    assert!(Packing::exact(Dtype::F64, 0, 1).is_empty());
    assert!(!Packing::As(Dtype::F32).is_exact());
}
