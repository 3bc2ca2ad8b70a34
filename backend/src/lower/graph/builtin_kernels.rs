//! Built-in kernels for cumulative operations and sorts, whose elements are not independent.
//!
//! If each element needs the previous one, the loops of an equation cannot be fused with neighbouring loops. So the
//! equation becomes a call of a kernel, whose loop IR is written as text in this file. The operands lie in memory
//! without gaps, like those of any call. Equal equations of a program share one kernel.
//!
//! ```text
//! cumsum{axis=0, reverse=false} of f64[4]     b1[0] = b0[0]; then for i in 3: b1[i + 1] = b1[i] + b0[i + 1]
//! ```

use std::fmt::Write;
use tapeloom_ir::prim::{Lowering, Step};
use tapeloom_ir::{ArrayType, Dtype};
use tapeloom_routines::{Argsort, Key};

/// Returns the text of the built-in kernel (a program without callees) for a cumulative operation or sort;
/// `None` for other equations. `x` is the type of the first operand, `y` that of the output.
pub(crate) fn text(lowering: &Lowering, x: Option<&ArrayType>, y: &ArrayType) -> Option<String> {
    if y.shape.elements() == 0 {
        return None;
    }
    let mut text = String::new();
    // The `ok()?` in the match arms below never returns `None`, because writing to a string cannot fail.
    match lowering {
        Lowering::Cumulate { axis, reverse, step } => {
            cumulate(&mut text, y, *axis, *reverse, *step).ok()?;
        }
        Lowering::ArgSort { axis, descending, first } => {
            argsort(&mut text, x?, *axis, *descending, *first).ok()?
        }
        Lowering::Elementwise(_)
        | Lowering::View { .. }
        | Lowering::Reshape
        | Lowering::Alias { .. }
        | Lowering::Iota { .. }
        | Lowering::Reduce { .. }
        | Lowering::ArgReduce { .. }
        | Lowering::Contract { .. }
        | Lowering::DynamicSlice
        | Lowering::DynamicUpdateSlice
        | Lowering::Gather { .. }
        | Lowering::Scatter { .. }
        | Lowering::Call(_)
        | Lowering::Host(_)
        | Lowering::Routine(_)
        | Lowering::Branch { .. }
        | Lowering::Loop { .. }
        | Lowering::Missing(_) => return None,
    }
    Some(text)
}

/// Returns three extents that describe an array as rows along an axis: the product of the extents before the axis, the
/// axis's extent, and the product of the extents after the axis.
fn rows(ty: &ArrayType, axis: usize) -> (usize, usize, usize) {
    let n = ty.shape[axis];
    let inner: usize = ty.shape[axis + 1..].iter().product();
    (ty.shape.elements() / n / inner, n, inner)
}

/// Writes the kernel of a cumulative operation to `text`. If the axis is the last one, the running value is a
/// number in a register; otherwise it is a row in memory with independent elements.
fn cumulate(
    text: &mut String,
    y: &ArrayType,
    axis: usize,
    reverse: bool,
    step: Step,
) -> std::fmt::Result {
    let (outer, n, inner) = rows(y, axis);
    let (dtype, row, all) = (y.dtype, n * inner, y.shape.elements());
    let ty = format!("{dtype}[{all}]");
    // `first`, `second`: the offsets in elements of the first and the second row to compute; `by`: the distance to the
    // next row. If `reverse`, computation starts with the last row in memory.
    let (first, second, by) = match reverse {
        false => (0, inner as i64, inner as i64),
        true => ((n - 1) * inner, (n as i64 - 2) * inner as i64, -(inner as i64)),
    };
    let (x, z) = match step {
        Step::Fold(_) => ("b0", "b1"),
        Step::Affine | Step::Segments => ("b1", "b2"),
    };
    // Returns the statements that compute the next element, `%3`, from the running value `v` and the operands
    // at offset `at`.
    let next = |v: &str, at: &str| match step {
        Step::Fold(code) => format!("%2: {dtype} = load b0[{at}]\n%3: {dtype} = {code} {v}, %2"),
        Step::Affine => format!(
            "%2: {dtype} = load b0[{at}]\n%4: {dtype} = mul %2, {v}\n%5: {dtype} = load b1[{at}]\n\
             %3: {dtype} = add %4, %5"
        ),
        Step::Segments => format!(
            "%2: bool = load b0[{at}]\n%5: {dtype} = load b1[{at}]\n%4: {dtype} = add {v}, %5\n\
             %3: {dtype} = select %2, %4, %5"
        ),
    };
    let given = match step {
        Step::Fold(_) | Step::Affine => dtype,
        Step::Segments => Dtype::Bool,
    };
    writeln!(text, "program @cumulate {{\nbuffer b0: {given}[{all}] input 0")?;
    match step {
        Step::Fold(_) => writeln!(text, "buffer b1: {ty} output 0")?,
        Step::Affine | Step::Segments => {
            writeln!(text, "buffer b1: {ty} input 1\nbuffer b2: {ty} output 0")?;
        }
    }
    let at = |offset: i64, more: &str| format!("i0*{row}{more} + {offset}");
    let load_first = |more: &str| format!("%0: {dtype} = load {x}[{}]", at(first as i64, more));
    let store_first = |more: &str| format!("store {z}[{}], %0", at(first as i64, more));
    writeln!(text, "for i0 in {outer} {{")?;
    if inner == 1 {
        writeln!(text, "{}\n{}", load_first(""), store_first(""))?;
        if n > 1 {
            let at = at(second, &format!(" + i1*{by}"));
            let next = next("v0", &at);
            writeln!(text, "var v0: {dtype} = %0\nserial i1 in {} {{", n - 1)?;
            writeln!(text, "{next}\nv0 = %3\nstore {z}[{at}], %3\n}}")?;
        }
    } else {
        let (load, store) = (load_first(" + i2"), store_first(" + i2"));
        writeln!(text, "for i2 in {inner} {{\n{load}\n{store}\n}}")?;
        if n > 1 {
            let before = at(first as i64, &format!(" + i1*{by} + i3"));
            let at = at(second, &format!(" + i1*{by} + i3"));
            let next = next("%1", &at);
            writeln!(text, "serial i1 in {} {{\nfor i3 in {inner} {{", n - 1)?;
            writeln!(
                text,
                "%1: {dtype} = load {z}[{before}]\n{next}\nstore {z}[{at}], %3\n}}\n}}"
            )?;
        }
    }
    writeln!(text, "}}\n}}")
}

/// Writes the kernel of an argsort to `text`: a bottom-up merge sort, which merges runs of 1, 2, 4, .. elements from
/// one half of the workspace to the other. Each half has the keys and their positions. A select instead of a branch
/// chooses the next element of two runs, since the branch would be unpredictable. The select chooses a position,
/// because some machines implement a select of floats as a branch. The element of the right run is chosen only if its
/// key is smaller, so the sort is stable. All elements are sorted, and the first `first` positions are stored.
///
/// Compiled code calls a library function (`Argsort`) instead, which takes a tenth of the time. Interpreters run the
/// kernel.
fn argsort(
    text: &mut String,
    x: &ArrayType,
    axis: usize,
    descending: bool,
    first: usize,
) -> std::fmt::Result {
    let (outer, n, inner) = rows(x, axis);
    let (all, dtype, row, last) = (x.shape.elements(), x.dtype, n * inner, n - 1);
    let (found, stored) = (outer * first * inner, first * inner);
    let part = |dtype: Dtype| (n * dtype.bytes()).next_multiple_of(64);
    let (keys, places) = (part(dtype), part(Dtype::I64));
    let (second, third, fourth) = (keys, 2 * keys, 2 * keys + places);
    let key = Key::ALL.into_iter().find(|key| key.word() == dtype.name());
    let fast = key.map(|key| Argsort { key, rows: outer, n, columns: inner, first, descending });
    let fast = fast.filter(|_| i32::try_from(n).is_ok());
    let scratch = fast.map_or(0, |fast| fast.scratch_words() * Dtype::F64.bytes());
    let workspace = (2 * (keys + places)).max(scratch);
    let fast = fast.map_or(String::new(), |fast| format!(" {fast}"));
    let passes = n.next_power_of_two().trailing_zeros();
    let before = if descending { "gt" } else { "lt" };
    // A nan comes after all numbers in ascending order, and before them in descending order.
    let (number, nan) = if descending { ("%14", "%15") } else { ("%15", "%14") };
    writeln!(
        text,
        "program @argsort{fast} {{
  workspace {workspace}
  buffer b0: {dtype}[{all}] input 0
  buffer b1: i64[{found}] output 0
  buffer b2: {dtype}[{n}] workspace 0
  buffer b3: {dtype}[{n}] workspace {second}
  buffer b4: i64[{n}] workspace {third}
  buffer b5: i64[{n}] workspace {fourth}
  serial i0 in {outer} {{
    serial i1 in {inner} {{
      for i2 in {n} {{
        %0: {dtype} = load b0[i0*{row} + i1 + i2*{inner}]
        store b2[i2], %0
        store b4[i2], i2
      }}
      serial i3 in {passes} carry b2 = b3, b4 = b5 {{
        %1: i64 = shift_left 1, i3
        var v0: i64 = 0
        var v1: i64 = 0
        var v2: i64 = 0
        var v3: i64 = 0
        serial i4 in {n} {{
          %2: bool = eq i4, v3
          if %2 {{
            %3: i64 = add i4, %1
            %4: i64 = min %3, {n}
            %5: i64 = add %4, %1
            %6: i64 = min %5, {n}
            v0 = i4
            v1 = %4
            v2 = %4
            v3 = %6
          }}
          %7: i64 = clamp 0, v0, {last}
          %8: i64 = clamp 0, v1, {last}
          %9: bool = lt v0, v2
          %10: bool = lt v1, v3
          %11: bool = not %9
          %12: {dtype} = load b2[(%7)]
          %13: {dtype} = load b2[(%8)]
          %14: bool = ne %12, %12
          %15: bool = ne %13, %13
          %16: bool = {before} %13, %12
          %17: bool = not {number}
          %18: bool = and %17, {nan}
          %19: bool = or %16, %18
          %20: bool = or %11, %19
          %21: bool = and %10, %20
          %22: i64 = select %21, %8, %7
          %23: {dtype} = load b2[(%22)]
          store b3[i4], %23
          %24: i64 = load b4[(%22)]
          store b5[i4], %24
          %25: i64 = convert{{to=i64}} %21
          %26: i64 = add v1, %25
          %27: i64 = sub 1, %25
          %28: i64 = add v0, %27
          v1 = %26
          v0 = %28
        }}
      }}
      for i5 in {first} {{
        %29: i64 = load b4[i5]
        store b1[i0*{stored} + i1 + i5*{inner}], %29
      }}
    }}
  }}
}}"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::lower::lower_to_loops;
    use crate::lower::tests::check_all;
    use tapeloom_ir::{ArrayType, Dtype, Literal, Tensor, parse_module};

    /// Returns pseudo-random numbers with repetitions. Floats include nan, both zeros and both infinities.
    fn numbers(dtype: Dtype, shape: &[usize], seed: u64) -> Tensor {
        let mut x = Tensor::zeros_of(&ArrayType::new(dtype, shape)).unwrap();
        let special = [f64::NAN, 0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY];
        let mut state = seed;
        for i in 0..x.elements() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let n = (state >> 40) % 40;
            let number = special.get(n as usize).copied().filter(|_| dtype.is_float());
            x.set_literal(i, Literal::of(dtype, number.unwrap_or(n as f64 / 4.0 - 5.0))).unwrap();
        }
        x
    }

    /// Checks that all engines compute operation `op` along each axis of an array of this shape with the same bits as
    /// the interpreter, for each dtype.
    fn check(op: &str, operands: usize, dtypes: &[Dtype], shape: &[usize]) {
        for dtype in dtypes {
            let ty = ArrayType::new(*dtype, shape);
            let result = if op == "argsort" { Dtype::I64 } else { *dtype };
            for axis in 0..shape.len() {
                for (other, few) in [(false, false), (true, false), (false, true), (true, true)] {
                    let names: Vec<String> = (0..operands).map(|i| format!("%{i}")).collect();
                    let params: Vec<String> = names.iter().map(|n| format!("{n}: {ty}")).collect();
                    let mut y = ArrayType::new(result, shape);
                    let attributes = match op {
                        "argsort" => {
                            if few {
                                y.shape[axis] = shape[axis].div_ceil(9);
                            }
                            format!("descending={other}, first={}", y.shape[axis])
                        }
                        _ if few => continue,
                        _ => format!("reverse={other}"),
                    };
                    let text = format!(
                        "func @f({}) -> ({y}) {{\n  %9: {y} = {op}{{axis={axis}, {attributes}}} {}\n  \
                         return %9\n}}",
                        params.join(", "),
                        names.join(", ")
                    );
                    let module = parse_module(&text).unwrap();
                    let f = module.iter().last().unwrap().0;
                    let args: Vec<Tensor> =
                        (0..operands).map(|i| numbers(*dtype, shape, 7 + i as u64)).collect();
                    check_all(&module, f, &[&args], 0.0);
                }
            }
        }
    }

    const NUMBERS: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::I64, Dtype::U32];

    #[test]
    fn folds_along_any_axis() {
        for shape in [&[7][..], &[1], &[3, 1, 2], &[5, 9], &[2, 6, 33]] {
            for op in ["cumsum", "cumprod", "cummax", "cummin"] {
                check(op, 1, &NUMBERS, shape);
            }
            check("cummax", 1, &[Dtype::Bool], shape);
            check("recurrence", 2, &NUMBERS, shape);
        }
    }

    #[test]
    fn orders_along_any_axis() {
        for shape in [&[1][..], &[2], &[3], &[64], &[65], &[200], &[3, 1, 2], &[5, 9], &[2, 17, 3]]
        {
            check(
                "argsort",
                1,
                &[Dtype::F64, Dtype::F32, Dtype::I32, Dtype::U64, Dtype::Bool],
                shape,
            );
        }
    }

    /// The program's five equations must need three kernels: equal equations share a kernel, and an equation without
    /// elements needs none.
    #[test]
    fn equal_routines_are_one_kernel() {
        let text = "func @inner(%0: f64[9]) -> (f64[9]) {
  %1: f64[9] = cumsum{axis=0, reverse=false} %0
  return %1
}
func @f(%0: f64[9], %1: f64[3,3], %2: f64[0,4]) -> (f64[9], f64[9], f64[3,3], f64[0,4]) {
  %3: f64[9] = cumsum{axis=0, reverse=false} %0
  %4: f64[9] = neg %3
  %5: f64[9] = call{function=@inner, outline=false} %4
  %6: f64[9] = cumsum{axis=0, reverse=true} %5
  %7: f64[3,3] = cumsum{axis=1, reverse=false} %1
  %8: f64[0,4] = cumsum{axis=1, reverse=false} %2
  return %5, %6, %7, %8
}";
        let module = parse_module(text).unwrap();
        let f = module.iter().last().unwrap().0;
        assert_eq!(lower_to_loops(&module, f).unwrap().callees.len(), 3);
        let args = [&[9][..], &[3, 3], &[0, 4]].map(|shape| numbers(Dtype::F64, shape, 3));
        check_all(&module, f, &[&args], 0.0);
    }
}
