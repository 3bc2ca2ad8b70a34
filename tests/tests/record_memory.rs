//! What a tape says of its size, against what is allocated. Alone in its process, whose allocations are
//! counted.

#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(
    unsafe_code,
    reason = "an allocator that counts hands everything on to that of the system"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use tapeloom::prelude::*;

/// The system's allocator, with a count of bytes.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are those of this call.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

static AT_THE_END: AtomicUsize = AtomicUsize::new(0);

#[test]
fn a_tape_holds_what_it_says() {
    // What all operations of a kind share is not counted.
    let says = |tape: usize, before: usize| {
        let grown = held() - before;
        assert!((tape..tape + tape / 20 + 100_000).contains(&grown), "says {tape}, is {grown}");
    };
    let before = held();
    let tape = record(|x: Var| (0..50_000).fold(x, |y, _| y.sin() + x), 0.5).unwrap();
    says(tape.bytes(), before);
    assert!(tape.bytes() < 280 * tape.operations(), "{}", tape.bytes());
    drop(tape);
    assert!(held() - before < 100_000, "{} bytes stay", held() - before);

    // Loops keep what they keep, and reads of places name their operands themselves.
    let before = held();
    let x = Tensor::full(&[100], 0.5).unwrap();
    let rounds = |x: Var| fori_loop(1000, |(i, y): (Var, Var)| (y + x.index(i.rem(100))).sin(), x);
    let tape = record(|x: Var| (0..100).fold(rounds(x).sum(), |y, i| y * x.index(i)), &x).unwrap();
    assert!(tape.bytes() > 1000 * 100 * 8, "{}", tape.bytes());
    says(tape.bytes(), before);
    drop(tape);

    // Of a hundred sums and a hundred sines, the sums are read on the way back.
    let n = 10_000;
    let x = Tensor::full(&[n], 0.5).unwrap();
    let walk = |x: Var| {
        let x = tap_cotangent(x, |_| AT_THE_END.store(held(), Ordering::Relaxed));
        (0..100).fold(x, |y, _| (y + x).sin()).sum()
    };
    let before = held();
    let tape = record(walk, &x).unwrap();
    let array = n * 8;
    assert!((100 * array..101 * array).contains(&tape.bytes()), "{}", tape.bytes());
    says(tape.bytes(), before);

    // A tape that is pulled back once gives back on the way what it keeps; one that stays does not.
    let full = held();
    tape.pull(1.0).unwrap();
    assert!(AT_THE_END.load(Ordering::Relaxed) > full, "a persistent tape stays");
    assert!(held() < full + 1000);
    tape.once().pull(1.0).unwrap();
    let end = AT_THE_END.load(Ordering::Relaxed);
    assert!(end + 90 * array < full, "{full} bytes before, {end} at the end");

    // While the closure runs, everything is held, and that is what is said.
    let before = held();
    let said = |x: Var| {
        let y = (0..50).fold(x, |y, _| (y + x).sin());
        let (says, grown) = (recorded_bytes().unwrap() as usize, held() - before);
        assert!((101 * array..103 * array).contains(&says), "{says}");
        assert!((says - array..says + 200_000).contains(&grown), "says {says}, is {grown}");
        y
    };
    record(said, &x).unwrap();
    assert_eq!(recorded_bytes(), None);
    // A budget ends a recording that would not end by itself.
    let before = held();
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
    assert!(held() < before + array);
}
