//! Tests of the text form, the verifier, and the checks of `shadow` on loop programs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use super::interp::test_hosts::{bind_recorders, take_recorded_calls};
use super::{BufferId, BufferVersion, eval, parse, shadow, verify};
use crate::Executable;
use crate::passes::{self, Context, by_name};
use crate::sweeps::Sweep;
use tapeloom_ir::prim::{Continuity, KeyUse, Library, LibraryFn, Mark, SignOf};
use tapeloom_ir::{Literal, Tensor};

extern "C" fn exp(x: f64) -> f64 {
    x.exp()
}
extern "C" fn exp_f32(x: f32) -> f32 {
    x.exp()
}
extern "C" fn times(n: i64, x: f64) -> f64 {
    n as f64 * x
}
extern "C" fn times_f32(n: i64, x: f32) -> f32 {
    n as f32 * x
}

pub(super) fn library(name: &str) -> Option<Library> {
    match name {
        "exp" => Some(Library {
            name: "exp",
            continuity: Continuity::Continuous,
            sign: SignOf::Unknown,
            flops: 16,
            stablehlo: tapeloom_ir::prim::StableHlo::CustomCall,
            function: LibraryFn::Unary { f64: exp, f32: exp_f32, eight: None, recording: |_| None },
        }),
        "times" => Some(Library {
            flops: 1,
            name: "times",
            continuity: Continuity::Continuous,
            sign: SignOf::Unknown,
            stablehlo: tapeloom_ir::prim::StableHlo::CustomCall,
            function: LibraryFn::Indexed {
                n: 0,
                f64: times,
                f32: times_f32,
                recording: |_, _| None,
            },
        }),
        _ => None,
    }
}

pub(super) const SOFTMAX_SUM: &str = "\
program @softmax_sum {
  buffer b0: f64[2,3] input 0
  buffer b1: f64[2] output 0
  for i0 in 2 {
    var v0: f64 = 0.0
    fold i1 in 3 {
      %0: f64 = load b0[i0*3 + i1]
      %1: f64 = exp %0
      v0 = add v0, %1
    }
    store b1[i0], v0
  }
}
";

/// A program with every kind of statement that has no inner block, in every form that the text allows. One line does
/// not parse (`i64_of_no_such_thing`); tests replace that line.
pub(super) const EVERYTHING: &str = "\
program @everything {
  workspace 192
  buffer b0: f64[4,4] input 0
  buffer b1: i64[4] input 1
  buffer b2: f64[4,4] output 0
  buffer b3: bool[] workspace 0
  buffer b4: f64[4,4] workspace 64
  version b4.1
  version b4.2 continues b4.1
  buffer b5: f32[] output 1
  nest {
    %0: f64 = load b0[5]
    %1: bool = lt %0, -1.5
    store b3[0], %1
    %9: f32 = convert{to=f32} %0
    store b5[0], %9
  }
  for i0 in 4 {
    %2: i64 = load b1[i0*-1 + 3]
    %3: bool = eq i0, 2
    %4: f64 = load b0[i0*4 + (%2)] if %3
    %5: f64 = integer_pow{n=-3} %4
    %6: f64 = times{n=4} %5
    var v0: f64 = %6
    v0 = 0x7ff8000000000000f64
    v0 = max v0, 2.5
    v0 = i64_of_no_such_thing
    store b4[(i0)], v0 if true
    store b4.1[i0], v0
    %10: f64 = load b4.2[i0]
    for i1 in 0 {
      %7: bool = load b3[0]
      %8: f64 = select %7, v0, 1e-300
    }
  }
  contract f64 2 x 2 x 4: b2[0; 4, 1] = b0[0; 4, 1] * b4.2[0; 4, 1] for 2 steps 8 = 8 * 2
  contract f64 1 x 1 x 1: b2[2; 0, 0] += b0[0; 0, 0] * b4[0; 0, 0]
  for i2 in 3 {
    contract f64 1 x 1 x 1: b2[i2*2 + 2; 0, 0] = b0[i2; 0, 0] * b4[0; 0, 0]
  }
}
";

/// A program with every kind of control flow: loops, `while`, branches and calls. Tests print, parse and run it.
pub(super) const CONTROL: &str = "\
kernel k0 @double {
  workspace 64
  buffer b0: f64[2] input 0
  buffer b1: f64[2] output 0
  buffer b2: f64[2] workspace 0
  for i0 in 2 {
    %0: f64 = load b0[i0]
    %1: f64 = add %0, %0
    store b2[i0], %1
  }
  for i1 in 2 {
    %2: f64 = load b2[i1]
    store b1[i1], %2
  }
}
kernel k1 @twice {
  workspace 192
  buffer b0: f64[2] input 0
  buffer b1: f64[2] output 0
  buffer b2: f64[2] workspace 0
  call k0(b0[0; 2]) to (b2[0; 2]) frame 64
  call k0(b2[0; 2]) to (b1[0; 2]) frame 128
}
program @control {
  workspace 448
  buffer b0: f64[4] input 0
  buffer b1: i64[] input 1
  buffer b2: f64[2] output 0
  buffer b3: f64[2] workspace 0
  buffer b4: f64[2] workspace 64
  buffer b5: f64[] output 1
  buffer b6: f64[2] output 2
  version b6.1 continues b6
  nest {
    %0: i64 = load b1[0]
    for i0 in 2 {
      store b3[i0], 1.0
      store b6[i0], 0.0
    }
    serial i1 in (%0) carry b3 = b4, b6 = b6.1 {
      call k1(b3[0; 2]) to (b4[0; 2]) frame 256
      %1: bool = eq i1, 1
      if %1 {
        store b6.1[1], 7.0 if %1
        if %1 {
          nest {
            store b6.1[1], 7.0
          }
        }
      } else {
        store b6.1[0], 5.0
      }
    }
    var v0: f64 = 0.0
    fold i2 in (%0) {
      %2: f64 = convert{to=f64} i2
      v0 = add v0, %2
    }
    var v1: i64 = 0
    while {
      %3: bool = lt v1, 3
    } %3 carry b3 = b4 {
      %4: i64 = add v1, 1
      v1 = %4
      for i3 in 2 {
        %5: f64 = load b3[i3]
        %6: f64 = neg %5
        store b4[i3], %6
      }
    }
    if %3 {
      v0 = add v0, 1.0
    }
    store b5[0], v0
    for i4 in 2 {
      %7: f64 = load b3[i4]
      store b2[i4], %7
    }
  }
}
";

#[test]
fn text_round_trips() {
    let everything = EVERYTHING.replace("    v0 = i64_of_no_such_thing\n", "    v0 = %6\n");
    for text in [SOFTMAX_SUM, &everything, CONTROL] {
        let program = parse(text, &library).unwrap();
        assert_eq!(program.to_string(), text);
    }
}

#[test]
fn control_runs() {
    let program = parse(&CONTROL.replace("if %3 {", "if true {"), &library).unwrap();
    assert_eq!(verify(&program), []);
    let code = Executable::new(&program).unwrap();
    for n in -1..4i64 {
        let args = [Tensor::vector(&[0.0; 4]), Tensor::scalar(n)];
        // The expected result: each of the `n` iterations multiplies by four; then the sign is changed three times.
        let x = -4f64.powi(n.max(0) as i32);
        let updated = [if n > 0 { 5.0 } else { 0.0 }, if n > 1 { 7.0 } else { 0.0 }];
        let sum = 1.0 + (0..n).map(|i| i as f64).sum::<f64>();
        let want = [Tensor::vector(&[x, x]), Tensor::scalar(sum), Tensor::vector(&updated)];
        assert_eq!(shadow(&program, &args).unwrap(), want, "{n}");
        assert_eq!(code.call(&[&args[0], &args[1]]).unwrap(), want, "{n}");
    }
}

#[test]
fn a_parsed_program_runs() {
    let program = parse(SOFTMAX_SUM, &library).unwrap();
    assert_eq!(verify(&program), []);
    let x = Tensor::new(&[2, 3], vec![0.0, 0.0, 0.0, 1.0, 1.0, 1.0]).unwrap();
    let e = 1f64.exp();
    assert_eq!(eval(&program, &[x]).unwrap(), [Tensor::vector(&[3.0, e + e + e])]);
}

#[test]
fn text_errors_name_the_line() {
    for (text, want) in [
        ("program x", "line 1: expected a name, found `x`"),
        ("program @x {", "line 1: expected an id like v0, found `the end`"),
        (EVERYTHING, "line 27: expected the name of a code, found `i64_of_no_such_thing`"),
        ("program @x {\n buffer b1: f64[] input 0 }", "numbered in order"),
        ("program @x {\n for i99999999999 in 2 {} }", "too large"),
        ("program @x {\n nest {\n %0: f64 = sing 1.0 } }", "line 3: expected the name of a code"),
        ("program @x {} }", "expected the end"),
        ("program @x { buffer b0: f64[] input 0 version b0.2 }", "versions of b0 follow it"),
        ("program @x { nest { store b0.x[0], 1.0 } }", "expected an id like b0 or b0.1"),
    ] {
        let message = parse(text, &library).unwrap_err().message;
        assert!(message.contains(want), "{message}");
    }
}

#[test]
fn deep_text_is_an_error() {
    let nested = |n: usize| {
        let open: String = (0..n).map(|i| format!("for i{i} in 1 {{ ")).collect();
        format!("program @x {{ {open} {} }}", "}".repeat(n))
    };
    let program = parse(&nested(64), &library).unwrap();
    assert_eq!((verify(&program), eval(&program, &[])), (vec![], Ok(vec![])));
    let message = parse(&nested(200_000), &library).unwrap_err().message;
    assert!(message.contains("blocks nest more than 64 deep"), "{message}");
}

/// Each of these programs breaks one invariant; the verifier must report it. A case has the statements of a nest, and
/// a part of the expected message.
#[test]
fn the_verifier_finds_faults() {
    for (body, want) in [
        ("%0: f64 = load b0[3]", "reaches elements 3..=3 of a buffer of 3"),
        ("for i0 in 4 { %0: f64 = load b0[i0] }", "reaches elements 0..=3 of a buffer of 3"),
        ("for i0 in 3 { %0: f64 = load b0[i0*-1] }", "reaches elements -2..=0"),
        // The largest index of this load, 2^128 - 4, is not representable in i128. The range of the index must
        // saturate, and must not wrap around.
        (
            "for i0 in 18446744073709551615 { %0: f64 = \
             load b0[i0*9223372036854775807 + i0*9223372036854775807 + i0*4] }",
            "reaches elements 0..=170141183460469231731687303715884105727",
        ),
        ("%0: f64 = neg %1", "%1 is used before it is defined"),
        ("for i0 in 2 { %0: f64 = neg 1.0 } %1: f64 = neg %0", "%0 is used outside its block"),
        ("for i0 in 2 { var v0: f64 = 1.0 } v0 = 2.0", "v0 is used outside its block"),
        ("for i0 in 2 {} %0: i64 = neg i0", "i0 is used outside its block"),
        ("%0: f64 = neg 1.0 %0: f64 = neg 2.0", "%0 is defined twice"),
        ("for i0 in 2 {} for i0 in 2 {}", "i0 is used by two loops"),
        ("%0: f64 = add 1.0, 2", "add is not defined on [F64, I64]"),
        ("%0: f64 = lt 1.0, 2.0", "%0 must be f64, got bool"),
        ("%0: i64 = floor 1", "floor is not defined on [I64]"),
        ("var v0: f64 = 1", "the first value of v0 must be f64, got i64"),
        ("var v0: f64 = 1.0 v0 = lt v0, 2.0", "fold of f64 into v0 of f64 by lt"),
        ("store b0[0], 1.0", "input b0 is written"),
        ("store b1[0], 1", "the element stored to b1 must be f64, got i64"),
        ("store b1[0], 1.0 if 1", "a guard must be bool, got i64"),
        ("%0: f64 = load b0[(1.0)]", "an address must be i64, got f64"),
        ("%0: f64 = load b0.1[0]", "b0.1 is not declared"),
        ("store b1.2[0], 1.0", "b1.2 is not declared"),
        ("if 1 {}", "a condition must be bool, got i64"),
        ("while { %0: bool = lt 1, 2 } %0 {} %1: bool = not %0", "%0 is used outside its block"),
        ("for i0 in (1.0) {}", "an extent must be i64, got f64"),
        ("if true { var v0: f64 = 1.0 } v0 = 2.0", "v0 is used outside its block"),
        // Claims of parallelism that the verifier must refute.
        (
            "var v0: f64 = 0.0 for i0 in 2 { v0 = add v0, 1.0 }",
            "the iterations of i0 are no `for`: all iterations fold into v0; say `fold`",
        ),
        (
            "var v0: f64 = 0.0 fold i0 in 2 { v0 = 1.0 }",
            "no `fold`: v0 is set in one iteration for the next; say `serial`",
        ),
        (
            "var v0: f64 = 0.0 fold i0 in 2 { v0 = add v0, 1.0 %0: f64 = neg v0 }",
            "v0 is read while it is folded into",
        ),
        (
            "var v0: f64 = 0.0 fold i0 in 2 { v0 = add v0, 1.0 v0 = mul v0, 1.0 }",
            "v0 is folded into by two codes",
        ),
        ("for i0 in 2 { store b1[0], 1.0 }", "no `for`: each writes b1[0]"),
        (
            "for i0 in 2 { store b2[i0], 1.0 store b2[i0 + 1], 1.0 }",
            "one writes b2[i0], another b2[i0 + 1]",
        ),
        (
            "for i0 in 2 { %0: f64 = load b2[i0] store b2[i0 + 1], 1.0 }",
            "one writes b2[i0 + 1], another reads b2[i0]",
        ),
        // Numbers of vector lanes that the verifier must refuse.
        ("for i0 in 9 lanes 3 {}", "i0 cannot run in 3 lanes: 3 is no power of two up to 9"),
        ("for i0 in 2 lanes 0 {}", "0 is no power of two up to 2"),
        ("for i0 in 2 lanes 4 {}", "4 is no power of two up to 2"),
        ("for i0 in 1000 lanes 128 {}", "128 is no power of two up to 64"),
        ("for i0 in (2) lanes 2 {}", "its trip count is known at run time only"),
        ("serial i0 in 2 lanes 2 carry b2 = b2.1 { store b2.1[i0], 1.0 }", "is carried"),
        ("for i0 in 2 lanes 2 { for i1 in 2 lanes 2 {} }", "a loop inside has lanes"),
        (
            "for i0 in 2 lanes 2 { for i1 in (2) {} }",
            "the trip count of a loop inside is known at run time only",
        ),
        ("for i0 in 2 lanes 2 { if true {} }", "there is a branch inside"),
        (
            "var v0: f64 = 0.0 serial i0 in 2 lanes 2 { v0 = 1.0 }",
            "v0 is set in one iteration for the next",
        ),
        (
            "var v0: f64 = 0.0 fold i0 in 2 lanes 2 { v0 = sub v0, 1.0 }",
            "v0 is folded into by sub, which has no neutral element",
        ),
        (
            "serial i0 in 2 lanes 2 { %0: f64 = load b2[i0] store b2[i0 + 1], 1.0 }",
            "iterations may access memory that other iterations write",
        ),
        // Loop carries that the verifier must refuse.
        ("serial i0 in 2 carry b2 = b3 {}", "b3 is carried, but no iteration writes it"),
        ("serial i0 in 2 carry b2 = b1 { store b1[0], 1.0 }", "b2 = b1 carries f64[3] and f64[]"),
        ("serial i0 in 2 carry b1 = b0 { store b0[0], 1.0 }", "b1 = b0 carries an input"),
        ("serial i0 in 2 carry b2 = b2 { store b2[0], 1.0 }", "b2 is carried to itself"),
        (
            "for i0 in 2 carry b2 = b2.1 { store b2.1[i0], 1.0 }",
            "b2 = b2.1 is carried; say `serial`",
        ),
        (
            "serial i0 in 2 carry b2 = b3, b2 = b4 { store b3[0], 1.0 store b4[0], 1.0 }",
            "b2 is exchanged twice",
        ),
        (
            "serial i0 in 2 carry b2 = b4 { store b4[0], 1.0 store b3[0], 1.0 }",
            "b4 is exchanged, but shares bytes with b3",
        ),
        // Calls of kernels that the verifier must refuse.
        ("call k0(b0[0; 3]) to (b2[0; 3]) frame 0", "k0 does not exist"),
    ] {
        let text = format!(
            "program @x {{ workspace 256 buffer b0: f64[3] input 0 buffer b1: f64[] output 0 \
             buffer b2: f64[3] workspace 0 version b2.1 continues b2 buffer b3: f64[3] workspace 64 \
             buffer b4: f64[3] workspace 64 nest {{ store b1[0], 0.0 {body} }} }}"
        );
        let errors = verify(&parse(&text, &library).unwrap());
        assert!(errors.iter().any(|e| e.message.contains(want)), "{body}: {errors:?}");
    }
}

/// The verifier must accept programs whose run-time indices provably stay in bounds (`None`). If one condition is
/// missing, the verifier must refuse the program, with a message that contains the given text. `b0` has 4 x 5 elements,
/// `b1` arbitrary numbers.
#[test]
fn run_time_indices_want_a_proof() {
    for (body, want) in [
        (
            "%0: i64 = load b1[0] %1: f64 = load b0[(%0)]",
            Some("-9223372036854775808..=92233720368"),
        ),
        ("%0: i64 = load b1[0] %1: i64 = clamp 0, %0, 19 %2: f64 = load b0[(%1)]", None),
        ("%0: i64 = load b1[0] %1: i64 = clamp 0, %0, 20 %2: f64 = load b0[(%1)]", Some("0..=20")),
        ("%0: i64 = load b1[0] %1: i64 = clamp -1, %0, 9 %2: f64 = load b0[(%1)]", Some("-1..=9")),
        (
            "%0: i64 = load b1[0] %1: i64 = max %0, 0 %2: i64 = min %1, 3 %3: i64 = mul %2, 5 \
             for i0 in 5 { %4: f64 = load b0[i0 + (%3)] }",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: i64 = max %0, 0 %2: i64 = min %1, 4 %3: i64 = mul %2, 5 \
             for i0 in 5 { %4: f64 = load b0[i0 + (%3)] }",
            Some("0..=24"),
        ),
        // A guard that checks the lower and the upper bound must prove an index; a guard that checks only one bound
        // must not.
        (
            "%0: i64 = load b1[0] %1: bool = ge %0, 0 %2: bool = lt %0, 20 %3: bool = and %1, %2 \
             %4: f64 = load b0[(%0)] if %3",
            None,
        ),
        ("%0: i64 = load b1[0] %1: bool = lt %0, 20 %4: f64 = load b0[(%0)] if %1", Some("..=19")),
        (
            "%0: i64 = load b1[0] %1: bool = ge %0, 0 %2: bool = lt %0, 20 %3: bool = or %1, %2 \
             %4: f64 = load b0[(%0)] if %3",
            Some("..=92233720368"),
        ),
        (
            "%0: i64 = load b1[0] %1: bool = lt %0, 0 %2: bool = gt %0, 19 %3: bool = or %1, %2 \
             %5: bool = not %3 %4: f64 = load b0[(%0)] if %5",
            None,
        ),
        // Must be accepted: separate conditions for the row and the column index prove an access that combines both
        // indices.
        (
            "%0: i64 = load b1[0] %1: i64 = load b1[1] %2: bool = ge %0, 0 %3: bool = le %0, 3 \
             %4: bool = and %2, %3 %5: bool = le 0, %1 %6: bool = gt 5, %1 %7: bool = and %5, %6 \
             %8: bool = and %4, %7 %9: i64 = mul %0, 5 %10: i64 = add %9, %1 \
             %11: f64 = load b0[(%10)] if %8",
            None,
        ),
        // A guard on a sum of loop indices must prove an access at that sum. The second guard allows one element too
        // many.
        (
            "for i0 in 30 { for i1 in 30 { %0: i64 = add i0, i1 %1: bool = ge %0, 7 \
             %2: bool = lt %0, 27 %3: bool = and %1, %2 %4: f64 = load b0[i0 + i1 + -7] if %3 } }",
            None,
        ),
        (
            "for i0 in 30 { for i1 in 30 { %0: i64 = add i0, i1 %1: bool = ge %0, 7 \
             %2: bool = lt %0, 28 %3: bool = and %1, %2 %4: f64 = load b0[i0 + i1 + -7] if %3 } }",
            Some("0..=20"),
        ),
        // A guard on a sum that may wrap must prove an access at the sum itself, and nothing about the terms of the
        // sum.
        (
            "%0: i64 = load b1[0] %1: i64 = add %0, 1 %2: bool = ge %1, 1 %3: bool = le %1, 20 \
             %4: bool = and %2, %3 %5: f64 = load b0[-1 + (%1)] if %4",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: i64 = mul %0, 4 %2: bool = ge %1, 0 %3: bool = le %1, 16 \
             %4: bool = and %2, %3 %5: f64 = load b0[(%0)] if %4",
            Some("-9223372036854775808"),
        ),
        // Must be accepted: the sum is proved not to wrap only by later conditions on its terms.
        (
            "%0: i64 = load b1[0] %1: i64 = load b1[1] %2: i64 = add %0, %1 \
             %3: bool = ge %2, 0 %4: bool = le %2, 3 %5: bool = ge %0, 0 %6: bool = le %0, 4 \
             %7: bool = ge %1, 0 %8: bool = le %1, 4 %9: bool = and %3, %4 %10: bool = and %9, %5 \
             %11: bool = and %10, %6 %12: bool = and %11, %7 %13: bool = and %12, %8 \
             %14: i64 = mul %2, 5 %15: i64 = add %14, %0 %16: f64 = load b0[(%15)] if %13",
            None,
        ),
        // Quotients and remainders as indices: the verifier must know their ranges. A remainder has the sign of the
        // dividend.
        ("for i0 in 100 { %0: i64 = rem i0, 20 %1: f64 = load b0[(%0)] }", None),
        ("for i0 in 100 { %0: i64 = div i0, 5 %1: f64 = load b0[(%0)] }", None),
        ("for i0 in 101 { %0: i64 = div i0, 5 %1: f64 = load b0[(%0)] }", Some("0..=20")),
        ("%0: i64 = load b1[0] %1: i64 = rem %0, 20 %2: f64 = load b0[(%1)]", Some("-19..=19")),
        // Must be accepted: division rounded down, as a truncated quotient minus a correction. Since the dividend is at
        // least zero, the correction is always 0.
        (
            "%0: i64 = load b1[0] %1: i64 = clamp 0, %0, 19 %2: i64 = div %1, 5 %3: i64 = rem %1, 5 \
             %4: bool = lt %3, 0 %5: i64 = convert{to=i64} %4 %6: i64 = sub %2, %5 \
             %7: i64 = mul %6, 5 %8: f64 = load b0[(%7)]",
            None,
        ),
        // `b0` has 20 elements. The verifier must accept an index that the program first increases by 20 if it is
        // negative. If the program also increases the index 0, the verifier must reject the load.
        (
            "%0: i64 = load b1[0] %1: i64 = clamp -20, %0, 19 %2: bool = lt %1, 0 \
             %3: i64 = add %1, 20 %4: i64 = select %2, %3, %1 %5: f64 = load b0[(%4)]",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: i64 = clamp -20, %0, 19 %2: bool = le %1, 0 \
             %3: i64 = add %1, 20 %4: i64 = select %2, %3, %1 %5: f64 = load b0[(%4)]",
            Some("0..=20"),
        ),
        // Must be accepted: an index that is converted from a small dtype has the range of that dtype. A u64 may not be
        // representable in i64, so its conversion has any value.
        (
            "%0: i64 = load b1[0] %1: bool = lt %0, 4 %2: i64 = convert{to=i64} %1 \
          %3: f64 = load b0[(%2)]",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: u64 = convert{to=u64} %0 %2: u64 = min %1, 19u64 \
             %3: i64 = convert{to=i64} %2 %4: f64 = load b0[(%3)]",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: u64 = convert{to=u64} %0 %2: i64 = convert{to=i64} %1 \
             %3: i64 = min %2, 19 %4: f64 = load b0[(%3)]",
            Some("..=19"),
        ),
        // The conditions of branches, and the extents of loops, around an access must bound its index.
        (
            "%0: i64 = load b1[0] %1: bool = ge %0, 0 %2: bool = lt %0, 20 if %1 { if %2 { \
             %3: f64 = load b0[(%0)] } }",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: bool = lt %0, 0 %2: bool = lt %0, 20 if %1 { } else { if %2 { \
             %3: f64 = load b0[(%0)] } }",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: bool = lt %0, 0 %2: bool = lt %0, 20 if %1 { if %2 { \
             %3: f64 = load b0[(%0)] } }",
            Some("..=-1"),
        ),
        (
            "%0: i64 = load b1[0] %1: i64 = min %0, 20 for i0 in (%1) { %2: f64 = load b0[i0] }",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: i64 = min %0, 21 for i0 in (%1) { %2: f64 = load b0[i0] }",
            Some("0..=20"),
        ),
        (
            "%0: i64 = load b1[0] for i0 in (%0) { %1: bool = lt i0, 20 %2: f64 = load b0[i0] if %1 }",
            None,
        ),
        ("for i0 in 30 { %1: bool = lt i0, 20 if %1 { %2: f64 = load b0[i0] } }", None),
        // Must be refused: a variable that a guard bounds is assigned another value before it is used as an index.
        (
            "var v0: i64 = 0 %0: bool = ge v0, 0 %1: bool = lt v0, 20 %2: bool = and %0, %1 \
             v0 = 30 %3: f64 = load b0[(v0)] if %2",
            Some("-9223372036854775808"),
        ),
        // Must be accepted: the guard proves the bounds of a variable, here the sum of a loop, and the variable keeps
        // its value until it is assigned.
        (
            "var v0: i64 = 0 fold i0 in 4 { %9: i64 = load b1[i0] v0 = add v0, %9 } \
             %0: bool = ge v0, 0 %1: bool = lt v0, 4 %2: bool = and %0, %1 %4: i64 = mul v0, 5 \
             for i1 in 5 { %3: f64 = load b0[i1 + (%4)] if %2 }",
            None,
        ),
        // Must be refused: a previous iteration, or a branch, may have assigned another value to the variable.
        (
            "var v0: i64 = 0 %0: bool = ge v0, 0 %1: bool = lt v0, 20 %2: bool = and %0, %1 \
             serial i0 in 4 { %3: f64 = load b0[(v0)] if %2 v0 = 30 }",
            Some("-9223372036854775808"),
        ),
        (
            "var v0: i64 = 0 %0: bool = ge v0, 0 %1: bool = lt v0, 20 %2: bool = and %0, %1 \
             if %0 { v0 = 30 } %3: f64 = load b0[(v0)] if %2",
            Some("-9223372036854775808"),
        ),
        // Must be accepted: a value that was computed from the variable before the assignment does not change.
        (
            "var v0: i64 = 0 %4: i64 = clamp 0, v0, 19 v0 = 30 %5: i64 = sub v0, v0 \
             %6: i64 = add %4, %5 %3: f64 = load b0[(%6)]",
            None,
        ),
        // The verifier must accept an access that never runs without a proof of its bounds.
        ("%0: f64 = load b0[99] if false", None),
        ("%0: bool = lt 1, 0 if %0 { %1: f64 = load b0[99] }", None),
        // Indices of contractions and stores must be proved to stay in bounds, like indices of loads.
        (
            "%0: i64 = load b1[0] %1: i64 = clamp 0, %0, 2 %2: i64 = mul %1, 5 \
             contract f64 2 x 2 x 2: b2[0; 2, 1] = b0[(%2); 5, 1] * b0[(%2); 5, 1]",
            None,
        ),
        (
            "%0: i64 = load b1[0] %1: i64 = clamp 0, %0, 3 %2: i64 = mul %1, 5 \
             contract f64 2 x 2 x 2: b2[0; 2, 1] = b0[(%2); 5, 1] * b0[(%2); 5, 1]",
            Some("0..=21"),
        ),
        ("%0: i64 = load b1[0] store b2[(%0)], 1.0", Some("b2[(%0)] may reach")),
    ] {
        let text = format!(
            "program @x {{ buffer b0: f64[4,5] input 0 buffer b1: i64[4] input 1 \
             buffer b2: f64[4] output 0 nest {{ store b2[0], 0.0 {body} }} }}"
        );
        let errors = verify(&parse(&text, &library).unwrap());
        match want {
            None => assert_eq!(errors, [], "{body}"),
            Some(want) => {
                let found = errors.iter().any(|e| e.message.contains(want));
                assert!(found && !errors.is_empty(), "{body}: {errors:?}");
            }
        }
    }
}

/// A chain of sixty values, each of which uses the previous two values, so that the number of paths is exponential.
/// The search for a range looks at a bounded number of definitions, and must still find the clamps at the end of the
/// chain.
#[test]
fn proofs_of_shared_values_end() {
    let chain = |step: &dyn Fn(usize) -> String| (2..62).map(step).collect::<String>();
    let clamped = |body: String| {
        format!(
            "%0: i64 = load b1[0] %1: i64 = load b1[1] {body} \
             %62: i64 = clamp 0, %61, 3 %63: i64 = clamp 0, %60, 4 %64: i64 = mul %62, 5 \
             %65: i64 = add %64, %63 %66: f64 = load b0[(%65)]"
        )
    };
    let (a, b) = (|i: usize| i - 2, |i: usize| i - 1);
    let sums = |code: &str, i: usize| format!("%{i}: i64 = {code} %{}, %{} ", a(i), b(i));
    let selected = |i: usize| {
        let (a, b, test, sum) = (a(i), b(i), 100 + i, 200 + i);
        format!(
            "%{test}: bool = lt %{a}, %{b} %{sum}: i64 = add %{a}, %{b} \
             %{i}: i64 = select %{test}, %{sum}, %{a} "
        )
    };
    let held = chain(&|i| format!("%{}: bool = and %{}, %{} ", 100 + i, 98 + i, 99 + i));
    for body in [
        clamped(chain(&|i| sums("add", i))),
        clamped(chain(&|i| sums("max", i))),
        clamped(chain(&selected)),
        format!(
            "%0: i64 = load b1[0] %100: bool = ge %0, 0 %101: bool = lt %0, 20 {held} \
             %1: f64 = load b0[(%0)] if %161"
        ),
    ] {
        let text = format!(
            "program @x {{ buffer b0: f64[4,5] input 0 buffer b1: i64[4] input 1 \
             buffer b2: f64[4] output 0 nest {{ store b2[0], 0.0 {body} }} }}"
        );
        assert_eq!(verify(&parse(&text, &library).unwrap()), [], "{body}");
        let text =
            text.replace("clamp 0, %61, 3", "clamp 0, %61, 4").replace("ge %0, 0", "ge %0, -1");
        assert_eq!(verify(&parse(&text, &library).unwrap()).len(), 1, "{body}");
    }
}

/// The interpreter and machine code must call Rust functions in program order, including calls in loops and callees.
#[test]
fn functions_are_asked_in_order() {
    let text = "kernel k0 @f { buffer b0: f64[] input 0 buffer b1: f64[] output 0
      nest { %0: f64 = load b0[0] %1: f64 = neg %0 store b1[0], %1 } ask &p7 (b0[0; 1]: f64[1]) to () }
    program @x { workspace 64 buffer b0: f64[3] input 0 buffer b1: bool[2] output 0
      buffer b2: f64[3] workspace 0
      for i3 in 2 { store b1[i3], true }
      serial i0 in 3 {
        call k0(b0[i0; 1]) to (b2[i0; 1]) frame 0
        %0: bool = eq i0, 1
        if %0 { ask &p8 (b2[0; 2]: f64[2]) to () ask &p9 (b1[0; 2]: bool[2]) to () }
      }
      var v0: i64 = 0
      while { %1: bool = lt v0, 2 } %1 { ask &p1 (b0[1; 0]: f64[0]) to () %2: i64 = add v0, 1 v0 = %2 } }";
    let text = text.replace("      serial", "nest { serial") + " }";
    let program = parse(&text, &library).unwrap();
    assert_eq!(parse(&program.to_string(), &library).unwrap().to_string(), program.to_string());
    assert_eq!(verify(&program), []);
    let x = Tensor::vector(&[1.0, 2.0, 3.0]);
    let want = ["p7 1.0", "p7 2.0", "p8 -1.0 -2.0", "p9 true true", "p7 3.0", "p1", "p1"];
    let lines = || -> Vec<String> {
        let line = |(name, all): &(String, Vec<Literal>)| {
            let all: Vec<String> = all.iter().map(|x| format!(" {x}")).collect();
            format!("{name}{}", all.concat())
        };
        take_recorded_calls().iter().map(line).collect()
    };
    // The external names of a parsed program are not bound to functions yet, so `eval` must fail.
    let problem = eval(&program, std::slice::from_ref(&x)).unwrap_err();
    assert!(problem.message.contains("`p7` has no Rust function"), "{problem}");
    bind_recorders(&program);
    shadow(&program, std::slice::from_ref(&x)).unwrap();
    assert_eq!(lines(), want);
    let code = Executable::new(&program).unwrap();
    code.call(&[&x]).unwrap();
    assert_eq!(lines(), want);
    let claim =
        "program @x { buffer b0: f64[] input 0 for i0 in 2 { ask &p (b0[0; 1]: f64[]) to () } }";
    let errors = verify(&parse(claim, &library).unwrap());
    assert!(errors[0].message.contains("no `for`: iterations report in order; say `serial`"));
}

/// The verifier must refuse a call of a Rust function if the types of operands or results differ from its signature.
#[test]
fn the_verifier_checks_host_calls() {
    for (ask, want) in [
        ("(b0[0; 4]: f64[2,2]) to (b1[0; 2]: f64[2])", None),
        ("lanes 2 (shared b0[0; 4]: f64[4], b0[0; 2]: f64[2]) to (b1[0; 2]: f64[2])", None),
        (
            "(b0[0; 3]: f64[4]) to (b1[0; 2]: f64[2])",
            Some("b0[0; 3] is 3 elements of f64, not f64[4]"),
        ),
        ("(b0[0; 4]: i64[4]) to (b1[0; 2]: f64[2])", Some("4 elements of f64, not i64[4]")),
        ("(b0[1; 4]: f64[4]) to (b1[0; 2]: f64[2])", Some("reaches elements 1..=4")),
        ("(b0[0; 4]: f64[4]) to (b0[0; 2]: f64[2])", Some("input b0 is written")),
    ] {
        let text = format!(
            "program @x {{ buffer b0: f64[4] input 0 buffer b1: f64[2] output 0 ask &f {ask} }}"
        );
        let program = parse(&text, &library).unwrap();
        assert_eq!(parse(&program.to_string(), &library).unwrap().to_string(), program.to_string());
        let errors = verify(&program);
        match want {
            None => assert_eq!(errors, [], "{ask}"),
            Some(want) => assert!(errors[0].message.contains(want), "{ask}: {errors:?}"),
        }
    }
}

/// Each of these calls of kernels breaks one invariant; the verifier must report it. A case has a part of the
/// expected message.
#[test]
fn the_verifier_checks_calls() {
    for (call, want) in [
        ("k1(b0[0; 4]) to (b2[0; 4]) frame 0", None),
        ("k1(b0[0; 4]) to (b3[0; 4]) frame 128", None),
        ("k1(b3[4; 4]) to (b3[0; 4]) frame 128", None),
        ("k2(b0[0; 4]) to (b2[0; 4]) frame 0", Some("k2 does not exist")),
        ("k1() to (b2[0; 4]) frame 0", Some("k1 has 1 operands, got 0")),
        ("k1(b0[0; 4]) to () frame 0", Some("k1 has 1 outputs, got 0")),
        ("k1(b0[0; 3]) to (b2[0; 4]) frame 0", Some("b0[0; 3] is 3 elements of f64, but k1 wants")),
        ("k1(b1[0; 4]) to (b2[0; 4]) frame 0", Some("is 4 elements of i64, but k1 wants f64[4]")),
        ("k1(b0[1; 4]) to (b2[0; 4]) frame 0", Some("reaches elements 1..=4 of a buffer of 4")),
        ("k1(b0[0; 4]) to (b0[0; 4]) frame 0", Some("input b0 is written")),
        ("k1(b3[1; 4]) to (b3[4; 4]) frame 128", Some("and b3[1; 4]: both have bytes 32..40")),
        ("k1(b0[0; 4]) to (b3[0; 4]) frame 0", Some("b3[0; 4] lies in the frame of the call")),
        ("k1(b0[0; 4]) to (b2[0; 4]) frame 32", Some("the frame at 32 is not aligned")),
        ("k1(b0[0; 4]) to (b2[0; 4]) frame 192", Some("ends beyond the workspace of 192 bytes")),
    ] {
        let text = format!(
            "kernel k0 @f {{ buffer b0: f64[4] input 0 buffer b1: f64[4] output 0 \
             for i0 in 4 {{ %0: f64 = load b0[i0] store b1[i0], %0 }} }} \
             kernel k1 @g {{ workspace 64 buffer b0: f64[4] input 0 buffer b1: f64[4] output 0 \
             call k0(b0[0; 4]) to (b1[0; 4]) frame 0 }} \
             program @x {{ workspace 192 buffer b0: f64[4] input 0 buffer b1: i64[4] input 1 \
             buffer b2: f64[4] output 0 buffer b3: f64[8] workspace 0 nest {{ store b2[0], 1.0 }} \
             call {call} }}"
        );
        let errors = verify(&parse(&text, &library).unwrap());
        match want {
            None => assert_eq!(errors, [], "{call}"),
            Some(want) => {
                assert!(errors.iter().any(|e| e.message.contains(want)), "{call}: {errors:?}");
            }
        }
    }
    let recursive =
        "kernel k0 @f { call k0() to () frame 0 } program @x { call k0() to () frame 0 }";
    let errors = verify(&parse(recursive, &library).unwrap());
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        errors[0].to_string(),
        "k0, step 0: k0 is called, but kernels call only those before them"
    );
}

/// The verifier must require that a donated argument has the address of its result, and overlaps no other view of the
/// call.
#[test]
fn the_verifier_checks_donations() {
    let given = "kernel k0 @f { buffer b0: f64[4] input 0 output 0 store b0[1], 2.0 }";
    for (callee, call, want) in [
        (given, "k0(b1[4; 4]) to (b1[4; 4]) frame 0", None),
        (given, "k0(b1.1[0; 4]) to (b1.2[0; 4]) frame 0", None),
        (given, "k0(b1[0; 4]) to (b1[4; 4]) frame 0", Some("is donated to b1[4; 4], but lies")),
        (given, "k0(b0[0; 4]) to (b0[0; 4]) frame 0", Some("input b0 is written")),
        (
            "kernel k0 @f { buffer b0: f64[4] input 0 output 0 buffer b1: f64[4] input 0 \
             store b0[1], 2.0 }",
            "k0(b1[0; 4]) to (b1[0; 4]) frame 0",
            Some("input 0 is donated, but b0 is not its only buffer"),
        ),
        (
            "kernel k0 @f { buffer b0: f64[4] input 0 output 0 buffer b1: f64[4] input 1 \
             store b0[1], 2.0 }",
            "k0(b1[0; 4], b1[2; 4]) to (b1[0; 4]) frame 0",
            Some("and b1[2; 4]: both have bytes 16..32"),
        ),
    ] {
        let text = format!(
            "{callee} program @x {{ workspace 64 buffer b0: f64[4] input 0 \
             buffer b1: f64[8] workspace 0 version b1.1 version b1.2 continues b1.1 \
             for i0 in 8 {{ store b1[i0], 1.0 }} call {call} }}"
        );
        let errors = verify(&parse(&text, &library).unwrap());
        match want {
            None => assert_eq!(errors, [], "{call}"),
            Some(want) => {
                assert!(errors.iter().any(|e| e.message.contains(want)), "{call}: {errors:?}");
            }
        }
    }
    let entry = "program @x { buffer b0: f64[4] input 0 output 0 store b0[1], 2.0 }";
    // The entry may have a donated argument, too. The interpreter runs it on a copy.
    let x = Tensor::from([1.0; 4]);
    let got = shadow(&parse(entry, &library).unwrap(), std::slice::from_ref(&x)).unwrap();
    assert_eq!((got[0].clone(), x), (Tensor::from([1.0, 2.0, 1.0, 1.0]), Tensor::from([1.0; 4])));
    // `b0.1`, a later value in the memory of the donated argument `b0`, keeps no element of it. So element 0 of `b0.1`
    // has no value, and the check `shadow` must report the load.
    let fresh = "kernel k0 @f { buffer b0: f64[4] input 0 output 0 version b0.1 \
                 nest { store b0.1[1], 2.0 %0: f64 = load b0.1[0] store b0.1[2], %0 } } \
                 program @x { workspace 64 buffer b0: f64[4] workspace 0 \
                 for i0 in 4 { store b0[i0], 1.0 } call k0(b0[0; 4]) to (b0[0; 4]) frame 64 }";
    let outcome = shadow(&parse(fresh, &library).unwrap(), &[]).map(|_| ());
    assert!(outcome.unwrap_err().message.contains("b0.1[0] is read where"));
}

/// Among random calls with up to five views, the verifier must refuse exactly the calls in which a result overlaps
/// another view.
#[test]
fn overlapping_results_of_calls_are_refused() {
    let mut state = Sweep::Calls.seed();
    let mut next = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n
    };
    let mut refused = 0;
    for _ in 0..Sweep::Calls.cases() {
        // The views of the call: each has two elements, of one of two buffers that share bytes.
        let reads = 1 + next(3);
        let places: Vec<u64> = (0..reads + 2).map(|_| next(31)).collect();
        let view = |p: &u64| match p {
            0..15 => format!("b0[{p}; 2]"),
            _ => format!("b1[{}; 2]", p - 8),
        };
        let views: Vec<String> = places.iter().map(view).collect();
        let (operands, outputs) = views.split_at(reads as usize);
        let inputs: String =
            (0..reads).map(|i| format!("buffer b{}: f64[2] input {i} ", i + 2)).collect();
        let text = format!(
            "kernel k0 @f {{ buffer b0: f64[2] output 0 buffer b1: f64[2] output 1 {inputs} \
             for i0 in 2 {{ store b0[i0], 1.0 store b1[i0], 1.0 }} }} \
             program @x {{ workspace 256 buffer b0: f64[16] workspace 0 buffer b1: f64[24] workspace 64 \
             call k0({}) to ({}) frame 0 }}",
            operands.join(", "),
            outputs.join(", ")
        );
        let meet = |i: usize, j: usize| i != j && places[i].abs_diff(places[j]) < 2;
        let n = places.len();
        let wrong = (n - 2..n).any(|i| (0..n).any(|j| meet(i, j)));
        let errors = verify(&parse(&text, &library).unwrap());
        assert_eq!(errors.is_empty(), !wrong, "{text}: {errors:?}");
        refused += usize::from(wrong);
    }
    assert!(refused > 50);
}

#[test]
fn the_verifier_checks_memory() {
    for (buffers, want) in [
        ("buffer b0: f64[] output 1", "outputs are not numbered"),
        ("buffer b0: f64[] output 0", "output b0 is never written"),
        ("workspace 8 buffer b0: f64[2] workspace 0", "ends beyond the workspace of 8 bytes"),
        ("workspace 80 buffer b0: f64[2] workspace 8", "is not aligned"),
        (
            "workspace 8 buffer b0: f64[] workspace 0 version b0.1 continues b0.1",
            "b0.1 continues a version that comes after it",
        ),
        (
            "buffer b0: f64[2] output 0 contract f64 2 x 1 x 1: \
             b0[0; 1, 1] = b0[0; 1, 1] * b0[1; 1, 1]",
            "reads b0[0; 1, 1] while it writes b0[0; 1, 1]",
        ),
        (
            "buffer b0: f64[2] input 0 buffer b1: f64[3] input 0",
            "input 0 is both f64[2] and f64[3]",
        ),
        ("buffer b0: f64[2] input 99999999999", "which is certainly a mistake"),
    ] {
        let text = format!("program @x {{ {buffers} }}");
        let errors = verify(&parse(&text, &library).unwrap());
        assert!(errors.iter().any(|e| e.message.contains(want)), "{buffers}: {errors:?}");
    }
}

/// The verifier must report contractions of 2 x 2 matrices that write bytes which they read. Buffers overlap: `b0`
/// has bytes 0..128 of the workspace, `b1` 64..192, `b2` 128..256; `b3` is a result.
#[test]
fn contractions_that_overwrite_their_operands_are_refused() {
    for (out, lhs, rhs, want) in [
        ("b0[0; 2, 1]", "b2[0; 2, 1]", "b2[4; 2, 1]", None),
        ("b0[4; 2, 1]", "b1[4; 2, 1]", "b2[0; 2, 1]", None),
        ("b0[0; 2, 1]", "b0[4; 2, 1]", "b3[0; 2, 1]", None),
        ("b3[0; 2, 1]", "b0[4; 2, 1]", "b0[4; 1, 2]", None),
        ("b0[12; 2, 1]", "b1[0; 2, 1]", "b2[0; 2, 1]", None),
        ("b0[8; 2, 1]", "b1[3; 2, 1]", "b2[0; 2, 1]", Some("bytes 88..96 of workspace 0")),
        ("b0[8; 2, 1]", "b2[0; 2, 1]", "b1[0; 2, 1]", Some("bytes 64..96 of workspace 0")),
        ("b2[0; 2, 1]", "b1[5; 2, 1]", "b3[0; 2, 1]", Some("bytes 128..136 of workspace 0")),
        // The last row of the result begins at element 12 of `b0`.
        ("b0[0; 12, 1]", "b0[13; 2, 0]", "b3[0; 2, 1]", Some("bytes 104..112 of workspace 0")),
        ("b3[0; 2, 1]", "b0[0; 2, 1]", "b3[3; -2, -1]", Some("bytes 0..32 of output 0")),
    ] {
        let text = format!(
            "program @x {{ workspace 256 buffer b0: f64[16] workspace 0 \
             buffer b1: f64[16] workspace 64 buffer b2: f64[16] workspace 128 \
             buffer b3: f64[4] output 0 nest {{ store b3[0], 0.0 }} \
             contract f64 2 x 2 x 2: {out} = {lhs} * {rhs} }}"
        );
        let errors = verify(&parse(&text, &library).unwrap());
        match want {
            None => assert_eq!(errors, [], "{out} = {lhs} * {rhs}"),
            Some(want) => {
                let found = errors.iter().any(|e| e.message.contains(want));
                assert!(found && errors.len() == 1, "{out} = {lhs} * {rhs}: {errors:?}");
            }
        }
    }
}

/// The declarations of the programs below: workspace buffers `b0` and `b1`, which share bytes from byte 64 on; a result
/// that is updated in place; and `b3`, which is exchanged with `b0`.
const MEMORY: &str = "workspace 320
    buffer b0: f64[16] workspace 0
    version b0.1 continues b0
    version b0.2
    buffer b1: f64[16] workspace 64
    buffer b2: f64[4] output 0
    version b2.1 continues b2
    version b2.2 continues b2.1
    buffer b3: f64[16] workspace 192";

#[track_caller]
fn shadowed(body: &str) -> Result<(), String> {
    let program = parse(&format!("program @x {{ {MEMORY} {body} }}"), &library).unwrap();
    let outcome = shadow(&program, &[]);
    assert!(eval(&program, &[]).is_ok(), "{body}");
    outcome.map(|_| ()).map_err(|e| e.message)
}

#[test]
fn loads_read_the_version_they_name() {
    for body in [
        // `b1` overlaps `b0`: the bytes of `b0` that the store to `b1` has not overwritten must keep their value.
        "store b0[0], 1.0 store b1[8], 2.0 %0: f64 = load b0[0]",
        // A version that updates another version in place must also have the elements of that version, and of all
        // versions continued before.
        "store b2[0], 1.0 store b2[1], 2.0 store b2.1[0], 3.0 %0: f64 = load b2.1[0] \
         %1: f64 = load b2.1[1] store b2.2[3], %1 %2: f64 = load b2.2[0] %3: f64 = load b2.2[1]",
        // Two values share memory, which `shadow` must accept: element by element, the lifetime of one value ends where
        // the lifetime of the other begins.
        "for i0 in 16 { store b0[i0], 1.0 } for i1 in 16 { %0: f64 = load b0[i1] store b0.2[i1], %0 }
         %1: f64 = load b0.2[7]",
        // A load with a false guard reads nothing, so `shadow` must not report a missing value.
        "%0: f64 = load b0[0] if false",
        // A carried value must be available in the next iteration and after the loop.
        "store b0[0], 1.0 serial i0 in 3 carry b0 = b0.1 { %0: f64 = load b0[0] store b0.1[1], %0 } \
         %1: f64 = load b0[0] %2: f64 = load b0[1]",
        "store b0[0], 1.0 serial i0 in 3 carry b0 = b3 { %0: f64 = load b0[0] store b3[0], %0 } \
         %1: f64 = load b0[0]",
        "var v0: i64 = 0 store b0[0], 1.0 while { %9: bool = lt v0, 3 } %9 carry b0 = b3 { \
         %0: f64 = load b0[0] store b3[0], %0 %8: i64 = add v0, 1 v0 = %8 } %1: f64 = load b0[0]",
        // `shadow` must not report a `for` whose iterations are independent, as the statement claims.
        "for i0 in 4 { %0: i64 = sub 3, i0 store b0[(%0)], 1.0 %1: f64 = load b0[(%0)] }",
    ] {
        assert_eq!(shadowed(&format!("nest {{ {body} store b2.2[0], 0.0 }}")), Ok(()), "{body}");
    }
}

#[test]
fn loads_that_find_something_else_are_errors() {
    for (body, want) in [
        ("%0: f64 = load b0[0]", "b0[0] is read before anything was written there"),
        (
            "store b0[0], 1.0 %0: f64 = load b0[1]",
            "b0[1] is read before anything was written there",
        ),
        (
            "store b0[9], 1.0 store b1[1], 2.0 %0: f64 = load b0[9]",
            "b0[9] is read where b1 was written since",
        ),
        (
            "store b0[9], 1.0 store b0.1[9], 2.0 %0: f64 = load b0[9]",
            "b0[9] is read, but b0.1 has taken it over",
        ),
        (
            "store b0[9], 1.0 store b0.1[3], 2.0 store b0[4], 1.0",
            "b0[4] is written, but b0.1 has taken it over",
        ),
        (
            "store b0[9], 1.0 store b0.2[9], 2.0 %0: f64 = load b0[9]",
            "b0[9] is read where b0.2 was written since",
        ),
        ("store b0[9], 1.0 %0: f64 = load b0.2[9]", "b0.2[9] is read where b0 was written since"),
        (
            "store b2[0], 1.0 store b2.1[1], 1.0 store b2.2[2], 1.0 %0: f64 = load b2.1[0]",
            "b2.1[0] is read, but b2.2 has taken it over",
        ),
    ] {
        let error = shadowed(&format!("nest {{ {body} store b2.2[0], 0.0 }}")).unwrap_err();
        assert!(error.contains(want), "{body}: {error}");
    }
    for (body, want) in [
        // `shadow` must report a `for` whose iterations are not independent, although the statement claims it.
        (
            "for i0 in 4 { %0: i64 = rem i0, 3 store b0[(%0)], 1.0 }",
            "b0[0] is written in an iteration that claims to be independent",
        ),
        (
            "for i0 in 4 { %0: i64 = rem i0, 3 store b0[i0], 1.0 %1: f64 = load b0[(%0)] }",
            "b0[0] is read in an iteration that claims to be independent",
        ),
        (
            "for i1 in 16 { store b0[i1], 1.0 } for i0 in 4 { %0: i64 = sub i0, 1 \
             %1: f64 = load b0[i0] %2: bool = ge %0, 0 store b0[(%0)], 1.0 if %2 }",
            "b0[0] is written in an iteration that claims to be independent",
        ),
        // An element that an iteration does not write is not carried to the next iteration; its load must be
        // reported.
        (
            "store b0[0], 1.0 serial i0 in 2 carry b0 = b3 { store b3[1], 1.0 \
             %0: f64 = load b0[0] }",
            "b0[0] is read before anything was written there",
        ),
        (
            "store b0[0], 1.0 serial i0 in 2 carry b0 = b3 { store b3[0], 1.0 } \
             %0: f64 = load b3[0]",
            "b3[0] is read before anything was written there",
        ),
        (
            "store b0[0], 1.0 serial i0 in 2 carry b0 = b0.2 { %0: f64 = load b0[0] \
             store b0.2[1], 1.0 }",
            "b0[0] is read before anything was written there",
        ),
        (
            "store b0[0], 1.0 serial i0 in 2 carry b0 = b0.1 { store b0.1[1], 1.0 \
             %0: f64 = load b0[0] }",
            "b0[0] is read, but b0.1 has taken it over",
        ),
    ] {
        let error = shadowed(&format!("nest {{ {body} store b2.2[0], 0.0 }}")).unwrap_err();
        assert!(error.contains(want), "{body}: {error}");
    }
    let contract = "for i0 in 16 { store b0[i0], 1.0 } for i1 in 16 { store b1[i1], 1.0 } \
                    contract f64 2 x 2 x 2: b2[0; 2, 1] = b0[0; 2, 1] * b0[6; 2, 1]";
    let error = shadowed(contract).unwrap_err();
    assert!(error.contains("b0[8] is read where b1 was written since"), "{error}");
}

/// A fold with lanes must sum in the order that the loop program fixes: lane accumulators, upper half into lower
/// half, then the initial value. The result is compared with that order bit by bit.
#[test]
fn lanes_fold_in_their_order() {
    let sum = |lanes: &str, n: usize| {
        let text = format!(
            "program @f {{ buffer b0: f64[11] input 0 buffer b1: f64[] output 0 nest {{ \
             var v0: f64 = 0.7 fold i0 in {n} {lanes} {{ %0: f64 = load b0[i0] v0 = add v0, %0 }} \
             store b1[0], v0 }} }}"
        );
        let x: Vec<f64> = (0..11).map(|i| 1.0 / f64::from(3 * i + 1)).collect();
        let program = parse(&text, &|_| None).unwrap();
        (eval(&program, &[Tensor::vector(&x)]).unwrap()[0].literals().next().unwrap(), x)
    };
    let (in_order, x) = sum("", 11);
    assert_eq!(in_order, Literal::f64(x.iter().fold(0.7, |v, x| v + x)));
    let (lanes, x) = sum("lanes 4", 11);
    let p: Vec<f64> = (0..4).map(|i| x[i] + x[i + 4]).collect();
    let all = 0.7 + ((p[0] + p[2]) + (p[1] + p[3]));
    assert_eq!(lanes, Literal::f64(x[8..].iter().fold(all, |v, x| v + x)));
    assert_ne!(lanes, in_order);
    let (none_left, x) = sum("lanes 8", 8);
    let p: Vec<f64> = (0..4).map(|i| x[i] + x[i + 4]).collect();
    assert_eq!(none_left, Literal::f64(0.7 + ((p[0] + p[2]) + (p[1] + p[3]))));
}

/// The marks of saved values must survive printing and parsing, and the verifier must refuse wrong marks.
#[test]
fn marks_of_residuals_round_trip() {
    let text = "\
program @f {
  workspace 64
  buffer b0: f64[2] input 0 kept rematerialize
  buffer b1: f64[2] workspace 0
  version b1.1 kept named mine, rematerialize
  version b1.2 continues b1.1 kept named mine
  buffer b2: f64[] output 0
  store b2[0], 1.0
}
";
    let program = parse(text, &|_| None).unwrap();
    assert_eq!(program.to_string(), text);
    assert_eq!(verify(&program), []);
    let refused = |change: &dyn Fn(&mut crate::loop_ir::Kernel)| {
        let mut program = program.clone();
        change(&mut program.entry);
        verify(&program)[0].to_string()
    };
    let held = |buffer, version| BufferVersion { buffer: BufferId::from_u32(buffer), version };
    let unknown = refused(&|k| k.keep(held(7, 0), Mark::Named("mine".into())));
    assert!(unknown.contains("the `kept` buffer b7 does not exist"), "{unknown}");
    let later = refused(&|k| k.keep(held(1, 3), Mark::Named("mine".into())));
    assert!(later.contains("b1.3 is not declared"), "{later}");
    let word = refused(&|k| k.keep(held(1, 0), Mark::Named("two words".into())));
    assert!(
        word.contains("the name of the `kept` buffer b1 is no word: named two words"),
        "{word}"
    );
    let key = Mark::Draw(KeyUse { number: 7, branches: [].into() });
    let key = refused(&|k| k.keep(held(1, 0), key.clone()));
    assert!(key.contains("b1 is `kept` as a random key: draw [7]"), "{key}");
    for wrong in ["mine,", "mine, named", "mine, named 2", "mine, recompute", "mine, other"] {
        let text = text.replace("mine, rematerialize", wrong);
        assert!(parse(&text, &|_| None).is_err(), "{wrong}");
    }
}

#[test]
fn inlined_bodies_keep_their_marks() {
    let text = "kernel k0 @f inline { workspace 64 buffer b0: f64[] input 0 kept named mine \
         buffer b1: f64[] output 0 buffer b2: f64[] workspace 0 kept named other \
         nest { %0: f64 = load b0[0] store b2[0], %0 %1: f64 = load b2[0] store b1[0], %1 } } \
         program @x { workspace 128 buffer b0: f64[2] input 0 buffer b1: f64[] output 0 \
         call k0(b0[1; 1]) to (b1[0; 1]) frame 64 }";
    let mut program = parse(text, &|_| None).unwrap();
    passes::apply("inline_bodies", &mut program).unwrap();
    assert_eq!(verify(&program), []);
    let text = program.to_string();
    assert!(text.contains("buffer b0: f64[2] input 0 kept named mine\n"), "{text}");
    assert!(text.contains("workspace 64 kept named other\n"), "{text}");
}

/// `clamp_bounds` must clamp every index that is not proved to be in bounds: in loads and stores, with guards and in
/// loops.
#[test]
fn indices_without_a_proof_are_clamped() {
    let text = "\
program @f {
  buffer b0: f64[3] input 0
  buffer b1: i64[] input 1
  buffer b2: f64[4] output 0
  %0: i64 = load b1[0]
  for i0 in 4 {
    store b2[i0], 0.0
  }
  serial i1 in 2 {
    %1: bool = lt %0, 9
    %2: f64 = load b0[i1*2 + (%0)]
    %3: f64 = load b0[-1 + (%0)] if %1
    %4: f64 = add %2, %3
    store b2[i1 + (%0)], %4
  }
}
";
    let mut program = parse(text, &|_| None).unwrap();
    assert_eq!(verify(&program).len(), 3);
    let confine = |program: &mut super::Program| {
        let mut context = Context::default();
        by_name("clamp_bounds")?.apply(program, &mut context).map(|_| context.clamped)
    };
    assert_eq!(confine(&mut program), Ok(3));
    assert_eq!(verify(&program), []);
    assert_eq!(confine(&mut program), Ok(0));
    let run = |i: i64| {
        let args = [Tensor::from([1.0, 2.0, 4.0]), Tensor::from(i)];
        eval(&program, &args).unwrap()[0].to_vec::<f64>().unwrap()
    };
    // With index 1, iteration `i1` stores `b0[i1*2 + 1] + b0[0]` to `b2[i1 + 1]`. Accesses in bounds must be unchanged.
    // Only `b0[3]`, in iteration 1, is clamped to `b0[2]`.
    assert_eq!(run(1), [0.0, 3.0, 5.0, 0.0]);
    assert_eq!(run(-50), [2.0, 0.0, 0.0, 0.0]);
    assert_eq!(run(50), [0.0, 0.0, 0.0, 4.0]);
    assert_eq!(run(i64::MAX)[3], 4.0);

    // `clamp_bounds` must return an error if an index is certainly out of bounds, or if the program has other errors.
    let certain = text.replace("load b1[0]", "load b1[1]");
    assert!(confine(&mut parse(&certain, &|_| None).unwrap()).is_err());
    let mut wrong =
        parse(&text.replace("bool = lt %0, 9", "bool = lt %0, 9.0"), &|_| None).unwrap();
    let before = wrong.to_string();
    assert!(confine(&mut wrong).is_err());
    assert_eq!(wrong.to_string(), before);
}
