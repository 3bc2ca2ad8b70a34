//! The reported size in bytes of a recorded tape, compared with allocations.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use tapeloom::prelude::*;
use tapeloom_tests::Counting;

static AT_THE_END: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_recording_allocates_the_bytes_that_it_reports() {
    // The allocated bytes may exceed the reported ones by a twentieth plus 100,000 bytes: memory that all operations of
    // one kind share is not reported.
    let says = |tape: usize, before: usize| {
        let grown = Counting::held() - before;
        assert!((tape..tape + tape / 20 + 100_000).contains(&grown), "says {tape}, is {grown}");
    };
    let before = Counting::held();
    let tape = record(|x: Var| (0..50_000).fold(x, |y, _| y.sin() + x), 0.5).unwrap();
    says(tape.bytes(), before);
    assert!(tape.bytes() < 280 * tape.operations(), "{}", tape.bytes());
    drop(tape);
    assert!(Counting::held() - before < 100_000, "{} bytes stay", Counting::held() - before);

    // A recorded loop saves the residuals of all its iterations. A recorded read of an element stores the whole array.
    let before = Counting::held();
    let x = Tensor::full(&[100], 0.5).unwrap();
    let iterations =
        |x: Var| fori_loop(1000, |(i, y): (Var, Var)| (y + x.index(i.rem(100))).sin(), x);
    let tape =
        record(|x: Var| (0..100).fold(iterations(x).sum(), |y, i| y * x.index(i)), &x).unwrap();
    assert!(tape.bytes() > 1000 * 100 * 8, "{}", tape.bytes());
    says(tape.bytes(), before);
    drop(tape);

    // Loops, branches and calls with different bodies each have their own derivative rules. Bodies and rules count too.
    type Step = fn(Var, u32) -> Var;
    let all: [(&str, Step); 3] = [
        ("loops", |y, i| fori_loop(3, |(_, y): (Var, Var)| y.sin() + f64::from(i), y)),
        ("branches", |y, i| {
            cond(y.gt(0.0), |y: Var| y.sin() + f64::from(i), |y: Var| y * f64::from(i), y)
        }),
        ("calls", |y, i| {
            outline(|y: Var| fori_loop(2, |(_, y): (Var, Var)| y.cos() * f64::from(i), y))(y)
        }),
    ];
    for (name, f) in all {
        let before = Counting::held();
        let tape = record(|x: Var| (0..500).fold(x, f), 0.5).unwrap();
        let (says, grown) = (tape.bytes(), Counting::held() - before);
        assert!((says - says / 10..3 * says).contains(&grown), "{name}: says {says}, is {grown}");
    }

    // A hundred sums, and the sine of each, are recorded. The reverse pass reads only the sums, so the tape must hold a
    // hundred arrays.
    let n = 10_000;
    let x = Tensor::full(&[n], 0.5).unwrap();
    let walk = |x: Var| {
        let x = tap_cotangent(x, |_| AT_THE_END.store(Counting::held(), Ordering::Relaxed));
        (0..100).fold(x, |y, _| (y + x).sin()).sum()
    };
    let before = Counting::held();
    let tape = record(walk, &x).unwrap();
    let array = n * 8;
    assert!((100 * array..101 * array).contains(&tape.bytes()), "{}", tape.bytes());
    says(tape.bytes(), before);

    // A tape that can be pulled back only once frees its residuals during the pullback; a persistent tape does not.
    let full = Counting::held();
    tape.pull(1.0).unwrap();
    assert!(AT_THE_END.load(Ordering::Relaxed) > full, "a persistent tape stays");
    assert!(Counting::held() < full + 1000);
    tape.once().pull(1.0).unwrap();
    let end = AT_THE_END.load(Ordering::Relaxed);
    assert!(end + 90 * array < full, "{full} bytes before, {end} at the end");

    // While the closure runs, handles hold all values, and `recorded_bytes` must count them.
    let before = Counting::held();
    let said = |x: Var| {
        let y = (0..50).fold(x, |y, _| (y + x).sin());
        let (says, grown) = (recorded_bytes().unwrap() as usize, Counting::held() - before);
        assert!((101 * array..103 * array).contains(&says), "{says}");
        assert!((says - array..says + 200_000).contains(&grown), "says {says}, is {grown}");
        y
    };
    record(said, &x).unwrap();
    // For scalars, most of the memory is the list of operations. The capacity of the list grows by doubling.
    let said = |x: Var| {
        let before = Counting::held();
        let y = (0..10_000).fold(x, |y, _| (y + x).sin());
        let (says, grown) = (recorded_bytes().unwrap() as usize, Counting::held() - before);
        assert!(says > 20_000 * 100, "{says}");
        assert!((says - says / 10..2 * says + 200_000).contains(&grown), "says {says}, is {grown}");
        y
    };
    let bytes = record(said, 0.5).unwrap().bytes() as u64;
    assert!(record_within(bytes / 2, said, 0.5).is_err());
    // For loops, the bodies and the functions derived from them are included in the report.
    let said = |x: Var| {
        let before = Counting::held();
        let each = |y: Var, i: u32| fori_loop(3, |(_, y): (Var, Var)| y.sin() + f64::from(i), y);
        let y = (0..500).fold(x, each);
        let (says, grown) = (recorded_bytes().unwrap() as usize, Counting::held() - before);
        assert!((says - says / 10..3 * says).contains(&grown), "says {says}, is {grown}");
        y
    };
    record(said, 0.5).unwrap();
    assert_eq!(recorded_bytes(), None);
    // A byte budget must end a recording that would not end by itself, with an error.
    let before = Counting::held();
    let endless = |x: Var| {
        let mut y = x;
        while y.sum().item::<f64>() < f64::INFINITY {
            y = y.sin();
        }
        y
    };
    let error = record_within(50 * array as u64, endless, &x).unwrap_err();
    assert_eq!(error.kind(), tapeloom::Kind::Budget);
    assert!(error.to_string().contains("and may hold 4000000"), "{error}");
    drop(error);
    assert!(Counting::held() < before + array);

    // An operation that would exceed the budget must not start, and a loop of unknown trip count must end when it
    // exceeds the budget.
    let all: [fn(Var) -> Var; 4] = [
        |x| fori_loop(1_000_000, |(_, y): (Var, Var)| y.sin(), x),
        |x| while_loop(|y: Var| y.sum().gt(-1.0), |y: Var| y.sin(), x),
        |x| x.reshape([x.size(), 1]) * x.reshape([1, x.size()]),
        |x| {
            let iterations = |x: Var| while_loop(|y: Var| y.sum().gt(-1.0), |y: Var| y.sin(), x);
            fori_loop(2, |(_, x): (Var, Var)| iterations(x), x)
        },
    ];
    for f in all {
        let (error, most) = Counting::most(|| record_within(50 * array as u64, f, &x).unwrap_err());
        assert_eq!(error.kind(), tapeloom::Kind::Budget, "{error}");
        assert!(error.to_string().contains(file!()), "{error}");
        assert!(most < 60 * array, "{most} bytes: {error}");
    }
    // Results that share memory with existing values, such as reshaped arrays, must not count again.
    let share =
        |x: Var| (0..20).fold(x.sin(), |y, _| y.reshape([100, 100]).reshape([10_000])).sin();
    assert!(record_within(4 * array as u64, share, &x).is_ok());
}
