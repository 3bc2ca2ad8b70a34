//! Loops and branches: every engine must compute the results of the interpreter of the language.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::tests::check_all;
use crate::loop_ir::{self, Extent, Place, Stmt, visit};
use tapeloom_ir::{Module, Tensor, parse_module};

/// Functions that programs of several tests run as bodies of loops and branches.
const BODIES: &str = "
func @step(%0: i64[], %1: f64[], %2: f64[], %3: f64[]) -> (f64[], f64[]) {
  %4: f64[] = mul %1, %2
  %5: f64[] = add %4, %3
  %6: f64[] = convert{to=f64} %0
  %7: f64[] = add %5, %6
  return %5, %7
}
func @sines(%0: f64[4], %1: i64[]) -> (f64[4]) {
  %2: f64[4] = sin %0
  %3: f64[1] = broadcast{shape=[1], dims=[]} 0.5
  %4: f64[4] = dynamic_update_slice %2, %3, %1
  return %4
}
func @put(%0: f64[4], %1: i64[], %2: f64[]) -> (f64[4]) {
  %3: f64[1] = dynamic_slice{sizes=[1]} %0, %1
  %4: f64[1] = broadcast{shape=[1], dims=[]} %2
  %5: f64[1] = add %3, %4
  %6: f64[4] = dynamic_update_slice %0, %5, %1
  return %6
}
func @double(%0: f64[4]) -> (f64[4]) {
  %1: f64[4] = add %0, %0
  return %1
}
func @back(%0: f64[4], %1: f64[4]) -> (f64[4], f64[4]) {
  %2: f64[4] = rev{axes=[0]} %0
  return %1, %2
}
func @times(%0: f64[4,4], %1: f64[4]) -> (f64[4], f64[4]) {
  %2: f64[4] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %0, %1
  %3: f64[4] = mul %2, 0.5
  return %3, %2
}
func @small(%0: f64[4], %1: i64[]) -> (bool[]) {
  %2: f64[] = reduce_sum{axes=[0]} %0
  %3: bool[] = lt %2, 100.0
  return %3
}
func @grow(%0: f64[4], %1: i64[]) -> (f64[4], i64[]) {
  %2: f64[4] = add %0, %0
  %3: f64[4] = add %2, 1.0
  %4: i64[] = add %1, 2
  return %3, %4
}
func @nothing(%0: f64[0], %1: f64[4]) -> (f64[0], f64[4]) {
  %2: f64[0] = neg %0
  return %2, %1
}
";

/// Returns a module with `functions` and a function `@f` of `f64[], f64[4], f64[4,4], i64[], f64[3]` that has this
/// body.
fn module(functions: &str, body: &str) -> Module {
    let params = "%0: f64[], %1: f64[4], %2: f64[4,4], %3: i64[], %4: f64[3]";
    parse_module(&format!("{BODIES}{functions}func @f({params}) -> {body}")).unwrap()
}

#[track_caller]
fn same(functions: &str, body: &str) -> Module {
    let module = module(functions, body);
    let x = Tensor::from([0.5, -1.0, 0.25, 2.0]);
    let row = |i: i32| [0, 1, 2, 3].map(|k| f64::from((4 * i + k) % 5) * 0.25 - 0.5);
    let matrix = Tensor::from([0, 1, 2, 3].map(row));
    let args = |i: i64| {
        let (first, last) = (Tensor::from(0.75), Tensor::from([1.0, -2.0, 3.0]));
        [first, x.clone(), matrix.clone(), Tensor::from(i), last]
    };
    let all = [0, 1, 2, 5, -3].map(args);
    let f = module.iter().last().unwrap().0;
    check_all(&module, f, &all.each_ref().map(<[Tensor; 5]>::as_slice), 1e-12);
    module
}

#[test]
fn carries_elements_and_numbers_of_iterations() {
    for direction in ["up", "down"] {
        same(
            "",
            &format!(
                "(f64[], f64[3], f64[]) {{
  %5: f64[], %6: f64[3] = loop{{body=@step, trip=3, direction={direction}, takes=[index,carry0,const,xs]}} %0, %0, %4
  %7: f64[2,3] = slice{{start=[0,0], limit=[4,3], strides=[2,1]}} %2
  %8: f64[1,3] = slice{{start=[1,0], limit=[2,3], strides=[1,1]}} %7
  %9: f64[3] = reshape{{shape=[3]}} %8
  %10: f64[3] = rev{{axes=[0]}} %6
  %11: f64[], %12: f64[3] = loop{{body=@step, trip=3, direction={direction}, takes=[index,carry0,const,xs]}} 1.0, %5, %9
  %13: f64[], %14: f64[3] = loop{{body=@step, trip=3, direction={direction}, takes=[index,carry0,const,xs]}} %11, 2.0, %10
  return %13, %14, %11
}}"
            ),
        );
    }
}

/// Carried arrays that are updated in place, computed element by element, or swapped with another carry.
/// Their initial values have later readers or none, or are shared by two carries. The results must be the
/// interpreter's.
#[test]
fn carried_arrays() {
    same(
        "",
        "(f64[4], f64[4], f64[4], f64[4]) {
  %5: f64[4] = exp %1
  %6: f64[4] = loop{body=@sines, trip=5, direction=up, takes=[carry0,index]} %5
  %7: f64[4] = loop{body=@put, trip=4, direction=down, takes=[carry0,index,const]} %5, %0
  %8: f64[4] = loop{body=@double, trip=1, direction=up, takes=[carry0]} %1
  %9: f64[4] = loop{body=@double, trip=3, direction=up, takes=[carry0]} %7
  %10: f64[4] = neg %9
  %11: f64[4] = loop{body=@put, trip=4, direction=up, takes=[carry0,index,const]} %10, %0
  %12: f64[4] = add %11, %7
  return %6, %12, %8, %5
}",
    );
    same(
        "",
        "(f64[4], f64[4], f64[4], f64[3,4]) {
  %5: f64[4] = exp %1
  %6: f64[4], %7: f64[4] = loop{body=@back, trip=3, direction=up, takes=[carry0,carry1]} %5, %5
  %8: f64[4], %9: f64[4] = loop{body=@back, trip=2, direction=up, takes=[carry0,carry1]} %6, %1
  %10: f64[4], %11: f64[3,4] = loop{body=@times, trip=3, direction=down, takes=[const,carry0]} %2, %9
  return %8, %7, %10, %11
}",
    );
}

/// Loops with a trip count that is a run-time number, and loops that a condition ends: the results must be the
/// interpreter's.
#[test]
fn numbers_and_conditions_decide() {
    same(
        "",
        "(f64[4], f64[4], i64[], i64[], f64[4]) {
  %5: f64[4] = loop{body=@put, trip=runtime, direction=up, takes=[carry0,index,const]} %3, %1, %0
  %6: f64[4] = loop{body=@put, trip=runtime, direction=down, takes=[carry0,index,const]} %3, %5, 2.0
  %7: f64[4], %8: i64[], %9: i64[] = loop{body=@grow, trip=while, condition=@small, reads=[0,1], direction=up, takes=[carry0,carry1]} %6, %3
  %10: f64[4] = loop{body=@put, trip=runtime, direction=up, takes=[carry0,index,const]} %9, %1, 1.0
  return %7, %5, %8, %9, %10
}",
    );
}

#[test]
fn branches() {
    let functions = "
func @no(%0: f64[4], %1: f64[]) -> (f64[4], f64[]) {
  %2: f64[4] = sin %0
  %3: f64[4] = mul %2, 2.0
  return %3, %1
}
func @yes(%0: f64[4], %1: f64[]) -> (f64[4], f64[]) {
  %2: f64[] = reduce_sum{axes=[0]} %0
  %3: f64[] = mul %1, %2
  return %0, %3
}
func @other(%0: f64[4], %1: f64[]) -> (f64[4], f64[]) {
  %2: f64[4] = loop{body=@put, trip=4, direction=up, takes=[carry0,index,const]} %0, %1
  %3: f64[4], %4: f64[4] = loop{body=@back, trip=3, direction=up, takes=[carry0,carry1]} %2, %0
  return %3, 1.0
}
func @which(%0: f64[4], %1: f64[], %2: i64[]) -> (f64[4], f64[], f64[]) {
  %3: i64[] = rem %2, 2
  %4: bool[] = eq %3, 0
  %5: f64[4], %6: f64[] = cond{branches=[@no,@yes]} %4, %0, %1
  %7: f64[] = reduce_sum{axes=[0]} %5
  return %5, %6, %7
}
";
    same(
        functions,
        "(f64[4], f64[], f64[4], f64[], f64[4], f64[6]) {
  %5: bool[] = gt %3, 1
  %6: f64[4], %7: f64[] = cond{branches=[@no,@yes]} %5, %1, %0
  %8: f64[4], %9: f64[] = cond{branches=[@no,@yes,@other]} %3, %6, %7
  %10: f64[4] = rev{axes=[0]} %8
  %11: f64[4], %12: f64[] = cond{branches=[@other]} %3, %10, 2.0
  %13: f64[4], %14: f64[], %15: f64[6] = loop{body=@which, trip=6, direction=up, takes=[carry0,carry1,index]} %11, %9
  return %6, %7, %8, %9, %13, %15
}",
    );
}

/// Loops must have the interpreter's results inside loops and called functions, on arrays without elements, and on
/// constants alone.
#[test]
fn loops_within_loops_and_functions() {
    let functions = "
func @inner(%0: i64[], %1: f64[4,4], %2: f64[4]) -> (f64[4], f64[]) {
  %3: f64[4], %4: f64[3,4] = loop{body=@times, trip=3, direction=down, takes=[const,carry0]} %1, %2
  %5: f64[4] = loop{body=@put, trip=runtime, direction=up, takes=[carry0,index,const]} %0, %3, 0.25
  %6: f64[] = reduce_sum{axes=[0,1]} %4
  return %5, %6
}
func @called(%0: f64[4,4], %1: f64[4]) -> (f64[4], f64[5]) {
  %2: f64[4], %3: f64[5] = loop{body=@inner, trip=5, direction=up, takes=[index,const,carry0]} %0, %1
  %4: f64[4] = neg %2
  %5: f64[4] = sin %4
  return %5, %3
}
";
    same(
        functions,
        "(f64[4], f64[5], f64[5], f64[0], f64[4], f64[4,4]) {
  %5: f64[4], %6: f64[5] = call{function=@called, outline=true} %2, %1
  %7: f64[4], %8: f64[5] = call{function=@called, outline=true} %2, %5
  %9: f64[0] = slice{start=[0], limit=[0], strides=[1]} %1
  %10: f64[0], %11: f64[4] = loop{body=@nothing, trip=3, direction=up, takes=[carry0,carry1]} %9, %7
  %12: f64[4,4] = loop{body=@double, trip=4, direction=up, takes=[xs]} %2
  return %11, %6, %8, %10, %7, %12
}",
    );
}

/// Returns the number of carries, in all kernels of the lowered module, that alternate between two buffers.
fn swapped_carries(module: &Module) -> usize {
    let program = super::lower_to_loops(module, module.iter().last().unwrap().0).unwrap();
    let mut number = 0;
    for (_, k) in program.kernels() {
        visit(&k.body, &mut |s: &Stmt| {
            number += s.carries().iter().filter(|c| c.input.buffer != c.output.buffer).count();
        });
    }
    number
}

/// Carries that an iteration updates, or computes element by element, stay in place: no carry alternates
/// between two buffers.
#[test]
fn carries_stay_in_place() {
    let functions = "
func @long_sines(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: f64[40] = sin %0
  %3: f64[1] = broadcast{shape=[1], dims=[]} 0.5
  %4: f64[40] = dynamic_update_slice %2, %3, %1
  return %4
}
func @long_put(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: f64[1] = dynamic_slice{sizes=[1]} %0, %1
  %3: f64[1] = mul %2, 2.0
  %4: f64[40] = dynamic_update_slice %0, %3, %1
  return %4
}
func @mean(%0: f64[40]) -> (f64[40]) {
  %1: f64[] = reduce_sum{axes=[0]} %0
  %2: f64[] = div %1, 40.0
  %3: f64[40] = broadcast{shape=[40], dims=[]} %2
  %4: f64[40] = sub %0, %3
  return %4
}
";
    for (of, takes) in [("long_sines", ",index"), ("long_put", ",index"), ("mean", "")] {
        let body = format!(
            "(f64[40]) {{
  %5: f64[4,10] = broadcast{{shape=[4,10], dims=[0]}} %1
  %6: f64[40] = reshape{{shape=[40]}} %5
  %7: f64[40] = exp %6
  %8: f64[40] = loop{{body=@{of}, trip=5, direction=up, takes=[carry0{takes}]}} %7
  return %8
}}"
        );
        let module = same(functions, &body);
        let text = super::lower_to_loops(&module, module.iter().last().unwrap().0).unwrap();
        assert_eq!(swapped_carries(&module), 0, "{text}");
        // The program must copy nothing, because an array without later readers becomes the carry. So its workspace has
        // no buffer of more than 8 bytes.
        let program = super::lower_to_loops(&module, module.iter().last().unwrap().0).unwrap();
        let workspace = |b: &&loop_ir::Buffer| matches!(b.place, Place::Workspace(_));
        let large = program.entry.buffers.values().filter(workspace);
        assert_eq!(large.filter(|b| b.ty.bytes() > 8).count(), 0, "{program}");
    }
    let module = same(
        "",
        "(f64[4]) {
  %5: f64[4], %6: f64[4] = loop{body=@back, trip=5, direction=up, takes=[carry0,carry1]} %1, %1
  return %6
}",
    );
    assert_eq!(swapped_carries(&module), 2);
}

/// An array that every branch returns, changed or not, stays in place, also if it is the carry of a loop. If a branch
/// computes the array in other memory, this branch copies it.
#[test]
fn branches_update_in_place() {
    let functions = "
func @no(%0: f64[40], %1: i64[]) -> (f64[40]) {
  return %0
}
func @yes(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: f64[1] = dynamic_slice{sizes=[1]} %0, %1
  %3: f64[1] = mul %2, 2.0
  %4: f64[40] = dynamic_update_slice %0, %3, %1
  return %4
}
func @twice(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: bool[] = gt %1, 1
  %3: f64[40] = cond{branches=[@no,@yes]} %2, %0, %1
  %4: f64[40] = loop{body=@yes, trip=3, direction=up, takes=[carry0,const]} %3, %1
  return %4
}
func @late(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: f64[40] = rev{axes=[0]} %0
  %3: f64[20] = slice{start=[3], limit=[23], strides=[1]} %2
  %4: f64[40] = dynamic_update_slice %0, %3, %1
  %5: f64[1] = slice{start=[7], limit=[8], strides=[1]} %0
  %6: f64[40] = dynamic_update_slice %4, %5, %1
  return %6
}
func @never(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: f64[40] = loop{body=@yes, trip=0, direction=up, takes=[carry0,const]} %0, %1
  return %2
}
func @idle(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: bool[] = gt %1, 1
  %3: f64[40] = cond{branches=[@no,@never]} %2, %0, %1
  return %3
}
func @iteration(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: i64[] = rem %1, 3
  %3: f64[40] = cond{branches=[@no,@yes,@BRANCH]} %2, %0, %1
  return %3
}
";
    for (branch, copies) in [("twice", 0), ("late", 1)] {
        let functions = functions.replace("BRANCH", branch);
        let module = same(
            &functions,
            "(f64[40], f64[]) {
  %5: f64[4,10] = broadcast{shape=[4,10], dims=[0]} %1
  %6: f64[40] = reshape{shape=[40]} %5
  %7: f64[40] = exp %6
  %8: f64[40] = loop{body=@iteration, trip=5, direction=up, takes=[carry0,index]} %7
  return %8, %0
}",
        );
        let program = super::lower_to_loops(&module, module.iter().last().unwrap().0).unwrap();
        assert_eq!(swapped_carries(&module), 0, "{program}");
        let workspace = |b: &&loop_ir::Buffer| matches!(b.place, Place::Workspace(_));
        let large = program.entry.buffers.values().filter(workspace);
        assert!(large.filter(|b| b.ty.bytes() > 200).count() <= copies, "{program}");
    }
    // The results must also be right if the loop carries an array that no branch changes.
    same(
        &functions.replace("BRANCH", "late"),
        "(f64[40]) {
  %5: f64[4,10] = broadcast{shape=[4,10], dims=[0]} %1
  %6: f64[40] = reshape{shape=[40]} %5
  %7: f64[40] = exp %6
  %8: f64[40] = loop{body=@idle, trip=5, direction=up, takes=[carry0,index]} %7
  return %8
}",
    );
    // The results must also be right if the array has later readers or is the initial value of a second carry, and so
    // is copied first.
    same(
        &functions.replace("BRANCH", "late"),
        "(f64[40], f64[40], f64[40], f64[40]) {
  %5: f64[4,10] = broadcast{shape=[4,10], dims=[0]} %1
  %6: f64[40] = reshape{shape=[40]} %5
  %7: f64[40] = exp %6
  %8: f64[40] = cond{branches=[@no,@yes,@late]} %3, %7, 4
  %9: f64[40] = cond{branches=[@no,@yes,@late]} 2, %7, %3
  %10: f64[40] = add %8, %9
  %11: f64[40] = cond{branches=[@no,@late]} true, %10, %3
  %12: f64[40] = cond{branches=[@no,@yes]} false, %11, 2
  return %8, %9, %11, %12
}",
    );
}

/// An update of single elements is in place even if other equations read the old array, for every order in which the
/// program lists these equations.
#[test]
fn places_that_are_read_and_written_copy_no_array() {
    let bodies = [
        // Two elements are exchanged.
        "func @iteration(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: i64[] = mul %1, 7
  %3: f64[1] = dynamic_slice{sizes=[1]} %0, %1
  %4: f64[1] = dynamic_slice{sizes=[1]} %0, %2
  %5: f64[40] = dynamic_update_slice %0, %4, %1
  %6: f64[40] = dynamic_update_slice %5, %3, %2
  return %6
}",
        // This body is the gradient of one element, in which the new element depends on the old one.
        "func @iteration(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: f64[1] = broadcast{shape=[1], dims=[]} 0.0
  %3: f64[40] = dynamic_update_slice %0, %2, %1
  %4: f64[1] = dynamic_slice{sizes=[1]} %0, %1
  %5: f64[1] = sin %4
  %6: f64[1] = dynamic_slice{sizes=[1]} %3, %1
  %7: f64[1] = add %5, %6
  %8: f64[40] = dynamic_update_slice %3, %7, %1
  return %8
}",
        // This body sums old elements, and lists the sum after the update.
        "func @iteration(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: f64[1] = broadcast{shape=[1], dims=[]} 0.25
  %3: f64[40] = dynamic_update_slice %0, %2, %1
  %4: f64[4] = dynamic_slice{sizes=[4]} %0, 3
  %5: f64[] = reduce_sum{axes=[0]} %4
  %6: f64[1] = broadcast{shape=[1], dims=[]} %5
  %7: i64[] = mul %1, 3
  %8: f64[40] = dynamic_update_slice %3, %6, %7
  return %8
}",
        // This body has indices that are known at compile time.
        "func @iteration(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: f64[1] = dynamic_slice{sizes=[1]} %0, 2
  %3: f64[1] = sin %2
  %4: f64[40] = dynamic_update_slice %0, %3, 7
  %5: f64[40] = dynamic_update_slice %4, %3, 2
  return %5
}",
        // This body has an inner loop whose initial carries are the array and a part of the array.
        "func @inner(%0: f64[40], %1: f64[4], %2: i64[]) -> (f64[40], f64[4]) {
  %3: f64[4] = sin %1
  %4: f64[40] = dynamic_update_slice %0, %3, %2
  return %4, %3
}
func @iteration(%0: f64[40], %1: i64[]) -> (f64[40]) {
  %2: i64[] = mul %1, 5
  %3: f64[4] = dynamic_slice{sizes=[4]} %0, %2
  %4: f64[40], %5: f64[4] = loop{body=@inner, trip=9, direction=up, takes=[carry0,carry1,index]} %0, %3
  return %4
}",
    ];
    for body in bodies {
        let module = same(
            body,
            "(f64[40]) {
  %5: f64[4,10] = broadcast{shape=[4,10], dims=[0]} %1
  %6: f64[40] = reshape{shape=[40]} %5
  %7: f64[40] = exp %6
  %8: f64[40] = loop{body=@iteration, trip=5, direction=up, takes=[carry0,index]} %7
  return %8
}",
        );
        let program = super::lower_to_loops(&module, module.iter().last().unwrap().0).unwrap();
        let mut whole = 0;
        for (_, k) in program.kernels() {
            visit(&k.body, &mut |s: &Stmt| {
                let extent = match s {
                    Stmt::For { extent: Extent::Constant(n), .. } => *n,
                    _ => 0,
                };
                whole += usize::from(extent >= 10);
            });
        }
        // The only loop of 10 iterations or more computes the exponentials; none copies the array.
        assert_eq!(whole, 1, "{program}");
    }
}

/// If an array has no later readers, the caller must let the callee overwrite the array itself. All other arrays must
/// be copied before the call.
#[test]
fn calls_update_dead_operands_in_place() {
    let functions = "
func @fill(%0: f64[4], %1: f64[], %2: i64[]) -> (f64[4]) {
  %3: f64[] = sin %1
  %4: f64[] = cos %3
  %5: f64[1] = broadcast{shape=[1], dims=[]} %4
  %6: f64[4] = dynamic_update_slice %0, %5, %2
  %7: i64[] = add %2, 1
  %8: f64[4] = dynamic_update_slice %6, %5, %7
  return %8
}
";
    let module = same(
        functions,
        "(f64[4], f64[4], f64[4]) {
  %5: f64[4] = exp %1
  %6: f64[4] = call{function=@fill, outline=true} %5, %0, %3
  %7: f64[4] = call{function=@fill, outline=true} %6, 2.0, %3
  %8: f64[4] = call{function=@fill, outline=true} %7, 3.0, 1
  %9: f64[4] = call{function=@fill, outline=true} %1, 4.0, 0
  %10: f64[4] = rev{axes=[0]} %9
  %11: f64[4] = call{function=@fill, outline=true} %10, 4.0, 0
  return %8, %7, %11
}",
    );
    let program = super::lower_to_loops(&module, module.iter().last().unwrap().0).unwrap();
    assert_eq!(program.callees.len(), 1, "{program}");
    assert_eq!(program.callees.values().next().unwrap().donated().collect::<Vec<_>>(), [(0, 0)]);
}
