//! Tests of `interval`.

use tapeloom_ir::analysis::interval::Interval;
use tapeloom_ir::{Code, Dtype, Literal};

/// For all operands within their intervals, the code's result must lie in the interval from `Interval::computed`.
#[test]
fn results_lie_in_their_interval() {
    let ends = [-9, -4, -1, 0, 1, 3, 7].map(i128::from);
    let intervals = |least: i128| {
        let pairs = ends.into_iter().flat_map(move |a| ends.map(|b| (a, b)));
        let pairs = pairs.filter(move |(a, b)| least <= *a && a <= b);
        pairs.map(|(a, b)| Interval::new(a, b))
    };
    let numbers = |r: Interval| r.least..=r.most;
    let literal = |dtype: Dtype, x: i128| Literal::exact_integer(dtype, x).unwrap();
    let has = |r: Interval, x: Literal, what: Code| {
        assert!(Interval::literal(x).within(r), "{what:?}: {x:?} is not in {r:?}");
    };
    let both = [
        Code::Add,
        Code::Sub,
        Code::Mul,
        Code::Min,
        Code::Max,
        Code::Div,
        Code::Rem,
        Code::And,
        Code::Or,
    ];
    let truths = [Code::Lt, Code::Le, Code::Gt, Code::Ge, Code::Eq, Code::Ne];
    for (dtype, least) in [(Dtype::I64, -9), (Dtype::I32, -9), (Dtype::U32, 0)] {
        let pairs = intervals(least).flat_map(|r| intervals(least).map(move |s| (r, s)));
        for (r, s) in pairs {
            for (x, y) in numbers(r).flat_map(|x| numbers(s).map(move |y| (x, y))) {
                let given = [literal(dtype, x), literal(dtype, y)];
                for code in both {
                    has(Interval::computed(code, &[r, s], dtype), code.eval(&given), code);
                }
                for code in truths {
                    let found = code.eval(&given);
                    has(Interval::computed(code, &[r, s], Dtype::Bool), found, code);
                    let holds = !found.is_zero();
                    has(r.where_holds(code, s, holds), given[0], code);
                }
            }
        }
        for (r, x) in intervals(least).flat_map(|r| numbers(r).map(move |x| (r, x))) {
            let to = [Dtype::I32, Dtype::U64, Dtype::Bool].map(Code::Convert);
            for code in [Code::Neg, Code::Abs].into_iter().chain(to) {
                let to = if let Code::Convert(to) = code { to } else { dtype };
                let given = [literal(dtype, x)];
                has(Interval::computed(code, &[r], to), code.eval(&given), code);
            }
            for (low, high) in ends.into_iter().flat_map(|a| ends.map(|b| (a, b))) {
                if low < least || high < least {
                    continue;
                }
                let three = [low, x, high].map(|x| literal(dtype, x));
                let known = [Interval::number(low), r, Interval::number(high)];
                let found = Interval::computed(Code::Clamp, &known, dtype);
                has(found, Code::Clamp.eval(&three), Code::Clamp);
            }
        }
    }
    // For bool operands, whose intervals lie in 0..=1, the result must lie in the computed interval, too.
    let bools = [(0, 0), (0, 1), (1, 1)].map(|(a, b)| Interval::new(a, b));
    for (r, s) in bools.into_iter().flat_map(|r| bools.map(|s| (r, s))) {
        for (x, y) in numbers(r).flat_map(|x| numbers(s).map(move |y| (x, y))) {
            let given = [x, y].map(|x| Literal::bool(x != 0));
            for code in [Code::And, Code::Or, Code::Add, Code::Mul, Code::Min, Code::Max] {
                has(Interval::computed(code, &[r, s], Dtype::Bool), code.eval(&given), code);
            }
            let not = Interval::computed(Code::Not, &[r], Dtype::Bool);
            has(not, Code::Not.eval(&given[..1]), Code::Not);
        }
    }
}

#[test]
fn wrapping_gives_the_whole_range() {
    let most = Interval::new(0, i32::MAX);
    let one = Interval::number(1);
    let sum = |dtype| Interval::computed(Code::Add, &[most, one], dtype);
    assert_eq!(sum(Dtype::I32), Interval::of(Dtype::I32));
    assert_eq!(sum(Dtype::I64), most.plus(one));
    let least = [Interval::of(Dtype::I64)];
    let abs = Interval::computed(Code::Abs, &least, Dtype::I64);
    assert_eq!(abs, Interval::of(Dtype::I64), "the least integer has no negative");
}

/// Arithmetic on unbounded intervals must yield unbounded intervals; a code's result has its dtype's whole range.
#[test]
fn unbounded_intervals_stay_unbounded() {
    let all = Interval::ALL;
    assert_eq!(all.times(-1).plus(all).times(3).join(Interval::number(7)), all);
    assert_eq!(all.product(all), all);
    assert_eq!(Interval::of(Dtype::F64), all);
    for code in [Code::Add, Code::Sub, Code::Mul, Code::Neg, Code::Abs, Code::Div, Code::Rem] {
        for dtype in [Dtype::I32, Dtype::U64] {
            let found = Interval::computed(code, &[all, all], dtype);
            assert_eq!(found, Interval::of(dtype), "{code:?}");
        }
    }
}
