//! Scalar codes at the edges of their domains.

use tapeloom_ir::prim::{Bessel, BesselKind, Fold, Lowering, Operand, OperandDtypes, Parameter};
use tapeloom_ir::{Code, Dtype, Literal, Module, Op, Type};

fn ints(code: Code, dtype: Dtype, x: &[i128]) -> i128 {
    let x: Vec<Literal> = x.iter().filter_map(|x| Literal::rounded_integer(dtype, *x)).collect();
    let y = code.eval(&x);
    match y.dtype {
        Dtype::I32 => i128::from(y.bits as u32 as i32),
        Dtype::I64 => i128::from(y.bits as i64),
        _ => i128::from(y.bits),
    }
}

fn floats(code: Code, x: &[f64]) -> f64 {
    let x: Vec<Literal> = x.iter().map(|x| Literal::f64(*x)).collect();
    code.eval(&x).to_f64()
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

const MIN: i128 = i32::MIN as i128;
const MAX: i128 = i32::MAX as i128;

#[test]
fn integers_wrap() {
    use Dtype::{I32, I64, U32, U64};
    for (code, dtype, x, want) in [
        (Code::Add, I32, &[MAX, 1][..], MIN),
        (Code::Sub, I32, &[MIN, 1], MAX),
        (Code::Sub, U32, &[0, 1], 0xffff_ffff),
        (Code::Mul, I32, &[1 << 20, 1 << 12], 0),
        (Code::Mul, U64, &[1 << 63, 3], 1 << 63),
        (Code::Neg, I32, &[MIN], MIN),
        (Code::Abs, I32, &[MIN], MIN),
        (Code::Abs, I64, &[-7], 7),
        (Code::Sign, I32, &[-7], -1),
        (Code::Sign, U32, &[7], 1),
        (Code::Max, U32, &[0xffff_ffff, 1], 0xffff_ffff),
        (Code::Clamp, I32, &[-2, -7, 5], -2),
        (Code::Clamp, I32, &[2, 0, 1], 1),
    ] {
        assert_eq!(ints(code, dtype, x), want, "{code:?} of {x:?}");
    }
}

#[test]
fn integer_division_has_no_traps() {
    use Dtype::{I32, U32};
    for (code, dtype, x, want) in [
        (Code::Div, I32, [-7, 2], -3),
        (Code::Rem, I32, [-7, 2], -1),
        (Code::Div, I32, [7, 0], -1),
        (Code::Div, U32, [7, 0], 0xffff_ffff),
        (Code::Rem, I32, [7, 0], 7),
        (Code::Div, I32, [MIN, -1], MIN),
        (Code::Rem, I32, [MIN, -1], 0),
    ] {
        assert_eq!(ints(code, dtype, &x), want, "{code:?} of {x:?}");
    }
}

#[test]
fn shifts_too_far_shift_everything_out() {
    use Dtype::{I32, U32, U64};
    for (code, dtype, x, want) in [
        (Code::ShiftLeft, I32, [1, 31], MIN),
        (Code::ShiftLeft, I32, [1, 32], 0),
        (Code::ShiftLeft, I32, [1, -1], 0),
        (Code::ShiftRightLogical, I32, [-1, 31], 1),
        (Code::ShiftRightLogical, I32, [-1, 32], 0),
        (Code::ShiftRightArithmetic, I32, [-8, 1], -4),
        (Code::ShiftRightArithmetic, I32, [-8, 32], -1),
        (Code::ShiftRightArithmetic, I32, [8, 99], 0),
        (Code::ShiftRightArithmetic, U32, [0x8000_0000, 31], 0xffff_ffff),
        (Code::ShiftLeft, U64, [1, 63], 1 << 63),
    ] {
        assert_eq!(ints(code, dtype, &x), want, "{code:?} of {x:?}");
    }
}

#[test]
fn bits_and_truth() {
    assert_eq!(ints(Code::And, Dtype::I32, &[12, 10]), 8);
    assert_eq!(ints(Code::Or, Dtype::I32, &[12, 10]), 14);
    assert_eq!(ints(Code::Xor, Dtype::I32, &[12, 10]), 6);
    assert_eq!(ints(Code::Not, Dtype::I32, &[0]), -1);
    assert_eq!(ints(Code::Not, Dtype::U32, &[0]), 0xffff_ffff);
    for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
        let of = |code: Code| code.eval(&[Literal::bool(a), Literal::bool(b)]).bits != 0;
        assert_eq!(of(Code::And), a && b);
        assert_eq!(of(Code::Or), a || b);
        assert_eq!(of(Code::Xor), a != b);
        assert_eq!(of(Code::Lt), !a && b);
        assert_eq!(of(Code::Ge), a || !b);
        assert_eq!(of(Code::Max), a || b);
        assert_eq!(of(Code::Min), a && b);
        assert_eq!(Code::Not.eval(&[Literal::bool(a)]), Literal::bool(!a));
    }
}

#[test]
fn unsigned_numbers_compare_as_such() {
    assert_eq!(ints(Code::Lt, Dtype::U32, &[1, 0xffff_ffff]), 1);
    assert_eq!(ints(Code::Lt, Dtype::I32, &[1, -1]), 0);
}

/// [`Code::Max`] and [`Code::Min`] must order all numbers, with -0 below 0, and return nan if an operand is nan.
#[test]
fn extremes() {
    let ascending =
        [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, f64::INFINITY];
    for (i, &x) in ascending.iter().enumerate() {
        for (j, &y) in ascending.iter().enumerate() {
            let (low, high) = if i < j { (x, y) } else { (y, x) };
            assert!(same(floats(Code::Max, &[x, y]), high), "max({x}, {y})");
            assert!(same(floats(Code::Min, &[x, y]), low), "min({x}, {y})");
        }
        for code in [Code::Max, Code::Min] {
            assert!(floats(code, &[x, f64::NAN]).is_nan());
            assert!(floats(code, &[f64::NAN, x]).is_nan());
        }
    }
}

#[test]
fn remainders_have_the_sign_of_the_dividend() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for (x, y, want) in [
        (7.0, 3.0, 1.0),
        (-7.0, 3.0, -1.0),
        (7.0, -3.0, 1.0),
        (-6.0, 3.0, -0.0),
        (5.5, 2.25, 1.0),
        (1.0, 0.0, nan),
        (inf, 2.0, nan),
        (-2.0, inf, -2.0),
        (2.0_f64.powi(1000), 3.0, 1.0), // 2¹⁰⁰⁰ mod 3: exact despite the ratio
    ] {
        assert!(same(floats(Code::Rem, &[x, y]), want), "{x} rem {y}");
    }
}

#[test]
fn signs_keep_zeros_and_nan() {
    for (x, want) in [(3.0, 1.0), (-5e-324, -1.0), (0.0, 0.0), (-0.0, -0.0), (f64::NAN, f64::NAN)] {
        assert!(same(floats(Code::Sign, &[x]), want), "sign {x}");
    }
}

#[test]
fn integer_powers() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for (x, n, want) in [
        (nan, 0, 1.0),
        (-0.0, 1, -0.0),
        (-3.0, 7, -2187.0),
        (-3.0, 30, 205_891_132_094_649.0),
        (2.0, -2, 0.25),
        (-0.0, -1, -inf),
        (1e-200, 3, 0.0),
        (1e-200, -2, inf),
        (1e150, 2, 1e150 * 1e150), // squared no more than needed, or 0 · inf would give nan
        (-1.0, i32::MIN, 1.0),
        (-1.0, i32::MAX, -1.0),
        (0.5, i32::MIN, inf),
    ] {
        assert!(same(floats(Code::IntegerPow(n), &[x]), want), "{x}^{n}");
    }
    for n in -20..=20 {
        for k in 1..24 {
            let x = 0.13 * f64::from(k) - 1.5;
            let (got, want) = (floats(Code::IntegerPow(n), &[x]), x.powf(f64::from(n)));
            // A power takes about |n| products, and each product is rounded once.
            let bound = 2.3e-16 * (f64::from(n).abs() + 2.0);
            assert!((got / want - 1.0).abs() <= bound, "{x}^{n}: {got}, expected {want}");
        }
    }
    assert_eq!(ints(Code::IntegerPow(21), Dtype::I32, &[3]), 10_460_353_203_i64 as i32 as i128);
    assert_eq!(ints(Code::IntegerPow(32), Dtype::I32, &[2]), 0);
    assert_eq!(ints(Code::IntegerPow(5), Dtype::I64, &[-7]), -16_807);
}

#[test]
fn conversions() {
    use Dtype::{Bool, F32, F64, I32, I64, U32, U64};
    let int =
        |dtype: Dtype, x: i128| Literal::rounded_integer(dtype, x).unwrap_or(Literal::zero(dtype));
    let real = Literal::f64;
    for (x, want) in [
        (real(2.9), int(I32, 2)),
        (real(-2.9), int(I32, -2)),
        (real(1e20), int(I32, MAX)),
        (real(-1.0), int(U64, 0)),
        (real(f64::NAN), int(I64, 0)),
        (real(f64::NAN), Literal::bool(true)),
        (real(-0.0), Literal::bool(false)),
        (real(0.1), Literal::of(F32, 0.1)),
        (Literal::of(F32, 0.1), real(f64::from(0.1f32))),
        (int(I64, (1 << 32) + 5), int(I32, 5)),
        (int(I32, -1), int(U64, 0xffff_ffff_ffff_ffff)),
        (int(U32, 0xffff_ffff), int(I32, -1)),
        (int(U32, 0xffff_ffff), int(I64, 0xffff_ffff)),
        (int(I64, -3), Literal::bool(true)),
        (Literal::bool(true), int(I32, 1)),
        (Literal::bool(true), real(1.0)),
        // A conversion of an integer to f32 must round once, to nearest even, also if f64 cannot represent the integer.
        (
            int(U64, (1 << 62) + (1 << 38) + 1),
            Literal::of(F32, (1u64 << 62) as f64 + (1u64 << 39) as f64),
        ),
        (int(I64, -((1 << 24) + 1)), Literal::of(F32, -f64::from(1 << 24))),
    ] {
        assert_eq!(Code::Convert(want.dtype).eval(&[x]), want, "{x} to {}", want.dtype);
    }
    assert_eq!(Code::Convert(F64).result(Bool), F64);
}

// -- The table ---------------------------------------------------------------------------------------

/// Returns the numbers ±0, ±1, 2.5, ±1e300, ±inf and nan, converted to `dtype`.
fn edges(dtype: Dtype) -> Vec<Literal> {
    let real = [-0.0, 0.0, 1.0, -1.0, 2.5, 1e300, -1e300, f64::INFINITY, -f64::INFINITY, f64::NAN];
    real.into_iter().map(|x| Literal::of(dtype, x)).collect()
}

fn equal(x: Literal, y: Literal) -> bool {
    x == y || (x.dtype == y.dtype && x.to_f64().is_nan() && y.to_f64().is_nan())
}

/// Calls `f` for every code without a parameter that takes two operands of one dtype, with pairs of operands.
fn pairs(mut f: impl FnMut(Code, Literal, Literal)) {
    for code in Code::PLAIN.iter().copied().filter(|c| c.row().takes == OperandDtypes::Equal(2)) {
        for dtype in Dtype::ALL.into_iter().filter(|d| code.row().domain.has(*d)) {
            for x in edges(dtype) {
                edges(dtype).into_iter().for_each(|y| f(code, x, y));
            }
        }
    }
}

#[test]
fn names_are_unique_and_found() {
    for (i, code) in Code::PLAIN.iter().enumerate() {
        let name = code.row().name;
        assert!(Code::PLAIN[..i].iter().all(|c| c.row().name != name), "two codes are {name}");
        let found = Code::named(name, None, &|_| None).map(|c| c.to_string());
        assert_eq!(found.as_deref(), Some(name));
    }
}

/// The text of a loop program may give a function an order that its primitive refuses.
#[test]
fn an_order_that_is_no_natural_number_gives_nan() {
    let (ty, kind) = (Type::scalar(Dtype::F64), BesselKind::J);
    let operand = [Operand { ty: &ty, literal: None }];
    let lowering = Op::from(Bessel { kind, n: 1 }).lower(&Module::new(), &operand);
    let Lowering::Elementwise(Code::Library(library)) = lowering else {
        panic!("`bessel_j` is a library function")
    };
    let of = |n| Code::named("bessel_j", Some(Parameter::N(n)), &|_| Some(library)).unwrap();
    assert!((floats(of(1), &[2.0]) - 0.576_724_807_756_873_4).abs() < 1e-15);
    for n in [-1, i64::from(u32::MAX) + 2, i64::MIN] {
        assert!(floats(of(n), &[2.0]).is_nan(), "{n}");
    }
}

#[test]
fn results_have_the_dtype_that_the_row_says() {
    pairs(|code, x, y| {
        let typed = code.typed(&[x.dtype, y.dtype]);
        assert_eq!(typed, Some(code.eval(&[x, y]).dtype), "{code} of {x} and {y}");
    });
}

#[test]
fn operands_may_be_exchanged_exactly_where_the_row_says() {
    let mut differ = Vec::new();
    pairs(|code, x, y| {
        if !equal(code.eval(&[x, y]), code.eval(&[y, x])) {
            assert!(!code.row().commutes, "{code} of {x} and {y}");
            differ.push(code.row().name);
        }
    });
    for code in Code::PLAIN.iter().filter(|c| c.row().takes == OperandDtypes::Equal(2)) {
        assert!(code.row().commutes || differ.contains(&code.row().name), "{code} commutes");
    }
}

#[test]
fn neutral_elements_change_nothing() {
    let mut folds = 0;
    pairs(|code, x, _| {
        if let Some(neutral) = code.neutral(x.dtype) {
            assert!(equal(code.eval(&[neutral, x]), x), "{code} of {neutral} and {x}");
            assert!(equal(code.eval(&[x, neutral]), x), "{code} of {x} and {neutral}");
            folds += 1;
        }
    });
    assert!(folds > 0);
}

#[test]
fn exact_folds_may_be_grouped_in_any_way() {
    let mut rounded = Vec::new();
    pairs(|code, x, y| {
        let row = code.row();
        if row.fold == Fold::No {
            return;
        }
        for z in edges(x.dtype) {
            let left = code.eval(&[code.eval(&[x, y]), z]);
            let right = code.eval(&[x, code.eval(&[y, z])]);
            if !equal(left, right) {
                assert!(matches!(row.fold, Fold::Rounded(_)), "{code} of {x}, {y} and {z}");
                assert!(x.dtype.is_float(), "{code} of {x}, {y} and {z}");
                rounded.push(row.name);
            }
        }
    });
    assert!(rounded.contains(&"add") && rounded.contains(&"mul"));
}
