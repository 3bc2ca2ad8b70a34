//! Nests that are products become contractions with bit-identical results; other nests are not changed.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::recognize_contractions;
use crate::loop_ir::{eval, parse, verify};
use crate::passes::pass::Choice;
use crate::passes::vectorize::vectorize;
use tapeloom_ir::{Literal, Tensor};

/// Returns the program after the pass. Checks that its results are bit-identical.
#[track_caller]
fn products(text: &str) -> String {
    let mut program = parse(text, &|_| None).unwrap();
    assert_eq!(verify(&program), [], "{program}");
    let inputs: Vec<_> = program.entry.inputs().into_iter().flatten().cloned().collect();
    let mut args = Vec::new();
    for (i, ty) in inputs.iter().enumerate() {
        let mut x = Tensor::zeros_of(ty).unwrap();
        for n in 0..x.elements() {
            let value = ((n * 7 + i * 3) as f64 * 0.37).sin();
            x.set_literal(n, Literal::of(ty.dtype, value)).unwrap();
        }
        args.push(x);
    }
    let mut loops = program.clone();
    loops.kernels_mut().for_each(|k| _ = vectorize(k, Choice::Plain));
    program.kernels_mut().for_each(|kernel| _ = recognize_contractions(kernel));
    program.kernels_mut().for_each(|k| _ = vectorize(k, Choice::Plain));
    assert_eq!(verify(&program), [], "{program}");
    assert_eq!(eval(&program, &args).unwrap(), eval(&loops, &args).unwrap(), "{program}");
    program.to_string()
}

const BUFFERS: &str = "program @f {
  buffer b0: f64[8] input 0
  buffer b1: f64[8,8] input 1
  buffer b2: f64[8] output 0
";

#[track_caller]
fn one(body: &str, contraction: &str) {
    let text = products(&format!("{BUFFERS}{body}\n}}"));
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("contract")).collect();
    assert_eq!(lines.iter().map(|l| l.trim()).collect::<Vec<_>>(), [contraction], "{text}");
    assert!(!text.contains("for i") && !text.contains("serial"), "{text}");
}

#[track_caller]
fn none(body: &str) {
    let text = products(&format!("{BUFFERS}{body}\n}}"));
    assert!(!text.contains("contract"), "{text}");
}

const CLEARED: &str = "for i0 in 8 { store b2[i0], 0.0 }";

const ROW: &str = "serial i1 in 8 { %0: f64 = load b0[i1] for i2 in 8 {
      %1: f64 = load b1[i1*8 + i2] %2: f64 = mul %0, %1
      %3: f64 = load b2[i2] %4: f64 = add %3, %2 store b2[i2], %4 } }";

#[test]
fn rows_times_numbers_are_a_product() {
    one(
        &format!("nest {{ {CLEARED} {ROW} }}"),
        "contract f64 1 x 8 x 8 lanes 1: b2[0; 0, 1] = b0[0; 0, 1] * b1[0; 8, 1]",
    );
}

#[test]
fn folds_of_rows_are_a_product() {
    one(
        "for i0 in 8 { var v0: f64 = 0.0 fold i1 in 8 {
              %0: f64 = load b1[i0*8 + i1] %1: f64 = load b0[i1] %2: f64 = mul %0, %1
              v0 = add v0, %2 } store b2[i0], v0 }",
        "contract f64 8 x 1 x 8 lanes 8: b2[0; 1, 0] = b1[0; 8, 1] * b0[0; 1, 0]",
    );
}

#[test]
fn folds_of_columns_are_a_product() {
    one(
        "for i0 in 8 { var v0: f64 = 0.0 serial i1 in 8 {
              %0: f64 = load b1[i1*8 + i0] %1: f64 = load b0[i1] %2: f64 = mul %1, %0
              v0 = add v0, %2 } store b2[i0], v0 }",
        "contract f64 8 x 1 x 8 lanes 1: b2[0; 1, 0] = b1[0; 1, 8] * b0[0; 1, 0]",
    );
}

#[test]
fn loops_around_go_into_it() {
    let text = products(
        "program @f {
  buffer b0: f64[3,8] input 0
  buffer b1: f64[8,8] input 1
  buffer b2: f64[3,8] output 0
  buffer b3: f64[5,8,8] output 1
  version b3.1 continues b3
  for i3 in 3 {
    for i0 in 8 { store b2[i3*8 + i0], 0.0 }
    serial i1 in 8 { %0: f64 = load b0[i3*8 + i1] for i2 in 8 {
      %1: f64 = load b1[i1*8 + i2] %2: f64 = mul %0, %1
      %3: f64 = load b2[i3*8 + i2] %4: f64 = add %3, %2 store b2[i3*8 + i2], %4 } }
  }
  for i4 in 320 { store b3[i4], 0.5 }
  serial i5 in 3 { for i6 in 8 { %5: f64 = load b0[i5*8 + i6] for i7 in 8 {
    %6: f64 = load b0[i7] %10: f64 = mul %5, %6 %7: f64 = add %10, 0.0
    %8: f64 = load b3.1[i6*8 + i7] %9: f64 = add %7, %8 store b3.1[i6*8 + i7], %9 } } }
}",
    );
    let rows = "contract f64 3 x 8 x 8 lanes 1: b2[0; 8, 1] = b0[0; 8, 1] * b1[0; 8, 1]\n";
    let added = "contract f64 8 x 8 x 1 lanes 1: b3.1[0; 8, 1] += b0[0; 1, 0] * b0[0; 0, 1] \
                     for 3 steps 0 = 8 * 0\n";
    assert!(text.contains(rows) && text.contains(added), "{text}");
}

#[test]
fn other_nests_are_no_contractions() {
    none(&format!("nest {{ for i0 in 8 {{ store b2[i0], 1.0 }} {ROW} }}"));
    none(&format!("nest {{ {CLEARED} nest {{ {ROW} }} }}"));
    // No contraction, since only half of the sums are set to 0 before.
    none(&format!("nest {{ {CLEARED} for i3 in 4 {{ store b2[i3], 0.0 }} {ROW} }}"));
    // No contraction, since neither operand is a vector.
    none(
        "for i0 in 8 { var v0: f64 = 0.0 fold i1 in 8 {
              %0: f64 = load b1[i0*8 + i1] %1: f64 = load b1[i1*8 + i0] %2: f64 = mul %0, %1
              v0 = add v0, %2 } store b2[i0], v0 }",
    );
}

const FOLD: &str = "var v0: f64 = 0.0 fold i1 in 8 {
      %0: f64 = load b1[i0*8 + i1] %1: f64 = load b0[i1] %2: f64 = mul %0, %1 v0 = add v0, %2 }";

#[test]
fn products_are_split_from_their_consumers() {
    let text = products(&format!(
        "{BUFFERS}for i0 in 8 {{ %3: f64 = load b0[i0] {FOLD}
              %4: f64 = add %3, v0 %5: f64 = neg %4 store b2[i0], %5 }} }}"
    ));
    let product = "  contract f64 8 x 1 x 8 lanes 8: b2[0; 1, 0] = b1[0; 8, 1] * b0[0; 1, 0]
  for i4 in 8 lanes 2 {
    %6: f64 = load b0[i4]
    %7: f64 = load b2[i4]
    %4: f64 = add %6, %7
    %5: f64 = neg %4
    store b2[i4], %5
  }
";
    assert!(text.contains(product), "{text}");
}

/// Each of two sums is computed in the buffer that receives a result of the other sum, so both sums must be loaded
/// before either result is stored.
#[test]
fn sums_that_wait_in_each_others_places() {
    let text = products(&format!(
            "{BUFFERS}buffer b3: f64[8] output 1
             for i0 in 8 {{ var v1: f64 = 0.0 {FOLD} fold i2 in 8 {{
               %3: f64 = load b1[i0*8 + i2] %4: f64 = load b0[i2] %5: f64 = mul %3, %4 v1 = add v1, %5 }}
               %6: f64 = neg v0 store b2[i0], %6 %7: f64 = add v0, v1 %8: f64 = neg %7 store b3[i0], %8 }} }}"
        ));
    assert_eq!(text.matches("contract").count(), 2, "{text}");
}

/// A layer of a neural network and its reverse pass, in one loop over rows, must become three contractions and a loop
/// for the remaining statements.
#[test]
fn products_before_and_behind_are_taken_apart() {
    let text = products(&format!(
        "{BUFFERS}
  buffer b3: f64[8] output 1
  buffer b4: f64[8,8] output 2
  nest {{
    for i2 in 8 {{ store b3[i2], 0.0 }}
    serial i0 in 8 {{
      {FOLD}
      %4: f64 = neg v0
      store b2[i0], %4
      for i3 in 8 {{
        %5: f64 = load b1[i0*8 + i3] %6: f64 = mul %4, %5
        %7: f64 = load b3[i3] %8: f64 = add %7, %6 store b3[i3], %8
        %9: f64 = load b0[i3] %10: f64 = mul %4, %9 %11: f64 = add %10, 0.0 store b4[i0*8 + i3], %11
      }}
    }}
  }}
}}"
    ));
    assert_eq!(text.matches("contract").count(), 3, "{text}");
    assert_eq!(text.matches("for i").count(), 1, "{text}");
}

/// A layer and its reverse pass, with the loop over two rows unrolled: the products of the two rows must become one
/// product of matrices.
#[test]
fn rows_side_by_side_are_one_product() {
    let text = products(
            "program @f {
  buffer b0: f64[2,8] input 0
  buffer b1: f64[8,8] input 1
  buffer b2: f64[2,8] output 0
  buffer b3: f64[2,8] output 1
  buffer b4: f64[8,8] output 2
  nest {
    serial i0 in 8 { for i1 in 2 { store b2[i0 + i1*8], 0.0 } }
    serial i2 in 8 {
      %0: f64 = load b0[i2] %1: f64 = load b0[i2 + 8]
      for i3 in 8 {
        %2: f64 = load b1[i2*8 + i3] %3: f64 = mul %0, %2 %4: f64 = load b2[i3]
        %5: f64 = add %4, %3 store b2[i3], %5
        %6: f64 = mul %1, %2 %7: f64 = load b2[i3 + 8]
        %8: f64 = add %7, %6 store b2[i3 + 8], %8
      }
    }
  }
  for i4 in 8 {
    var v0: f64 = 0.0 var v1: f64 = 0.0
    %10: f64 = load b0[i4] %11: f64 = load b0[i4 + 8]
    fold i5 in 8 {
      %12: f64 = load b2[i5] %13: f64 = mul %10, %12 %14: f64 = load b2[i5 + 8] %15: f64 = mul %11, %14
      %16: f64 = add %13, %15 %17: f64 = add %16, 0.0 store b4[i4*8 + i5], %17
      %18: f64 = load b1[i4*8 + i5] %19: f64 = mul %12, %18 v0 = add v0, %19
      %20: f64 = mul %14, %18 v1 = add v1, %20
    }
    store b3[i4], v0 store b3[i4 + 8], v1
  }
}",
        );
    for contraction in [
        "contract f64 2 x 8 x 8 lanes 1: b2[0; 8, 1] = b0[0; 8, 1] * b1[0; 8, 1]\n",
        "contract f64 8 x 8 x 2 lanes 1: b4[0; 8, 1] = b0[0; 1, 8] * b2[0; 8, 1]\n",
        "contract f64 8 x 2 x 8 lanes 8: b3[0; 1, 8] = b1[0; 8, 1] * b2[0; 1, 8]\n",
    ] {
        assert!(text.contains(contraction), "{text}");
    }
    assert!(!text.contains("for i") && !text.contains("serial"), "{text}");
}

#[test]
fn signs_of_zeros_stay() {
    none(
            "buffer b3: f64[8,8] output 1
             nest { for i0 in 8 { store b2[i0], 1.0 } } for i1 in 8 { %0: f64 = load b0[i1] for i2 in 8 {
               %1: f64 = load b0[i2] %2: f64 = mul %0, %1 store b3[i1*8 + i2], %2 } }",
        );
}

#[test]
fn loops_that_cannot_be_split_stay() {
    // No element can hold the sum: the element that the result is stored in is also read.
    none(&format!(
        "for i2 in 8 {{ store b2[i2], 1.0 }} for i0 in 8 {{ {FOLD}
              %4: f64 = load b2[i0] %5: f64 = mul %4, v0 store b2[i0], %5 }}"
    ));
    // Each iteration reads the element that the previous one has stored.
    none(&format!(
        "nest {{ store b2[0], 1.0 serial i0 in 7 {{ {FOLD} %4: f64 = load b2[i0]
              %5: f64 = add %4, v0 store b2[i0 + 1], %5 }} }}"
    ));
    // The value `%0` is computed in one part and stored nowhere, so the product cannot load it.
    none(&format!(
        "nest {{ {CLEARED} serial i1 in 8 {{ %9: f64 = load b0[i1] %0: f64 = neg %9 for i2 in 8 {{
              %1: f64 = load b1[i1*8 + i2] %2: f64 = mul %0, %1
              %3: f64 = load b2[i2] %4: f64 = add %3, %2 store b2[i2], %4 }} }} }}"
    ));
}

#[test]
fn products_that_read_their_result_stay() {
    let text = products(
        "program @f {
  buffer b0: f64[16,8] input 0
  buffer b1: f64[16,8] output 0
  version b1.1 continues b1
  for i0 in 128 { %0: f64 = load b0[i0] store b1[i0], %0 }
  nest {
    for i1 in 8 { store b1.1[i1 + 120], 0.0 }
    serial i2 in 8 { %1: f64 = load b0[i2] for i3 in 8 {
      %2: f64 = load b1.1[i2*8 + i3] %3: f64 = mul %1, %2
      %4: f64 = load b1.1[i3 + 120] %5: f64 = add %4, %3 store b1.1[i3 + 120], %5 } }
  }
}",
    );
    assert!(!text.contains("contract"), "{text}");
}
