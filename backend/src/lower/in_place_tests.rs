//! Programs that overwrite memory while its values may still be needed: every engine must compute the results
//! of the interpreter of the language.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::tests::check_all;
use crate::sweeps::Sweep;
use tapeloom_ir::{Literal, Tensor, parse_module};

/// Runs a function of `f64[100], f64[100], i64[], i64[]` in all engines, at four pairs of indices, some out of range,
/// and compares the results with the interpreter's.
#[track_caller]
fn same(body: &str) {
    let text = format!("func @f(%x: f64[100], %w: f64[100], %i: i64[], %j: i64[]) -> {body}");
    // Replace the names by numbers, because the text form requires numbers as names of values.
    let text = ["%x", "%w", "%i", "%j"]
        .iter()
        .enumerate()
        .fold(text, |text, (n, name)| text.replace(name, &format!("%{n}")));
    let module = parse_module(&text).unwrap();
    let f = module.iter().last().unwrap().0;
    let x = Tensor::vector(&(0..100).map(f64::from).collect::<Vec<_>>());
    let w = Tensor::vector(&(0..100).map(|i| f64::from(i % 7) - 3.0).collect::<Vec<_>>());
    let index = |i| Tensor::full(&[], Literal::i64(i)).unwrap();
    let args = |(i, j)| [x.clone(), w.clone(), index(i), index(j)];
    let all = [(0, 1), (7, 7), (99, 0), (-4, 200)].map(args);
    check_all(&module, f, &all.each_ref().map(<[Tensor; 4]>::as_slice), 1e-12);
}

#[test]
fn two_updates_of_one_value() {
    same(
        "(f64[200]) {
  %4: f64[100] = mul %x, 2.0
  %5: f64[1] = broadcast{shape=[1], dims=[]} 10.0
  %6: f64[100] = dynamic_update_slice %4, %5, %i
  %7: f64[1] = broadcast{shape=[1], dims=[]} 20.0
  %8: f64[100] = dynamic_update_slice %4, %7, %j
  %9: f64[200] = concatenate{axis=0} %6, %8
  return %9
}",
    );
}

#[test]
fn three_updates_of_one_value_of_every_kind() {
    same(
        "(f64[], f64[], f64[]) {
  %4: f64[100] = exp %w
  %5: f64[3] = slice{start=[0], limit=[3], strides=[1]} %x
  %6: i64[2,1] = iota{dtype=i64, shape=[2,1], axis=0}
  %7: f64[2] = slice{start=[4], limit=[6], strides=[1]} %x
  %8: f64[100] = scatter_add{batch=0, axes=[0], bounds=drop} %4, %6, %7
  %9: f64[100] = dynamic_update_slice %4, %5, %j
  %10: f64[100] = scatter_set{batch=0, axes=[0], bounds=clip} %4, %6, %7
  %11: f64[] = reduce_sum{axes=[0]} %8
  %12: f64[] = reduce_sum{axes=[0]} %9
  %13: f64[] = reduce_sum{axes=[0]} %10
  return %11, %12, %13
}",
    );
}

#[test]
fn updates_and_other_readers_of_one_value() {
    same(
        "(f64[], f64[100], f64[2], f64[], f64[100]) {
  %4: f64[100] = exp %w
  %5: f64[] = reduce_sum{axes=[0]} %4
  %6: f64[1] = broadcast{shape=[1], dims=[]} %5
  %7: f64[100] = dynamic_update_slice %4, %6, %i
  %8: f64[100] = mul %4, %7
  %9: f64[2] = dynamic_slice{sizes=[2]} %4, %j
  %10: f64[] = reduce_max{axes=[0]} %7
  %11: f64[100] = dynamic_update_slice %7, %6, %j
  return %5, %8, %9, %10, %11
}",
    );
}

#[test]
fn a_chain_of_updates_with_a_branch() {
    same(
        "(f64[100], f64[100], f64[100]) {
  %4: f64[100] = exp %w
  %5: f64[1] = broadcast{shape=[1], dims=[]} 10.0
  %6: f64[100] = dynamic_update_slice %4, %5, %i
  %7: f64[100] = dynamic_update_slice %6, %5, %j
  %8: f64[1] = broadcast{shape=[1], dims=[]} 20.0
  %9: f64[100] = dynamic_update_slice %6, %8, %j
  %10: f64[100] = dynamic_update_slice %9, %5, 3
  %11: f64[100] = rev{axes=[0]} %4
  %12: f64[100] = neg %7
  %13: f64[100] = neg %10
  return %12, %13, %11
}",
    );
}

#[test]
fn new_elements_and_indices_that_come_from_the_base() {
    same(
        "(f64[100], f64[100], f64[100]) {
  %4: f64[100] = mul %x, 2.0
  %5: f64[100] = rev{axes=[0]} %4
  %6: f64[60] = slice{start=[20], limit=[80], strides=[1]} %5
  %7: f64[100] = dynamic_update_slice %4, %6, %i
  %8: f64[60] = slice{start=[0], limit=[60], strides=[1]} %7
  %9: f64[60] = neg %8
  %10: f64[100] = dynamic_update_slice %7, %9, %j
  %11: i64[100] = convert{to=i64} %10
  %12: i64[100,1] = reshape{shape=[100,1]} %11
  %13: f64[100] = scatter_add{batch=0, axes=[0], bounds=drop} %10, %12, %10
  %14: f64[100] = exp %w
  %15: f64[100] = scatter_mul{batch=0, axes=[0], bounds=clip} %14, %12, %14
  return %7, %13, %15
}",
    );
}

#[test]
fn recomputation_reads_no_overwritten_operand() {
    same(
        "(f64[100], f64[100], f64[]) {
  %4: f64[100] = exp %w
  %5: f64[100] = neg %4
  %6: f64[1] = broadcast{shape=[1], dims=[]} 10.0
  %7: f64[100] = dynamic_update_slice %4, %6, %i
  %8: f64[100] = dynamic_update_slice %7, %6, %j
  %9: f64[100] = rev{axes=[0]} %5
  %10: f64[100] = add %9, %8
  %11: f64[100] = dynamic_update_slice %5, %6, %j
  %12: f64[] = reduce_sum{axes=[0]} %5
  return %10, %11, %12
}",
    );
}

#[test]
fn arguments_results_and_constants_are_not_written_over() {
    same(
        "(f64[100], f64[100], f64[100], f64[100], f64[100], f64[100]) {
  %4: f64[1] = broadcast{shape=[1], dims=[]} 10.0
  %5: f64[100] = dynamic_update_slice %x, %4, %i
  %6: f64[100] = dynamic_update_slice %x, %4, %j
  %7: f64[100] = exp %w
  %8: f64[100] = dynamic_update_slice %7, %4, %i
  %9: f64[100] = broadcast{shape=[100], dims=[]} 1.0
  %10: f64[100] = dynamic_update_slice %9, %4, %i
  %11: f64[100] = dynamic_update_slice %9, %4, %j
  return %5, %6, %7, %8, %10, %11
}",
    );
}

#[test]
fn contractions_before_and_after_updates_of_one_value() {
    same(
        "(f64[], f64[16,16], f64[16], f64[16,16], f64[]) {
  %4: f64[16,16] = iota{dtype=f64, shape=[16,16], axis=0}
  %5: f64[16,16] = sin %4
  %6: f64[16,16] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} %5, %5
  %7: f64[1,16] = slice{start=[3,0], limit=[4,16], strides=[1,1]} %5
  %8: f64[16,16] = dynamic_update_slice %6, %7, %i, %j
  %9: f64[16,16] = dynamic_update_slice %6, %7, %j, %i
  %10: f64[16,16] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[1]} %6, %9
  %11: f64[16] = slice{start=[0], limit=[16], strides=[1]} %w
  %12: f64[16] = dot{lhs_batch=[], rhs_batch=[], lhs_contract=[0], rhs_contract=[0]} %8, %11
  %13: f64[1] = broadcast{shape=[1], dims=[]} 10.0
  %14: f64[16] = dynamic_update_slice %12, %13, %i
  %15: f64[16] = dynamic_update_slice %12, %13, %j
  %16: f64[16] = add %14, %15
  %17: f64[16,16] = dynamic_update_slice %10, %7, %i, 0
  %18: f64[] = reduce_sum{axes=[0,1]} %10
  %19: f64[] = reduce_sum{axes=[0,1]} %17
  return %18, %8, %16, %10, %19
}",
    );
}

#[test]
fn updates_of_rows_in_a_batch() {
    same(
        "(f64[10,10], f64[10,10], f64[10]) {
  %4: f64[10,10] = reshape{shape=[10,10]} %x
  %5: f64[10,10] = exp %4
  %6: f64[10,3] = slice{start=[0,0], limit=[10,3], strides=[1,1]} %5
  %7: f64[10,3] = neg %6
  %8: f64[10,10] = dynamic_update_slice %5, %7, 0, %j
  %9: f64[10,10] = dynamic_update_slice %5, %7, 0, %i
  %10: f64[10] = reduce_sum{axes=[1]} %5
  %11: f64[10,10] = mul %8, %9
  %12: f64[10,10] = dynamic_update_slice %11, %6, 0, 2
  %13: f64[10,10] = add %11, %12
  return %13, %12, %10
}",
    );
}

/// The cosine reads the base of the first update. The cosine belongs to the same pass as this update, but comes after
/// the sine, which belongs to a later pass and reads the update. So the update cannot be moved after the cosine, and
/// must copy its base.
#[test]
fn a_reader_that_is_behind_a_pass_that_is_behind_the_update() {
    same(
        "(f64[100], f64[100], f64[100]) {
  %4: f64[100] = barrier{mark=after_forward, id=0} %x
  %5: f64[100] = exp %4
  %6: f64[1] = broadcast{shape=[1], dims=[]} 1.0
  %7: f64[100] = dynamic_update_slice %5, %6, %i
  %8: f64[100] = barrier{mark=after_forward, id=1} %7
  %9: f64[100] = sin %8
  %10: f64[100] = cos %5
  return %7, %9, %10
}",
    );
}

/// Each of two updates would have to follow a reader that comes after the other update, so one of the two must copy its
/// base.
#[test]
fn updates_in_a_circle_and_a_pass_behind_them() {
    same(
        "(f64[100], f64[100], f64[100]) {
  %4: f64[100] = exp %x
  %5: f64[100] = sin %w
  %6: f64[1] = broadcast{shape=[1], dims=[]} 1.0
  %7: f64[100] = dynamic_update_slice %4, %6, %i
  %8: f64[100] = dynamic_update_slice %5, %6, %j
  %9: f64[100] = mul %7, %5
  %10: f64[100] = mul %8, %4
  %11: f64[100] = barrier{mark=after_forward, id=0} %x
  %12: f64[100] = cos %11
  return %9, %10, %12
}",
    );
}

/// Returns the text of a random program of updates. Its values are overwritten, read again (in part, in another order,
/// by contractions, in later passes), and returned, without regard to conflicts.
fn random_program(random: &mut impl FnMut(usize) -> usize) -> String {
    let mut text = String::new();
    let mut next = 4;
    // The numbers of the program's values that have the type f64[100]. The first two, 0 and 1, are arguments.
    let mut arrays = vec![0, 1];
    let indices = ["%2", "%3", "5", "-1"];
    let equations = 4 + random(12);
    for equation in 0..equations {
        let mut emit = |ty: &str, op: String| {
            text += &format!("  %{next}: {ty} = {op}\n");
            next += 1;
            next - 1
        };
        // Pick one of the last five values, so that the random program has chains of updates.
        let of = |random: &mut dyn FnMut(usize) -> usize| {
            arrays[arrays.len() - 1 - random(arrays.len().min(5))]
        };
        let (x, y) = (of(random), of(random));
        let i = indices[random(4)];
        let n = [1, 3, 30, 100][random(4)];
        let part = |emit: &mut dyn FnMut(&str, String) -> usize| {
            let ty = format!("f64[{n}]");
            let slice = format!("slice{{start=[{}], limit=[{}], strides=[1]}} %{y}", 100 - n, 100);
            emit(&ty, slice)
        };
        let places = |emit: &mut dyn FnMut(&str, String) -> usize| {
            let iota =
                emit(&format!("i64[{n},1]"), format!("iota{{dtype=i64, shape=[{n},1], axis=0}}"));
            emit(&format!("i64[{n},1]"), format!("mul %{iota}, 3"))
        };
        let square = "f64[10,10]";
        let made = match random(14) {
            0..=3 => {
                let new = part(&mut emit);
                emit("f64[100]", format!("dynamic_update_slice %{x}, %{new}, {i}"))
            }
            4 => {
                let new = part(&mut emit);
                let new = emit(&format!("f64[{n}]"), format!("neg %{new}"));
                emit("f64[100]", format!("dynamic_update_slice %{x}, %{new}, {i}"))
            }
            5 | 6 => {
                let (new, at) = (part(&mut emit), places(&mut emit));
                let kind = ["scatter_set", "scatter_add", "scatter_max", "scatter_min"][random(4)];
                let bounds = ["drop", "clip"][random(2)];
                let op =
                    format!("{kind}{{batch=0, axes=[0], bounds={bounds}}} %{x}, %{at}, %{new}");
                emit("f64[100]", op)
            }
            7 => emit("f64[100]", format!("sin %{x}")),
            8 => emit("f64[100]", format!("{} %{x}, %{y}", ["add", "sub", "max"][random(3)])),
            9 => emit("f64[100]", format!("rev{{axes=[0]}} %{x}")),
            10 => {
                let sum = emit("f64[]", format!("reduce_max{{axes=[0]}} %{x}"));
                let wide = format!("broadcast{{shape=[100], dims=[]}} %{sum}");
                let wide = emit("f64[100]", wide);
                emit("f64[100]", format!("sub %{y}, %{wide}"))
            }
            // Equations that read this barrier must run after the end of the forward or reverse pass before it.
            11 | 12 => {
                emit("f64[100]", format!("barrier{{mark=after_forward, id={equation}}} %{x}"))
            }
            _ => {
                let (a, b) = (
                    emit(square, format!("reshape{{shape=[10,10]}} %{x}")),
                    emit(square, format!("reshape{{shape=[10,10]}} %{y}")),
                );
                let dot = "dot{lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}";
                let c = emit(square, format!("{dot} %{a}, %{b}"));
                // In half of the cases, the product's result is updated as a matrix, by one row.
                let c = match random(2) {
                    0 => c,
                    _ => {
                        let ty = "f64[1,10]";
                        let row = "slice{start=[4,0], limit=[5,10], strides=[1,1]}";
                        let row = emit(ty, format!("{row} %{b}"));
                        emit(square, format!("dynamic_update_slice %{c}, %{row}, {i}, 0"))
                    }
                };
                let c = emit("f64[100]", format!("reshape{{shape=[100]}} %{c}"));
                emit("f64[100]", format!("sin %{c}"))
            }
        };
        arrays.push(made);
    }
    let results: Vec<usize> = (0..1 + random(3))
        .map(|_| arrays[arrays.len() - 1 - random(arrays.len().min(6))])
        .collect();
    let types = vec!["f64[100]"; results.len()].join(", ");
    let results: Vec<String> = results.iter().map(|r| format!("%{r}")).collect();
    format!("({types}) {{\n{text}  return {}\n}}", results.join(", "))
}

#[test]
fn random_updates() {
    for seed in Sweep::Updates.seeds() {
        let mut state = seed;
        let mut random = |n: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            ((state >> 33) as usize) % n
        };
        same(&random_program(&mut random));
    }
}

/// Many updates of one accumulator are in place: the test expects one copy of the whole array, and then a
/// store per update.
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
    let module = parse_module(&text).unwrap();
    let f = module.iter().last().unwrap().0;
    let (program, plan) = super::plan(&module, f).unwrap();
    assert_eq!(crate::loop_ir::verify(&program), []);
    let whole = program.to_string().matches("in 1000 {").count();
    assert_eq!(whole, 1, "the accumulator is copied more than once\n{program}");
    // The accumulator is the result, so the workspace must hold one sum only.
    assert!(plan.peak <= 64, "{plan}");
}
