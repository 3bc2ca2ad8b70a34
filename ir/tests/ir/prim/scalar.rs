//! Tests of the table of scalar primitives: values against the standard library and against recorded numbers,
//! derivatives up to order four against recorded numbers, integer semantics, ties and edges.
//!
//! Properties of all primitives' samples (finite differences, transposes, batching) are tested in the tests crate. The
//! tests here check that the numbers are right.

use crate::elements::Elements;
use crate::test_laws::NoRegions;
use std::collections::HashMap;
use tapeloom_ir::prim::{
    ArrayPrimitive, Attr, Attributes, Equality, IntegerPow, Lowering, Operand, Polygamma, RuleCx,
};
use tapeloom_ir::{
    Atom, Builder, Draft, Dtype, FuncId, Kind, Literal, Module, Op, Problem, Scalar, Tensor, Type,
};

fn op(name: &str) -> Op {
    match name.split_once("{n=") {
        Some(("integer_pow", n)) => {
            IntegerPow { n: n.trim_end_matches('}').parse().unwrap() }.into()
        }
        Some(("polygamma", n)) => Polygamma { n: n.trim_end_matches('}').parse().unwrap() }.into(),
        _ => Op::parse(name, &mut Attributes::default()).unwrap().unwrap(),
    }
}

/// Returns the value of the primitive `name` at the scalars `x`, all of dtype `dtype`.
fn at(name: &str, dtype: Dtype, x: &[f64]) -> f64 {
    let x: Vec<Tensor> = x.iter().map(|x| Tensor::from(Literal::of(dtype, *x))).collect();
    op(name).eval(&Module::new(), &x).unwrap()[0].at(0).to_f64()
}

/// Returns the value of the primitive `name` at the f64 scalars `x`.
fn value(name: &str, x: &[f64]) -> f64 {
    at(name, Dtype::F64, x)
}

/// Makes the function `x ↦ op(x)` of scalars.
fn function(module: &mut Module, op: Op, dtypes: &[Dtype]) -> FuncId {
    let mut draft = Draft::new("f");
    let x: Vec<Atom> = dtypes.iter().map(|d| draft.param(Type::scalar(*d))).collect();
    let y = Builder::new(module, &mut draft).emit1(op, &x);
    draft.finish(module, vec![y]).unwrap()
}

/// Returns the derivative of a function of scalars in its parameter `i`: forward mode with tangent 1.
fn derivative_in(module: &mut Module, f: FuncId, i: usize) -> Result<FuncId, Problem> {
    let f = module.get(f);
    let mut draft = Draft::new("df");
    let mut value: HashMap<Atom, Atom> = HashMap::new();
    let mut tangent: HashMap<Atom, Atom> = HashMap::new();
    for (k, p) in f.params.iter().enumerate() {
        let x = draft.param(f.types[*p].clone());
        value.insert((*p).into(), x);
        if k == i {
            tangent.insert((*p).into(), Literal::one(Dtype::F64).into());
        }
    }
    let result = {
        let b = Builder::new(module, &mut draft);
        for e in &f.equations {
            let x: Vec<Atom> = e.operands.iter().map(|a| *value.get(a).unwrap_or(a)).collect();
            let dx: Vec<Option<Atom>> =
                e.operands.iter().map(|a| tangent.get(a).copied()).collect();
            let out: Atom = e.outputs[0].into();
            if dx.iter().all(Option::is_none) {
                value.insert(out, b.emit1(e.op.clone(), &x));
                continue;
            }
            let dual = e.op.jvp(
                &mut RuleCx { b: &b, regions: &mut NoRegions, shares: &[], reads: &[] },
                &x,
                &dx,
            )?;
            value.insert(out, dual.y[0]);
            if let Some(dy) = dual.dy[0] {
                tangent.insert(out, dy);
            }
        }
        tangent.get(&f.results[0]).copied().unwrap_or(Literal::f64(0.0).into())
    };
    draft.finish(module, vec![result])
}

/// Returns the value and the first four derivatives of the primitive `name` at the point `x`.
fn derivatives(name: &str, x: f64) -> [f64; 5] {
    let mut module = Module::new();
    let mut f = function(&mut module, op(name), &[Dtype::F64]);
    [0, 1, 2, 3, 4].map(|order| {
        if order > 0 {
            f = derivative_in(&mut module, f, 0).unwrap();
        }
        number(&tapeloom_ir::eval(&module, f, &[x.into()]).unwrap()[0])
    })
}

fn number(t: &Tensor) -> f64 {
    t.at(0).to_f64()
}

/// Returns the partial derivative of the primitive `name` in operand `i` at the f64 scalars `x`.
fn partial(name: &str, i: usize, x: &[f64]) -> f64 {
    let mut module = Module::new();
    let f = function(&mut module, op(name), &vec![Dtype::F64; x.len()]);
    let df = derivative_in(&mut module, f, i).unwrap();
    let x: Vec<Tensor> = x.iter().map(|x| (*x).into()).collect();
    number(&tapeloom_ir::eval(&module, df, &x).unwrap()[0])
}

fn close(got: f64, want: f64, relative: f64) -> bool {
    got == want
        || (got.is_nan() && want.is_nan())
        || (got - want).abs() <= relative * want.abs() + 1e-12
}

// -- The table itself ------------------------------------------------------------------------------

#[test]
fn rows_are_complete() {
    let mut names: Vec<&str> = Scalar::ALL.iter().map(|s| s.row().name()).collect();
    for s in Scalar::ALL {
        let row = s.row();
        assert_eq!(row.partials.len(), row.arity(), "{}", row.name());
        assert!(!row.math.is_empty() && !row.edges.is_empty(), "{}", row.name());
        for point in row.smooth.iter().chain(row.edge) {
            assert_eq!(point.len(), row.arity(), "{}", row.name());
        }
        for rewrite in row.rewrites {
            // Other kinds of rewrite rows are code, so a test cannot read their root primitive.
            if let Equality::Pattern { lhs, .. } = rewrite.rule {
                let root = format!("({} ", row.name());
                assert!(lhs.starts_with(&root), "{} is elsewhere", rewrite.name);
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Scalar::ALL.len(), "names are unique");
}

#[test]
fn names_parse() {
    for s in Scalar::ALL {
        assert_eq!(op(s.row().name()), Op::from(*s));
    }
    assert_eq!(op("integer_pow{n=-3}"), IntegerPow { n: -3 }.into());
    assert!(Op::parse("no_such_function", &mut Attributes::default()).is_none());
    let attributes = |n: i64| Attributes::new(vec![("n".into(), Attr::Int(n))]);
    assert_eq!(Op::parse("polygamma", &mut attributes(2)).unwrap(), Ok(Polygamma { n: 2 }.into()));
    assert!(Op::parse("polygamma", &mut attributes(-1)).unwrap().is_err());
    assert!(Op::parse("integer_pow", &mut attributes(1 << 40)).unwrap().is_err());
}

#[test]
fn documentation_shows_the_formulas() {
    let docs = Scalar::docs();
    let of = |name: &str| &docs.iter().find(|d| d.name == name).unwrap().derivative;
    assert_eq!(of("sin"), "∂x: t · cos(x)");
    assert_eq!(of("tanh"), "∂x: t · sech_square(x)");
    assert_eq!(of("div"), "∂x: t / y; ∂y: -t · f / y");
    assert_eq!(of("log1p"), "∂x: t / (x + 1)");
    assert_eq!(
        of("atan2"),
        "∂x: t · y / hypot(x, y) / hypot(x, y); ∂y: -t · x / hypot(x, y) / hypot(x, y)"
    );
    assert_eq!(of("erf"), "∂x: t · 2/√π · exp(-x · x)");
    assert_eq!(of("clamp").split("; ").nth(1).unwrap(), "∂y: y > x ∧ y < z ? t : 0");
    assert_eq!(of("abs"), "∂x: t · (x ≥ 0 ? 1 : -1)");
    assert_eq!(of("floor"), "∂x: 0, piecewise constant");
    assert_eq!(of("eq"), "∂x, ∂y: 0, a bool has no tangent");
    assert_eq!(of("digamma"), "∂x: t · polygamma{n=1}(x)");
    assert!(of("nextafter").starts_with("∂x, ∂y: none, "), "{}", of("nextafter"));
}

/// The loops over buffers give the result of [`Code::eval`] for each element, also if an operand is a literal.
#[test]
fn buffers_and_literals_agree() {
    let mut module = Module::new();
    for sample in Op::samples(&mut module) {
        let types: Vec<Type> = sample.operands.iter().map(|t| t.ty().clone().into()).collect();
        let typed: Vec<Operand<'_>> =
            types.iter().map(|ty| Operand { ty, literal: None }).collect();
        let Lowering::Elementwise(code) = sample.op.lower(&module, &typed) else { continue };
        let n = sample.operands[0].elements();
        for broadcast in 0..=sample.operands.len() {
            let mut x = sample.operands.clone();
            if let (Some(t), true) = (x.get_mut(broadcast), n > 0 && sample.operands.len() > 1) {
                *t = Tensor::from(t.at(0));
            }
            let y = &sample.op.eval(&module, &x).unwrap()[0];
            assert_eq!(y.shape(), sample.operands[0].shape());
            for i in 0..n {
                let at: Vec<Literal> =
                    x.iter().map(|t| t.at(if t.shape().is_empty() { 0 } else { i })).collect();
                assert_eq!(y.at(i), code.eval(&at), "{:?} of {at:?}", sample.op);
            }
        }
    }
}

#[test]
fn a_constant_exponent_stays_constant() {
    let mut module = Module::new();
    let mut draft = Draft::new("f");
    let x = draft.param(Type::array(Dtype::F64, &[2]));
    let dy = {
        let b = Builder::new(&mut module, &mut draft);
        let mut cx = RuleCx { b: &b, regions: &mut NoRegions, shares: &[], reads: &[] };
        let exponent = Literal::f64(2.5).into();
        Op::from(Scalar::Pow).jvp(&mut cx, &[x, exponent], &[Some(x), None]).unwrap().dy[0].unwrap()
    };
    let f = draft.finish(&mut module, vec![dy]).unwrap();
    let y = tapeloom_ir::eval(&module, f, &[Tensor::from([1.0, 4.0])]).unwrap();
    assert_eq!(y[0], Tensor::from([2.5, 2.5 * 32.0]));
}

// -- Values ----------------------------------------------------------------------------------------

/// Returns points inside the domains of functions of all reals, of positive numbers, and of [-1, 1].
fn points() -> [&'static [&'static [f64]]; 3] {
    [Scalar::Sin, Scalar::Log, Scalar::Asin].map(|s| s.row().smooth)
}

#[test]
fn functions_of_the_standard_library_are_its_own() {
    type Function = fn(f64) -> f64;
    let table: [(&str, Function); 6] = [
        ("sqrt", f64::sqrt),
        ("floor", f64::floor),
        ("ceil", f64::ceil),
        ("round", f64::round),
        ("round_even", f64::round_ties_even),
        ("abs", f64::abs),
    ];
    let ([real, positive, unit], edges) = (points(), Scalar::Exp.row().edge);
    for (name, f) in table {
        for x in real.iter().chain(positive).chain(unit).chain(edges) {
            let (x, narrow) = (x[0], x[0] as f32);
            assert_eq!(value(name, &[x]).to_bits(), f(x).to_bits(), "{name} of {x}");
            // Rounding the correctly rounded f64 result gives the correctly rounded f32 result.
            let want = f64::from(f(f64::from(narrow)) as f32);
            assert_eq!(at(name, Dtype::F32, &[x]).to_bits(), want.to_bits(), "{name} of {narrow}");
        }
    }
}

#[test]
fn functions_of_our_own_are_reached() {
    use tapeloom_ir::math;
    type Function = fn(f64) -> f64;
    let table: [(&str, Function); 31] = [
        ("exp", math::exp),
        ("exp2", math::exp2),
        ("expm1", math::expm1),
        ("log", math::log),
        ("log2", math::log2),
        ("log10", math::log10),
        ("log1p", math::log1p),
        ("sin", math::sin),
        ("cos", math::cos),
        ("tan", math::tan),
        ("asin", math::asin),
        ("acos", math::acos),
        ("atan", math::atan),
        ("sinh", math::sinh),
        ("cosh", math::cosh),
        ("tanh", math::tanh),
        ("softplus", math::softplus),
        ("sech", math::sech),
        ("ndtr", math::ndtr),
        ("rsqrt", math::rsqrt),
        ("cbrt", math::cbrt),
        ("asinh", math::asinh),
        ("acosh", math::acosh),
        ("atanh", math::atanh),
        ("logistic", math::logistic),
        ("erf", math::erf),
        ("erfc", math::erfc),
        ("erf_inv", math::erf_inv),
        ("lgamma", math::lgamma),
        ("digamma", math::digamma),
        ("polygamma{n=3}", |x| math::polygamma(3, x)),
    ];
    let [_, positive, unit] = points();
    for (name, f) in table {
        for x in positive.iter().chain(unit) {
            assert_eq!(value(name, x).to_bits(), f(x[0]).to_bits(), "{name} of {x:?}");
            let narrow = f64::from(x[0] as f32);
            let (found, want) = (at(name, Dtype::F32, x) as f32, f(narrow) as f32);
            let near = [want.next_down(), want, want.next_up()];
            assert!(found.is_nan() && want.is_nan() || near.contains(&found), "{name} of {x:?}");
        }
    }
}

/// Compares the values of a function of two operands bit for bit with the third column of `table`; all nan are equal.
#[track_caller]
fn check2(name: &str, table: &[(f64, f64, f64)]) {
    for &(x, y, want) in table {
        let got = value(name, &[x, y]);
        let same = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
        assert!(same, "{name}({x}, {y}) = {got}, expected {want}");
    }
}

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

#[test]
fn pow_follows_c() {
    check2(
        "pow",
        &[
            (NAN, 0.0, 1.0),
            (1.0, NAN, 1.0),
            (-1.0, INF, 1.0),
            (0.0, -1.0, INF),
            (-0.0, -1.0, -INF),
            (-0.0, 3.0, -0.0),
            (-8.0, 1.0 / 3.0, NAN),
            (-2.0, 3.0, -8.0),
            (0.5, -INF, INF),
            (-INF, 3.0, -INF),
            (2.0, NAN, NAN),
            (4.0, 0.5, 2.0),
            (3.0, 2.0, 9.0),
            (10.0, 3.0, 1000.0),
            (2.0, -3.0, 0.125),
        ],
    );
}

#[test]
fn logarithms_and_exponentials_are_exact_at_powers() {
    for n in -1074..1024 {
        let bits = if n < -1022 { 1 << (n + 1074) } else { ((n + 1023) as u64) << 52 };
        let power = f64::from_bits(bits);
        assert_eq!(value("log2", &[power]), f64::from(n));
        assert_eq!(value("exp2", &[f64::from(n)]), power);
    }
    for n in -307..=308 {
        let power: f64 = format!("1e{n}").parse().unwrap();
        assert_eq!(value("log10", &[power]), f64::from(n));
    }
    for n in -37..=38 {
        let power: f32 = format!("1e{n}").parse().unwrap();
        assert_eq!(at("log10", Dtype::F32, &[power.into()]), f64::from(n), "1e{n}");
    }
}

#[test]
fn powers_with_exponent_zero_have_no_slope() {
    for x in [0.0, -0.0, 5e-324, -1e-310, 1e-300, 2.0, INF, NAN] {
        assert_eq!(partial("pow", 0, &[x, 0.0]), 0.0, "at {x}");
    }
    // The slope at exponent 0 is a special case; its derivatives must be those of a power: 1/x, 2 ln x / x.
    let (mut module, x) = (Module::new(), [Tensor::from(2.0), Tensor::from(0.0)]);
    let f = function(&mut module, op("pow"), &[Dtype::F64; 2]);
    let slope = derivative_in(&mut module, f, 0).unwrap();
    let mixed = derivative_in(&mut module, slope, 1).unwrap();
    let third = derivative_in(&mut module, mixed, 1).unwrap();
    assert_eq!(number(&tapeloom_ir::eval(&module, mixed, &x).unwrap()[0]), 0.5);
    assert!(close(number(&tapeloom_ir::eval(&module, third, &x).unwrap()[0]), 2f64.ln(), 1e-15));
}

#[test]
fn logaddexp_is_the_larger_plus_a_correction() {
    check2(
        "logaddexp",
        &[
            (1.0, -INF, 1.0),
            (-INF, -INF, -INF),
            (INF, INF, INF),
            (INF, -INF, INF),
            (1.0, -1e17, 1.0),
            (1e308, 1e308, 1e308),
            (-1e308, 1e308, 1e308),
            (NAN, INF, NAN),
            (-INF, NAN, NAN),
        ],
    );
    let slopes = |x: f64, y: f64| [0, 1].map(|i| partial("logaddexp", i, &[x, y]));
    for x in [-1e300, -3.0, 0.0, 1.0, 800.0, INF, -INF] {
        assert_eq!(slopes(x, x), [0.5, 0.5], "at {x}");
    }
    assert_eq!(slopes(1.0, -INF), [1.0, 0.0]);
    assert_eq!(slopes(1.0, -1e17), [1.0, 0.0]);
    let mut module = Module::new();
    let f = function(&mut module, op("logaddexp"), &[Dtype::F64; 2]);
    let slope = derivative_in(&mut module, f, 0).unwrap();
    for (i, want) in [(0, 0.25), (1, -0.25)] {
        let second = derivative_in(&mut module, slope, i).unwrap();
        let x = [Tensor::from(3.0), Tensor::from(3.0)];
        assert_eq!(number(&tapeloom_ir::eval(&module, second, &x).unwrap()[0]), want);
    }
}

#[test]
fn tails_of_derivatives_are_kept() {
    // The expected values were computed with 50 digits.
    for (name, x, want) in [
        ("tanh", 20.0, 1.699_341_702_116_635_6e-17),
        ("tanh", -350.0, 3.943_870_617_503_908e-304),
        ("logistic", 40.0, 4.248_354_255_291_589e-18),
        ("logistic", 700.0, 9.859_676_543_759_77e-305),
        ("softplus", -700.0, 9.859_676_543_759_77e-305),
    ] {
        let got = partial(name, 0, &[x]);
        assert!((got / want - 1.0).abs() < 1e-14, "{name}' at {x} is {got:e}, expected {want:e}");
    }
}

/// Derivatives whose formulas contain the square of a number must be accurate even if the square overflows or
/// underflows.
#[test]
fn derivatives_far_from_one_are_kept() {
    let half = 0.5f64;
    let table: &[(&str, usize, &[f64], f64)] = &[
        ("atan2", 0, &[1e300, 1e300], half / 1e300),
        ("atan2", 1, &[1e300, 1e300], -half / 1e300),
        ("atan2", 0, &[1e-300, 1e-300], half / 1e-300),
        ("atan2", 1, &[1e-300, 1e-300], -half / 1e-300),
        ("atan2", 0, &[1.0, 1e200], 1e-200),
        ("atan2", 1, &[1e200, 1.0], -1e-200),
        ("atan2", 0, &[0.0, 1e-200], 1e200),
        ("hypot", 0, &[1e300, 1e300], half.sqrt()),
        ("hypot", 1, &[1e-300, 1e-300], half.sqrt()),
        ("asinh", 0, &[1e300], 1e-300),
        ("asinh", 0, &[-1e200], 1e-200),
        ("asinh", 0, &[1e-300], 1.0),
        ("acosh", 0, &[1e300], 1e-300),
        ("acosh", 0, &[1e200], 1e-200),
        ("log", 0, &[1e-300], 1e300),
        ("sqrt", 0, &[1e-300], 0.5e150),
        ("rsqrt", 0, &[1e200], -0.5e-300),
        ("cbrt", 0, &[1e300], 1e-200 / 3.0),
        ("cbrt", 0, &[1e-300], 1e200 / 3.0),
        ("div", 1, &[1e300, 1e300], -1e-300),
        ("div", 1, &[1e-300, 1e-300], -1e300),
    ];
    for (name, i, x, want) in table {
        let got = partial(name, *i, x);
        assert!((got / want - 1.0).abs() < 1e-13, "∂{i} of {name} at {x:?}: {got:e}, not {want:e}");
    }
}

#[test]
fn atan2_takes_the_ordinate_first() {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    check2(
        "atan2",
        &[
            (0.0, 1.0, 0.0),
            (-0.0, 1.0, -0.0),
            (0.0, -1.0, PI),
            (-0.0, -1.0, -PI),
            (0.0, -0.0, PI),
            (1.0, 0.0, FRAC_PI_2),
            (-1.0, -0.0, -FRAC_PI_2),
            (1.0, 1.0, FRAC_PI_4),
            (INF, -INF, 3.0 * FRAC_PI_4),
            (1.0, -INF, PI),
            (NAN, 1.0, NAN),
        ],
    );
}

#[test]
fn nextafter_is_exact_in_both_widths() {
    check2("nextafter", &[(1.0, 2.0, 1.0 + f64::EPSILON), (0.0, -1.0, -5e-324), (1.0, 1.0, 1.0)]);
    assert_eq!(at("nextafter", Dtype::F32, &[1.0, 2.0]), f64::from(1.0 + f32::EPSILON));
    assert_eq!(at("nextafter", Dtype::F32, &[0.0, 1.0]), f64::from(1e-45_f32));
}

#[test]
fn halves_go_away_from_zero_or_to_even() {
    for (x, away, even) in [(0.5, 1.0, 0.0), (1.5, 2.0, 2.0), (2.5, 3.0, 2.0), (-2.5, -3.0, -2.0)] {
        assert_eq!(value("round", &[x]), away);
        assert_eq!(value("round_even", &[x]), even);
        assert_eq!(at("round", Dtype::F32, &[x]), away);
    }
}

// -- Derivatives -----------------------------------------------------------------------------------

/// Value and derivatives of order 1 to 4, computed by an independent implementation.
const RECORDED: &[(&str, f64, [f64; 5])] = &[
    (
        "exp2",
        0.1,
        [
            1.0717734625362931,
            0.7428967537560017,
            0.5149367903131086,
            0.35692698437211895,
            0.2474029328832979,
        ],
    ),
    (
        "expm1",
        0.1,
        [
            0.10517091807564763,
            1.1051709180756477,
            1.1051709180756477,
            1.1051709180756477,
            1.1051709180756477,
        ],
    ),
    (
        "log1p",
        2.5,
        [
            1.252762968495368,
            0.2857142857142857,
            -0.08163265306122448,
            0.04664723032069971,
            -0.03998334027488547,
        ],
    ),
    (
        "sqrt",
        0.05,
        [
            0.22360679774997896,
            2.23606797749979,
            -22.360679774997898,
            670.8203932499371,
            -33541.01966249685,
        ],
    ),
    (
        "rsqrt",
        0.9,
        [
            1.0540925533894598,
            -0.5856069741052554,
            0.976011623508759,
            -2.711143398635442,
            10.54333543913783,
        ],
    ),
    (
        "cbrt",
        2.5,
        [
            1.3572088082974532,
            0.18096117443966045,
            -0.04825631318390946,
            0.03217087545593965,
            -0.03431560048633563,
        ],
    ),
    (
        "tan",
        -1.2,
        [
            -2.5721516221263188,
            7.615963967207053,
            -39.17882814461443,
            317.55358702994897,
            -3423.8992085429145,
        ],
    ),
    (
        "asin",
        -0.9,
        [
            -1.1197695149986342,
            2.294157338705618,
            -10.867061078079246,
            166.50116973431366,
            -4172.228990088046,
        ],
    ),
    (
        "acos",
        0.5,
        [
            1.0471975511965976,
            -1.1547005383792515,
            -0.7698003589195009,
            -3.0792014356780038,
            -14.369606699830683,
        ],
    ),
    (
        "atan",
        1.25,
        [
            0.8960553845713439,
            0.3902439024390244,
            -0.380725758477097,
            0.4382989219541214,
            -0.3913706785534945,
        ],
    ),
    (
        "tanh",
        -0.5,
        [
            -0.4621171572600098,
            0.7864477329659274,
            0.7268619813835873,
            -0.5652092882597703,
            -3.9522195637245825,
        ],
    ),
    (
        "asinh",
        -3.0,
        [
            -1.8184464592320668,
            0.31622776601683794,
            0.09486832980505137,
            0.05375872022286245,
            0.04269074841227309,
        ],
    ),
    (
        "acosh",
        1.1,
        [
            0.4435682543851153,
            2.1821789023599227,
            -11.430460917123394,
            169.2302005911774,
            -4214.496474204672,
        ],
    ),
    (
        "atanh",
        0.5,
        [
            0.5493061443340548,
            1.3333333333333333,
            1.7777777777777777,
            8.296296296296298,
            47.407407407407405,
        ],
    ),
    (
        "logistic",
        1.25,
        [
            0.7772998611746911,
            0.17310478699249707,
            -0.09600386680338781,
            -0.0066868166858096234,
            0.1034208801580903,
        ],
    ),
    (
        "erf",
        0.1,
        [
            0.1124629160182849,
            1.1171516067889369,
            -0.2234303213577874,
            -2.1896171493063163,
            1.331644715292413,
        ],
    ),
    (
        "erfc",
        -0.5,
        [
            1.5204998778130465,
            -0.8787825789354448,
            -0.8787825789354448,
            0.8787825789354448,
            4.393912894677224,
        ],
    ),
    (
        "erf_inv",
        -0.9,
        [
            -1.163087153676674,
            3.4280428114518395,
            -27.335985073827004,
            516.535733354819,
            -14926.822361308112,
        ],
    ),
    (
        "lgamma",
        0.9,
        [
            0.06637623973474316,
            -0.7549269499470511,
            1.922539959477204,
            -3.2017970437947163,
            9.739014093776735,
        ],
    ),
    (
        "digamma",
        2.5,
        [
            0.7031566406452437,
            0.4903577561002349,
            -0.2362040516417271,
            0.22390584881725223,
            -0.31375599950673155,
        ],
    ),
];

#[test]
fn derivatives_to_order_four() {
    for (name, x, want) in RECORDED {
        let got = derivatives(name, *x);
        for order in 0..5 {
            let (got, want) = (got[order], want[order]);
            assert!(
                close(got, want, 1e-10),
                "{name} at {x}, order {order}: {got}, expected {want}"
            );
        }
    }
}

#[test]
fn integer_powers_count_down() {
    assert_eq!(derivatives("integer_pow{n=0}", 0.0), [1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(derivatives("integer_pow{n=1}", 0.0), [0.0, 1.0, 0.0, 0.0, 0.0]);
    assert_eq!(derivatives("integer_pow{n=2}", 3.0), [9.0, 6.0, 2.0, 0.0, 0.0]);
    assert_eq!(derivatives("integer_pow{n=3}", 0.0), [0.0, 0.0, 0.0, 6.0, 0.0]);
    assert_eq!(derivatives("integer_pow{n=-1}", 2.0), [0.5, -0.25, 0.25, -0.375, 0.75]);
    let mut module = Module::new();
    // The exponent of the derivative, n - 1, would not be representable in 32 bits; the derivative must not need it.
    let f = function(&mut module, IntegerPow { n: i32::MIN }.into(), &[Dtype::F64]);
    assert!(derivative_in(&mut module, f, 0).is_ok());
}

/// Partial derivatives at ties and edges: function, operand, point, expected.
#[test]
fn ties_and_edges() {
    let table: &[(&str, usize, &[f64], f64)] = &[
        ("abs", 0, &[0.0], 1.0),
        ("abs", 0, &[-0.0], 1.0),
        ("abs", 0, &[-2.0], -1.0),
        ("sign", 0, &[0.0], 0.0),
        ("sqrt", 0, &[0.0], INF),
        ("cbrt", 0, &[0.0], INF),
        ("log", 0, &[0.0], INF),
        ("acosh", 0, &[1.0], INF),
        ("max", 0, &[1.0, 1.0], 0.5),
        ("max", 1, &[1.0, 1.0], 0.5),
        ("max", 0, &[0.0, -0.0], 0.5),
        ("max", 1, &[2.0, 1.0], 0.0),
        ("max", 0, &[NAN, 1.0], 0.0),
        ("max", 1, &[NAN, 1.0], 0.0),
        ("min", 0, &[1.0, 1.0], 0.5),
        ("min", 1, &[1.0, 1.0], 0.5),
        ("min", 1, &[2.0, 1.0], 1.0),
        ("clamp", 1, &[-1.0, -1.0, 1.0], 0.0),
        ("clamp", 1, &[-1.0, 1.0, 1.0], 0.0),
        ("clamp", 1, &[-1.0, 0.5, 1.0], 1.0),
        ("clamp", 0, &[-1.0, -1.5, 1.0], 1.0),
        ("clamp", 0, &[-1.0, -1.0, 1.0], 0.0),
        ("clamp", 2, &[-1.0, 1.5, 1.0], 1.0),
        ("clamp", 2, &[-1.0, 1.0, 1.0], 0.0),
        ("rem", 0, &[7.5, 2.0], 1.0),
        ("rem", 1, &[7.5, 2.0], -3.0),
        ("rem", 1, &[-7.5, 2.0], 3.0),
        ("pow", 0, &[0.0, 0.0], 0.0),
        ("pow", 0, &[0.0, 1.0], 1.0),
        ("pow", 1, &[0.0, 2.0], 0.0),
        ("pow", 1, &[0.0, 0.0], 0.0),
        ("pow", 0, &[-2.0, 3.0], 12.0),
        ("atan2", 0, &[0.0, 2.0], 0.5),
        ("atan2", 1, &[2.0, 0.0], -0.5),
    ];
    for (name, i, x, want) in table {
        let got = partial(name, *i, x);
        assert!(got == *want, "∂{i} of {name} at {x:?}: {got}, expected {want}");
    }
}

/// Powers of zero, for which a naive formula computes 0 · ∞: all derivatives of x² and x³ at 0, and the derivatives of
/// x⁰ in both operands.
#[test]
fn powers_at_zero() {
    let mut module = Module::new();
    for (y, want) in [(2.0, [0.0, 2.0, 0.0]), (3.0, [0.0, 0.0, 6.0]), (0.0, [0.0, 0.0, 0.0])] {
        let mut f = function(&mut module, Scalar::Pow.into(), &[Dtype::F64; 2]);
        for want in want {
            f = derivative_in(&mut module, f, 0).unwrap();
            let got = number(&tapeloom_ir::eval(&module, f, &[0.0.into(), y.into()]).unwrap()[0]);
            assert_eq!(got, want, "0^{y}");
        }
    }
    // ∂²(xʸ)/∂x∂y at y = 0 is 1/x.
    let f = function(&mut module, Scalar::Pow.into(), &[Dtype::F64; 2]);
    for (first, second) in [(0, 1), (1, 0)] {
        let df = derivative_in(&mut module, f, first).unwrap();
        let df = derivative_in(&mut module, df, second).unwrap();
        assert_eq!(
            number(&tapeloom_ir::eval(&module, df, &[4.0.into(), 0.0.into()]).unwrap()[0]),
            0.25
        );
    }
}

#[test]
fn a_missing_derivative_is_an_error() {
    let mut module = Module::new();
    let f = function(&mut module, Scalar::NextAfter.into(), &[Dtype::F64; 2]);
    for i in [0, 1] {
        let problem = derivative_in(&mut module, f, i).unwrap_err();
        assert_eq!(problem.kind, Kind::NotDifferentiable);
        assert!(problem.message.contains("nextafter"), "{problem}");
    }
}
