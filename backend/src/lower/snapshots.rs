//! The loop programs of a few instructive functions, as text. `UPDATE_EXPECT=1` updates them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use super::{plan, schedule};
use crate::loop_ir;
use expect_test::{Expect, expect};
use tapeloom_ir::{FuncId, Module, parse_module};

fn parse(text: &str) -> (Module, FuncId) {
    let module = parse_module(text).unwrap();
    let last = module.iter().last().unwrap().0;
    (module, last)
}

#[track_caller]
fn check(text: &str, want: &Expect) {
    let (module, f) = parse(text);
    let program = schedule(&module, f).unwrap();
    assert_eq!(loop_ir::verify(&program), []);
    want.assert_eq(&program.to_string());
}

/// Loss and gradient in one pass over the data: the product with the weights, the scalar chain, the
/// sum and the transposed product share the loop over the rows.
#[test]
fn gradient_of_a_logistic_loss() {
    check(
        "
func @logistic(%0: f64[10], %1: f64[1000,10], %2: f64[1000]) -> (f64[], f64[10]) {
  %3: f64[1000] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %1, %0
  %4: f64[1000] = logistic %3
  %5: f64[1000] = sub 1.0, %4
  %6: f64[1000] = mul %4, %5
  %7: f64[1000] = log %4
  %8: f64[1000] = mul %2, %7
  %9: f64[1000] = sub 1.0, %2
  %10: f64[1000] = log %5
  %11: f64[1000] = mul %9, %10
  %12: f64[1000] = add %8, %11
  %13: f64[] = reduce_sum{axes=[0]} %12
  %14: f64[] = neg %13
  %15: f64[1000] = sub %2, 1.0
  %16: f64[1000] = div %15, %5
  %17: f64[1000] = neg %16
  %18: f64[1000] = div %2, %4
  %19: f64[1000] = sub %17, %18
  %20: f64[1000] = mul %6, %19
  %21: f64[10] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[0], rhs_contract=[0]} %20, %1
  return %14, %21
}",
        &expect![[r#"
            program @logistic {
              buffer b0: f64[10] input 0
              buffer b1: f64[1000,10] input 1
              buffer b2: f64[1000] input 2
              buffer b3: f64[] output 0
              version b3.1
              buffer b4: f64[10] output 1
              nest {
                var v0: f64 = 0.0
                for i0 in 10 {
                  store b4[i0], 0.0
                }
                serial i1 in 1000 {
                  var v1: f64 = 0.0
                  fold i2 in 10 {
                    %0: f64 = load b1[i1*10 + i2]
                    %1: f64 = load b0[i2]
                    %2: f64 = mul %0, %1
                    v1 = add v1, %2
                  }
                  %3: f64 = logistic v1
                  %4: f64 = sub 1.0, %3
                  %5: f64 = mul %3, %4
                  %6: f64 = log %3
                  %7: f64 = load b2[i1]
                  %8: f64 = mul %7, %6
                  %9: f64 = sub 1.0, %7
                  %10: f64 = log %4
                  %11: f64 = mul %9, %10
                  %12: f64 = add %8, %11
                  v0 = add v0, %12
                  %13: f64 = sub %7, 1.0
                  %14: f64 = div %13, %4
                  %15: f64 = neg %14
                  %16: f64 = div %7, %3
                  %17: f64 = sub %15, %16
                  %18: f64 = mul %5, %17
                  for i3 in 10 {
                    %19: f64 = load b1[i1*10 + i3]
                    %20: f64 = mul %18, %19
                    %21: f64 = load b4[i3]
                    %22: f64 = add %21, %20
                    store b4[i3], %22
                  }
                }
                store b3[0], v0
              }
              nest {
                %23: f64 = load b3[0]
                %24: f64 = neg %23
                store b3.1[0], %24
              }
            }
        "#]],
    );
}

/// Both products with the matrix read it once, by rows.
#[test]
fn gradient_of_least_squares() {
    check(
        "
func @llsq(%0: f64[128], %1: f64[4096,128], %2: f64[4096]) -> (f64[], f64[128]) {
  %3: f64[4096] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %1, %0
  %4: f64[4096] = sub %3, %2
  %5: f64[4096] = mul %4, %4
  %6: f64[] = reduce_sum{axes=[0]} %5
  %7: f64[128] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[0], rhs_contract=[0]} %4, %1
  return %6, %7
}",
        &expect![[r#"
            program @llsq {
              buffer b0: f64[128] input 0
              buffer b1: f64[4096,128] input 1
              buffer b2: f64[4096] input 2
              buffer b3: f64[] output 0
              buffer b4: f64[128] output 1
              nest {
                var v0: f64 = 0.0
                for i0 in 128 {
                  store b4[i0], 0.0
                }
                serial i1 in 4096 {
                  var v1: f64 = 0.0
                  fold i2 in 128 {
                    %0: f64 = load b1[i1*128 + i2]
                    %1: f64 = load b0[i2]
                    %2: f64 = mul %0, %1
                    v1 = add v1, %2
                  }
                  %3: f64 = load b2[i1]
                  %4: f64 = sub v1, %3
                  %5: f64 = mul %4, %4
                  v0 = add v0, %5
                  for i3 in 128 {
                    %6: f64 = load b1[i1*128 + i3]
                    %7: f64 = mul %4, %6
                    %8: f64 = load b4[i3]
                    %9: f64 = add %8, %7
                    store b4[i3], %9
                  }
                }
                store b3[0], v0
              }
            }
        "#]],
    );
}

/// Three loops inside one over the rows; only the exponentials of one row have memory.
#[test]
fn softmax_of_rows() {
    check(
        "
func @softmax(%0: f64[64,100]) -> (f64[64,100]) {
  %1: f64[64] = reduce_max{axes=[1]} %0
  %2: f64[64,100] = broadcast{shape=[64,100], dims=[0]} %1
  %3: f64[64,100] = sub %0, %2
  %4: f64[64,100] = exp %3
  %5: f64[64] = reduce_sum{axes=[1]} %4
  %6: f64[64,100] = broadcast{shape=[64,100], dims=[0]} %5
  %7: f64[64,100] = div %4, %6
  return %7
}",
        &expect![[r#"
            program @softmax {
              workspace 800
              buffer b0: f64[64,100] input 0
              buffer b1: f64[64,100] output 0
              buffer b2: f64[1,100] workspace 0
              serial i0 in 64 {
                var v0: f64 = 0xfff0000000000000f64
                fold i1 in 100 {
                  %0: f64 = load b0[i0*100 + i1]
                  v0 = max v0, %0
                }
                var v1: f64 = 0.0
                fold i2 in 100 {
                  %1: f64 = load b0[i0*100 + i2]
                  %2: f64 = sub %1, v0
                  %3: f64 = exp %2
                  store b2[i2], %3
                  v1 = add v1, %3
                }
                for i3 in 100 {
                  %4: f64 = load b2[i3]
                  %5: f64 = div %4, v1
                  store b1[i0*100 + i3], %5
                }
              }
            }
        "#]],
    );
}

/// Mean, variance and the normalised row, one after the other; only the differences of one row have memory.
#[test]
fn layer_norm_of_rows() {
    check(
        "
func @layer_norm(%0: f64[32,64], %1: f64[64]) -> (f64[32,64]) {
  %2: f64[32] = reduce_sum{axes=[1]} %0
  %3: f64[32] = div %2, 64.0
  %4: f64[32,64] = broadcast{shape=[32,64], dims=[0]} %3
  %5: f64[32,64] = sub %0, %4
  %6: f64[32,64] = mul %5, %5
  %7: f64[32] = reduce_sum{axes=[1]} %6
  %8: f64[32] = div %7, 64.0
  %9: f64[32] = add %8, 1e-5
  %10: f64[32] = sqrt %9
  %11: f64[32,64] = broadcast{shape=[32,64], dims=[0]} %10
  %12: f64[32,64] = div %5, %11
  %13: f64[32,64] = broadcast{shape=[32,64], dims=[1]} %1
  %14: f64[32,64] = mul %12, %13
  return %14
}",
        &expect![[r#"
            program @layer_norm {
              workspace 512
              buffer b0: f64[32,64] input 0
              buffer b1: f64[64] input 1
              buffer b2: f64[32,64] output 0
              buffer b3: f64[1,64] workspace 0
              serial i0 in 32 {
                var v0: f64 = 0.0
                fold i1 in 64 {
                  %0: f64 = load b0[i0*64 + i1]
                  v0 = add v0, %0
                }
                %1: f64 = div v0, 64.0
                var v1: f64 = 0.0
                fold i2 in 64 {
                  %2: f64 = load b0[i0*64 + i2]
                  %3: f64 = sub %2, %1
                  store b3[i2], %3
                  %4: f64 = mul %3, %3
                  v1 = add v1, %4
                }
                %5: f64 = div v1, 64.0
                %6: f64 = add %5, 1e-5
                %7: f64 = sqrt %6
                for i3 in 64 {
                  %8: f64 = load b3[i3]
                  %9: f64 = div %8, %7
                  %10: f64 = load b1[i3]
                  %11: f64 = mul %9, %10
                  store b2[i0*64 + i3], %11
                }
              }
            }
        "#]],
    );
}

/// The exponentials are scaled in place, in the memory of the result.
#[test]
fn a_dying_buffer_is_taken_over() {
    check(
        "
func @normalised(%0: f64[1000]) -> (f64[1000]) {
  %1: f64[1000] = exp %0
  %2: f64[] = reduce_sum{axes=[0]} %1
  %3: f64[1000] = broadcast{shape=[1000], dims=[]} %2
  %4: f64[1000] = div %1, %3
  return %4
}",
        &expect![[r#"
            program @normalised {
              workspace 8
              buffer b0: f64[1000] input 0
              buffer b1: f64[1000] output 0
              version b1.1
              buffer b2: f64[] workspace 0
              nest {
                var v0: f64 = 0.0
                fold i0 in 1000 {
                  %0: f64 = load b0[i0]
                  %1: f64 = exp %0
                  store b1[i0], %1
                  v0 = add v0, %1
                }
                store b2[0], v0
              }
              nest {
                %2: f64 = load b2[0]
                for i1 in 1000 {
                  %3: f64 = load b1[i1]
                  %4: f64 = div %3, %2
                  store b1.1[i1], %4
                }
              }
            }
        "#]],
    );
}

/// Vectors of three in a batch: the cross product is straight-line code in one loop.
#[test]
fn cross_products_in_a_batch() {
    let roll = |to: usize, x: usize, by: usize| {
        let (a, b) = (to, to + 1);
        format!(
            "  %{a}: f64[1000,{}] = slice{{start=[0,{by}], limit=[1000,3], strides=[1,1]}} %{x}
  %{b}: f64[1000,{by}] = slice{{start=[0,0], limit=[1000,{by}], strides=[1,1]}} %{x}
  %{}: f64[1000,3] = concatenate{{axis=1}} %{a}, %{b}\n",
            3 - by,
            to + 2
        )
    };
    check(
        &format!(
            "
func @cross(%0: f64[1000,3], %1: f64[1000,3]) -> (f64[1000,3]) {{
{}{}{}{}  %14: f64[1000,3] = mul %4, %10
  %15: f64[1000,3] = mul %7, %13
  %16: f64[1000,3] = sub %14, %15
  return %16
}}",
            roll(2, 0, 1),
            roll(5, 0, 2),
            roll(8, 1, 2),
            roll(11, 1, 1)
        ),
        &expect![[r#"
            program @cross {
              buffer b0: f64[1000,3] input 0
              buffer b1: f64[1000,3] input 1
              buffer b2: f64[1000,3] output 0
              for i0 in 1000 {
                %0: f64 = load b0[i0*3 + 1]
                %1: f64 = load b1[i0*3 + 2]
                %2: f64 = mul %0, %1
                %3: f64 = load b0[i0*3 + 2]
                %4: f64 = load b1[i0*3]
                %5: f64 = mul %3, %4
                %6: f64 = load b0[i0*3]
                %7: f64 = load b1[i0*3 + 1]
                %8: f64 = mul %6, %7
                %9: f64 = mul %3, %7
                %10: f64 = mul %6, %1
                %11: f64 = mul %0, %4
                %12: f64 = sub %2, %9
                store b2[i0*3], %12
                %13: f64 = sub %5, %10
                store b2[i0*3 + 1], %13
                %14: f64 = sub %8, %11
                store b2[i0*3 + 2], %14
              }
            }
        "#]],
    );
}

/// Many updates of one accumulator write in place: the whole is copied once, then each update writes an element.
#[test]
fn updates_of_an_accumulator_are_in_place() {
    let updates = 200;
    let mut text = String::from("func @f(%0: f64[1000], %1: i64[], %2: f64[1]) -> (f64[1000]) {\n");
    let mut total = 0;
    let mut next = 3;
    for _ in 0..updates {
        let (old, sum, new) = (next, next + 1, next + 2);
        text += &format!("  %{old}: f64[1] = dynamic_slice{{sizes=[1]}} %{total}, %1\n");
        text += &format!("  %{sum}: f64[1] = add %{old}, %2\n");
        text += &format!("  %{new}: f64[1000] = dynamic_update_slice %{total}, %{sum}, %1\n");
        (total, next) = (new, next + 3);
    }
    text += &format!("  return %{total}\n}}\n");
    let (module, f) = parse(&text);
    let (program, plan) = plan(&module, f).unwrap();
    assert_eq!(loop_ir::verify(&program), []);
    let whole = program.to_string().matches("in 1000 {").count();
    assert_eq!(whole, 1, "the accumulator is copied more than once\n{program}");
    // Apart from the accumulator, which is the result, the workspace holds one sum.
    assert!(plan.peak <= 64, "{plan}");
}
