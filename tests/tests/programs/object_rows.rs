//! Objects whose number of rows is an argument, in programs in C, Python and Rust. An object computes whole blocks of
//! rows, and the remaining rows one by one. Stacked results must have the bits of the programs of a block and of a row,
//! and sums the bits of sums in the documented order: blocks first, then single rows.

use super::objects::{Machine, SAME, block, has_numpy, mixture, numbers, run_rust, succeeds};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::Command;
use tapeloom::files::Arrays;
use tapeloom::object::{Isa, Object, Options, RowOptions};
use tapeloom::prelude::*;
use tapeloom::{ArrayType, Kind, Tree};
use tapeloom_backend::object::{self, Lowered, RowField, RowInterface};
use tapeloom_ir::prim::{Broadcast, Call, Reduce, Reducer};
use tapeloom_ir::{Atom, Builder, Draft, FuncId, Module, Problem};
use tapeloom_tests::gradbench::{Mixture, gmm_objective};
use tapeloom_tests::objects::{ObjectCase, Scratch, Toolchain, check};
use tapeloom_tests::program_generator::Recipe;
use tapeloom_tests::{Rng, Sweep};
use tapeloom_transforms::{BEFORE_CODE, batch};

/// The numbers of rows for which each object is called.
const ROWS: [usize; 5] = [0, 1, 7, 64, 1000];

/// Returns rows `start..start + rows` of an array.
fn part(x: &Tensor, start: usize, rows: usize) -> Tensor {
    let shape = x.ty().shape.without(&[0]);
    let row = shape.elements() * x.dtype().bytes();
    let ty = ArrayType::new(x.dtype(), shape.with_leading(rows));
    Tensor::from_bytes(&ty, &x.bytes()[start * row..(start + rows) * row]).unwrap()
}

/// Returns one row of an array, without the axis of rows.
fn one(x: &Tensor, row: usize) -> Tensor {
    let ty = ArrayType::new(x.dtype(), x.ty().shape.without(&[0]));
    Tensor::from_bytes(&ty, part(x, row, 1).bytes()).unwrap()
}

/// The expected results of an object for `n` rows. Sums are added in the documented order of blocks and rows.
struct Totals {
    n: usize,
    stacked: Vec<bool>,
    types: Vec<ArrayType>,
    /// For each result: the bytes of all rows so far if the result is stacked, otherwise empty. `sums` has, for each
    /// result, the sum so far if the result is summed.
    bytes: Vec<Vec<u8>>,
    sums: Vec<Tensor>,
}

impl Totals {
    /// Returns the state before any row. `types` are the types of the results of one row.
    fn new(n: usize, stacked: Vec<bool>, types: Vec<ArrayType>) -> Totals {
        let sums = types.iter().map(|ty| Tensor::zeros(&ty.shape, ty.dtype).unwrap()).collect();
        Totals { n, bytes: vec![Vec::new(); types.len()], stacked, types, sums }
    }

    /// Adds the results of a block or of a single row to the totals.
    fn add(&mut self, results: &[Tensor]) {
        let plus = jit(|(x, y): (Var, Var)| x + y);
        for (i, y) in results.iter().enumerate() {
            match self.stacked[i] {
                true => self.bytes[i].extend(y.bytes()),
                false => self.sums[i] = plus.call((&self.sums[i], y)).unwrap(),
            }
        }
    }

    /// Returns the results for all rows: blocks of `rows` rows are computed by `block`, the remaining rows by `row`.
    fn of(
        mut self,
        rows: usize,
        block: impl Fn(usize) -> Vec<Tensor>,
        row: impl Fn(usize) -> Vec<Tensor>,
    ) -> Vec<Tensor> {
        let whole = self.n / rows * rows;
        (0..whole).step_by(rows).for_each(|start| self.add(&block(start)));
        (whole..self.n).for_each(|i| self.add(&row(i)));
        let results = self.types.iter().zip(&self.stacked).zip(self.bytes).zip(self.sums);
        let results = results.map(|(((ty, stacked), bytes), sum)| match stacked {
            true => {
                let ty = ArrayType::new(ty.dtype, ty.shape.with_leading(self.n));
                Tensor::from_bytes(&ty, &bytes).unwrap()
            }
            false => sum,
        });
        results.collect()
    }
}

/// Returns an object of a function of one row, with the arguments and results of a call for each number of rows. `rows`
/// has the largest of these numbers of rows, and `options` has the object's name.
fn cases<R, S, B, X, Y>(
    f: impl Fn((R, S)) -> B,
    (rows, shared): (&X, &Y),
    ns: &[usize],
    options: impl Into<RowOptions>,
) -> Vec<ObjectCase>
where
    R: Tree<Var>,
    S: Tree<Var>,
    B: RowResults,
    X: Tree<Tensor> + Args<R>,
    Y: Tree<Tensor> + Args<S>,
{
    let row = jit(&f);
    let object = row.object_rows(&(first(rows), shared), options).unwrap();
    let block = jit(|(rows, shared): (R, S)| {
        let mut how = object.results().iter();
        let sum = |x: Var| if how.next().unwrap().per_row { x } else { x.sum_axis(0) };
        tree_map(sum, &vmap_axes((0, None), 0, &f)((rows, shared)))
    });
    let of_row = |x: X| tree_leaves(&row.call((x, shared)).unwrap());
    let of_block = |x: X| tree_leaves(&block.call((x, shared)).unwrap());
    tried(&object, (rows, shared), ns, of_row, of_block)
}

/// Returns the calls of an object for each number of rows. `row` and `block` compute a row and a block.
fn tried<X: Tree<Tensor>, Y: Tree<Tensor>>(
    object: &Object,
    (rows, shared): (&X, &Y),
    ns: &[usize],
    row: impl Fn(X) -> Vec<Tensor>,
    block: impl Fn(X) -> Vec<Tensor>,
) -> Vec<ObjectCase> {
    let stacked: Vec<bool> = object.results().iter().map(|field| field.per_row).collect();
    let types: Vec<ArrayType> = object.results().iter().map(|field| field.ty.clone()).collect();
    let size = object.block_rows().unwrap().get();
    let one_case = |n: usize| {
        let want = Totals::new(n, stacked.clone(), types.clone()).of(
            size,
            |start| block(tree_map(|x| part(&x, start, size), rows)),
            |i| row(tree_map(|x| one(&x, i), rows)),
        );
        let rows = tree_leaves(rows).into_iter().map(|x| part(&x, 0, n));
        let args = rows.chain(tree_leaves(shared)).collect();
        ObjectCase { object: object.clone(), args, want }
    };
    ns.iter().copied().map(one_case).collect()
}

/// Returns the first row of each array.
fn first<X: Tree<Tensor>>(rows: &X) -> X {
    tree_map(|x| one(&x, 0), rows)
}

/// The gradient of a mixture of Gaussians, which captures a tensor of positions.
fn gmm(machine: Machine, ns: &[usize]) -> Vec<ObjectCase> {
    let (parameters, _) = mixture();
    let loss = |p: &Mixture<Var>, x: Var| gmm_objective(p, x.reshape([1, 3]), 1.0, 0);
    let f = move |(x, p): (Var, Mixture<Var>)| {
        Summed(value_and_grad(move |p: Mixture<Var>| loss(&p, x))(p))
    };
    cases(f, (&numbers(&[1000, 3], 3.0), &parameters), ns, machine.options("gmm_rows"))
}

/// The gradient of the sum of the losses of `gmm` over rows. Its bits may differ from the sum of the rows' gradients.
fn gmm_gradient(machine: Machine, ns: &[usize]) -> Vec<ObjectCase> {
    let (parameters, rows) = (mixture().0, numbers(&[1000, 3], 3.0));
    let loss = |p: &Mixture<Var>, x: Var| gmm_objective(p, x.reshape([1, 3]), 1.0, 0);
    let f = jit(move |(x, p): (Var, Mixture<Var>)| Summed(loss(&p, x)));
    let args = (first(&rows), &parameters);
    let object = f.object_rows_value_and_grad(&args, machine.options("gmm_gradient")).unwrap();
    let row = jit(move |(x, p): (Var, Mixture<Var>)| {
        value_and_grad(move |p: Mixture<Var>| loss(&p, x))(p)
    });
    let block = jit(move |(rows, p): (Var, Mixture<Var>)| {
        value_and_grad(move |p: Mixture<Var>| vmap(move |x| loss(&p, x))(rows).sum())(p)
    });
    let of_row = |x: Tensor| tree_leaves(&row.call((x, &parameters)).unwrap());
    let of_block = |x: Tensor| tree_leaves(&block.call((x, &parameters)).unwrap());
    tried(&object, (&rows, &parameters), ns, of_row, of_block)
}

/// Results of all kinds and dtypes. Some of them do not depend on the row.
fn kinds(machine: Machine, ns: &[usize]) -> Vec<ObjectCase> {
    let table = numbers(&[11, 4], 1.0);
    let f = move |((x, i, on), (w, k)): ((Var, Var, Var), (Var, Var))| {
        let row = constant(table.clone()).take(i, 0) * x;
        let single = row.sum().convert(Dtype::F32).exp();
        let near = row.sum().gt(0.0) & on;
        (
            Stacked((row.exp() + w, near, k)),
            Summed(vec![single, near.convert(Dtype::I64), i * k, row.sum(), w.tanh()]),
            [Stacked(single), Stacked(i)],
        )
    };
    let indices: Tensor = (0..200).map(|i| (i * 7) % 13 - 1).collect::<Vec<i64>>().into();
    let on: Tensor = (0..200).map(|i| i % 3 > 0).collect();
    let rows = (numbers(&[200, 4], 1.0), indices, on);
    let shared = (numbers(&[4], 1.0), Tensor::from(3i64));
    let options = RowOptions {
        block_rows: NonZeroUsize::new(16),
        ..RowOptions::from(machine.options("kinds_rows"))
    };
    cases(f, (&rows, &shared), ns, options)
}

/// A loop for each row, whose trip count depends on the row: its residuals are on a tape.
fn until_far(machine: Machine, ns: &[usize]) -> Vec<ObjectCase> {
    let far = |x: Var, w: Var| {
        let start = x * w;
        while_loop(|x: Var| x.square().sum().lt(1e4), |x: Var| x * 1.01 + x.exp(), start).sum()
    };
    let f = move |(x, w): (Var, Var)| Summed(value_and_grad(move |w| far(x, w))(w));
    let options = RowOptions {
        block_rows: NonZeroUsize::new(8),
        ..RowOptions::from(machine.options("until_far_rows"))
    };
    cases(f, (&numbers(&[70, 3], 1.0), &Tensor::from([1.0, 0.5, -1.0])), ns, options)
}

/// A function with neither shared arguments nor sums.
fn stacked_only(machine: Machine, ns: &[usize]) -> Vec<ObjectCase> {
    let f = |(x, ()): (Var, ())| Stacked(grad(|x: Var| (x.tanh() * x.softplus()).sum())(x));
    cases(f, (&numbers(&[130, 5], 2.0), &()), ns, machine.options("stacked_rows"))
}

/// The objects of this file, for one machine. `tried` selects, from the numbers of rows, those for which an object is
/// called.
pub(super) fn each(machine: Machine, tried: fn(&[usize]) -> &[usize]) -> Vec<ObjectCase> {
    let (gmm, kinds) = (gmm(machine, tried(&ROWS)), kinds(machine, tried(&[0, 1, 16, 200])));
    let gradient = gmm_gradient(machine, tried(&[0, 200]));
    let far = until_far(machine, tried(&[0, 70]));
    [gmm, gradient, kinds, far, stacked_only(machine, tried(&[0, 130]))].concat()
}

#[test]
fn c_programs_get_the_same_bits() {
    let Some(toolchain) = Toolchain::here() else { return };
    let machines = Machine::here();
    // The loop over rows is scalar code, equal for all instruction sets, so test only the first and the last of them.
    let mut cases = each(machines[0], |rows| rows);
    if let [_, .., best] = machines[..] {
        cases.extend(each(best, |rows| rows));
    }
    check(&toolchain, &cases).unwrap();
}

/// Each of the two programs of an object has its own routines: one factors the matrices of a block, the other that of a
/// row.
#[test]
fn routines_of_both_programs_have_the_same_bits() {
    let Some(toolchain) = Toolchain::here() else { return };
    let diagonal =
        |a: Var| linalg::cholesky(0.5 * (a + a.t()) + 40.0 * eye(12, Dtype::F64)).diagonal();
    let f = move |(x, w): (Var, Var)| {
        (Stacked(diagonal(x)), Summed((diagonal(w) * (x.abs() + 0.5).lgamma().sum(), diagonal(x))))
    };
    let (rows, shared) = (numbers(&[70, 12, 12], 1.0), numbers(&[12, 12], 1.0));
    let options = Machine::here()[0].options("routines_rows");
    let cases = cases(f, (&rows, &shared), &[0, 1, 70], options);
    assert!(cases[0].object.needs_runtime());
    check(&toolchain, &cases).unwrap();
}

/// A call must read no byte outside of the arguments, results and workspace, and none that was not written.
#[test]
fn objects_read_only_what_they_may() {
    let compiler = ["cc", "-std=c11", "-O1", "-Wall"];
    let valgrind = ["valgrind", "--quiet", "--error-exitcode=9"];
    let Some(toolchain) = Toolchain::of(&compiler, &["-lm"], &valgrind) else { return };
    let machine = Machine::x86(Isa::Baseline);
    if cfg!(target_arch = "x86_64") {
        check(&toolchain, &kinds(machine, &[35])).unwrap();
    }
}

/// Calls objects from Python, with numpy, and compares the results in every bit.
const PYTHON: &str = r#"
for name, data in zip(sys.argv[1::2], sys.argv[2::2]):
    f = getattr(importlib.import_module(name), name)
    of = np.load(data)
    args = [of[f"a{i}"] for i in range(len(of.files)) if f"a{i}" in of]
    want = [of[f"r{i}"] for i in range(len(of.files)) if f"r{i}" in of]
    got = f(*args)
    list(map(same, got if isinstance(got, tuple) else (got,), want))
    out = tuple(np.full_like(x, 1) for x in want)
    f(*args, out=out)
    list(map(same, out, want))
    for wrong in [args[:-1], [args[0][None]] + args[1:], [args[0].astype(np.int8)] + args[1:], [1.0] + args[1:]]:
        try:
            f(*wrong)
        except TypeError as e:
            assert len(wrong) < len(args) or "`rows" in str(e), e
        else:
            raise AssertionError("a wrong argument")
    if name.startswith("kinds"):
        try:
            f(args[0], args[1][1:], *args[2:])
        except TypeError as e:
            assert "`rows.1` must be an array int64[200], got int64[199]" in str(e), e
        else:
            raise AssertionError("other numbers of rows")
"#;

#[test]
fn python_programs_get_the_same_bits() {
    let Some(_) = Toolchain::here() else { return };
    if !has_numpy() {
        return;
    }
    let folder = Scratch::new().unwrap();
    let mut words = Vec::new();
    let machine = Machine::here()[0];
    let all = [gmm(machine, &ROWS), kinds(machine, &[200]), until_far(machine, &[70])].concat();
    for (number, ObjectCase { object, args, want }) in all.into_iter().enumerate() {
        save_linked(&object, folder.path());
        let mut arrays = Arrays::new();
        for (of, tensors) in [("a", args), ("r", want)] {
            for (i, x) in tensors.into_iter().enumerate() {
                arrays.insert(format!("{of}{i}"), x);
            }
        }
        arrays.save_npz(folder.path().join(format!("{number}.npz"))).unwrap();
        words.extend([object.name().to_owned(), format!("{number}.npz")]);
    }
    let mut command = Command::new("python3");
    succeeds(
        command.args(["-c", &format!("{SAME}{PYTHON}")]).args(words).current_dir(folder.path()),
    );
}

/// Writes an object, its modules and the shared library for Python into a folder.
fn save_linked(object: &Object, folder: &Path) {
    let name = object.name();
    object.save(folder).unwrap();
    let link = format!("cc -shared -o lib{name}.so {name}.o -lm");
    succeeds(Command::new("sh").args(["-c", &link]).current_dir(folder));
}

/// A Rust program without a dependency on this library must get the same bits, and an error for slices of a wrong
/// length.
#[test]
fn rust_programs_get_the_same_bits() {
    let Some(_) = Toolchain::here() else { return };
    let folder = Scratch::new().unwrap();
    let (mut calls, mut want) = (String::new(), String::new());
    let bits =
        |x: &Tensor| x.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let machine = Machine::here()[0];
    let all = [gmm(machine, &ROWS), until_far(machine, &[70])].concat();
    for case in &all {
        let ObjectCase { object, args, want: results } = case;
        object.save(folder.path()).unwrap();
        let name = object.name();
        let n = case.rows().unwrap();
        calls += &format!("    {{\n        let mut w = {name}::Workspace::new();\n");
        let mut words = String::new();
        for (i, x) in args.iter().enumerate() {
            let elements = x.elements();
            calls += &format!(
                "        let a{i}: [u64; {elements}] = {:?};\n        let a{i} = a{i}.map(f64::from_bits);\n",
                bits(x)
            );
            words += &format!("&a{i}, ");
        }
        for (i, y) in results.iter().enumerate() {
            calls += &format!("        let mut r{i} = [7.0; {}];\n", y.elements());
            words += &format!("&mut r{i}, ");
            want += &format!("{:?}\n", bits(y));
        }
        calls += &format!("        {name}::{name}({n}, {words}&mut w).unwrap();\n");
        for i in 0..results.len() {
            calls += &format!("        println!(\"{{:?}}\", r{i}.map(f64::to_bits));\n");
        }
        calls +=
            &format!("        let e = {name}::{name}({}, {words}&mut w).unwrap_err();\n", n + 1);
        calls += "        println!(\"{e}\");\n    }\n";
        want += &format!("{name}: `rows` must have {} elements, and has {}\n", 3 * (n + 1), 3 * n);
    }
    let names: BTreeSet<&str> = all.iter().map(|case| case.object.name()).collect();
    let modules: String = names.iter().map(|name| format!("mod {name};\n")).collect();
    let text = format!("#![deny(warnings)]\n{modules}\nfn main() {{\n{calls}}}\n");
    std::fs::write(folder.path().join("main.rs"), text).unwrap();
    let objects: Vec<String> = names.iter().map(|name| format!("{name}.o")).collect();
    assert_eq!(run_rust(folder.path(), &objects), want);
}

/// The C, Rust and Python programs of the book's section on rows must run, with the object of its first program.
#[test]
fn the_programs_of_the_book_print_what_the_page_says() {
    let Some(_) = Toolchain::here() else { return };
    let loss = |w: Var, x: Var, y: Var| {
        let p = x.dot(w).sigmoid();
        -(y * p.ln() + (1.0 - y) * (1.0 - p).ln())
    };
    let f = jit(move |((x, y), w): ((Var, Var), Var)| {
        Summed(value_and_grad(move |w| loss(w, x, y))(w))
    });
    let folder = Scratch::new().unwrap();
    let row = ([0.0, 0.0], 0.0);
    f.object_rows((row, [0.0, 0.0]), "logistic_rows").unwrap().save(folder.path()).unwrap();
    let block = |fence| block("Any number of rows", fence);
    std::fs::write(folder.path().join("main.c"), block("c")).unwrap();
    let built = ["-c", &block("sh")];
    assert_eq!(succeeds(Command::new("sh").args(built).current_dir(folder.path())), block("text"));
    std::fs::write(folder.path().join("main.rs"), block("rust,ignore")).unwrap();
    assert_eq!(run_rust(folder.path(), &["logistic_rows.o".into()]), block("text"));
    if has_numpy() {
        let mut python = Command::new("python3");
        python.args(["-c", &block("python")]).current_dir(folder.path());
        assert_eq!(succeeds(&mut python), block("text"));
    }
}

/// The results of a regression at one point.
#[derive(Tree)]
struct Fit<T> {
    residual: Stacked<T>,
    loss: Summed<(T, T)>,
}

/// Returns the object of a regression: residuals are stacked, the loss and its gradient are summed.
fn regression() -> Object {
    let f = jit(|((x, y), w): ((Var, Var), Var)| {
        let residual = move |w: Var| x.dot(w) - y;
        let loss = move |w| residual(w).square();
        Fit { residual: Stacked(residual(w)), loss: Summed(value_and_grad(loss)(w)) }
    });
    f.object_rows((([0.0; 3], 0.0), [0.0; 3]), "regression").unwrap()
}

#[test]
fn headers_state_rows_and_the_order_of_sums() {
    let object = regression();
    let header = object.header();
    for line in [
        "#define REGRESSION_BLOCK_ROWS 64",
        " * n: the number of rows; it may be 0",
        " * rows_0: argument `rows.0`, f64[n,3], n * 3 elements in rows",
        " * rows_1: argument `rows.1`, f64[n], n * 1 elements in rows",
        " * shared: argument `shared`, f64[3], 3 elements in rows",
        " * result_residual: stacked result `result.residual`, f64[n], n * 1 elements in rows",
        " * result_loss_0: summed result `result.loss.0`, f64[], 1 elements in rows",
        " * A summed result is 0, plus the sum of each block of 64 rows in order, plus the value of each of the last n % 64 rows in order.",
        "#define REGRESSION_USES_TAPE 0",
    ] {
        assert!(header.lines().any(|l| l == line), "{line} in\n{header}");
    }
    let entry = "int regression(size_t n, const double *TAPELOOM_RESTRICT rows_0, const double *TAPELOOM_RESTRICT rows_1, \
                 const double *TAPELOOM_RESTRICT shared, double *TAPELOOM_RESTRICT result_residual, double *TAPELOOM_RESTRICT result_loss_0, \
                 double *TAPELOOM_RESTRICT result_loss_1, void *TAPELOOM_RESTRICT workspace, tl_arena *tape);";
    assert!(header.lines().any(|l| l == entry), "{header}");
    assert!(object.results()[0].per_row && !object.results()[1].per_row);
}

/// For 0 rows, sums are zeros and arrays with rows may be null. A missing workspace is reported by the status.
#[test]
fn no_rows_touch_no_memory() {
    let Some(_) = Toolchain::here() else { return };
    let folder = Scratch::new().unwrap();
    regression().save(folder.path()).unwrap();
    let main = r#"
#include "regression.h"
#include <stdio.h>

int main(void) {
    double x[3] = {1, 2, 3}, y = 1, w[3] = {1, 1, 1}, residual, value = 7, gradient[3] = {7, 7, 7};
    _Alignas(TAPELOOM_ALIGNMENT) char workspace[REGRESSION_WORKSPACE_BYTES];
    int status = regression(0, NULL, NULL, w, NULL, &value, gradient, workspace, NULL);
    printf("%d: %g %g %g %g\n", status, value, gradient[0], gradient[1], gradient[2]);
    status = regression(1, x, &y, w, &residual, &value, gradient, workspace, NULL);
    printf("%d: %g %g %g %g %g\n", status, residual, value, gradient[0], gradient[1], gradient[2]);
    status = regression(1, x, &y, w, &residual, &value, gradient, NULL, NULL);
    printf("%d\n", status == TAPELOOM_MEMORY);
    status = regression(1, x, &y, w, &residual, &value, gradient, workspace + 8, NULL);
    printf("%d\n", status == TAPELOOM_MEMORY);
    return 0;
}
"#;
    std::fs::write(folder.path().join("main.c"), main).unwrap();
    let build = "cc -std=c11 -Wall -Werror main.c regression.o -lm -o main && ./main";
    let output = succeeds(Command::new("sh").args(["-c", build]).current_dir(folder.path()));
    assert_eq!(output, "0: 0 0 0 0\n0: 5 25 10 20 30\n1\n1\n");
}

/// The caller gives an object memory for its dynamic tape, an arena. The arena's fields `used` and `needed` must be
/// those of the block of rows whose residuals take the most bytes, whichever block that is.
#[test]
fn the_tape_reports_the_largest_block() {
    let Some(_) = Toolchain::here() else { return };
    let far = |(x, ()): (Var, ())| {
        let halved = |x: Var| while_loop(|x: Var| x.gt(1.0), |x: Var| x.sin() * 0.1 + 0.8 * x, x);
        Stacked(grad(halved)(x))
    };
    let folder = Scratch::new().unwrap();
    let object = jit(far).object_rows((1.0, ()), "far").unwrap();
    assert!(object.uses_arena() && object.block_rows().is_some_and(|rows| rows.get() <= 64));
    object.save(folder.path()).unwrap();
    let main = r#"
#include "far.h"
#include <stdio.h>

static _Alignas(8) char memory[1 << 20];

int main(void) {
    static double x[128], y[128];
    _Alignas(TAPELOOM_ALIGNMENT) char workspace[FAR_WORKSPACE_BYTES + 1];
    size_t bytes[3];
    for (int first = 0; first < 3; first++) {
        for (int i = 0; i < 128; i++)
            x[i] = first < 2 && i / 64 == first ? 1e9 : 2;
        tl_arena tape = {memory, sizeof memory, 0, 0};
        if (far(128, x, y, workspace, &tape) || tape.used != tape.needed)
            return 1;
        bytes[first] = tape.used;
    }
    printf("%d %d\n", bytes[0] == bytes[1], bytes[2] < bytes[1]);
    return 0;
}
"#;
    std::fs::write(folder.path().join("main.c"), main).unwrap();
    let build = "cc -std=c11 -Wall -Werror main.c far.o -lm -o main && ./main";
    let output = succeeds(Command::new("sh").args(["-c", build]).current_dir(folder.path()));
    assert_eq!(output, "1 1\n");
}

/// If the memory of 64 rows exceeds the cache, the blocks must be smaller.
#[test]
fn blocks_fit_in_the_cache() {
    let f = jit(|(x, w): (Var, Var)| Summed(grad(|w: Var| (x * w).exp().sort(0).sum())(w)));
    let rows = |n: usize| {
        let zeros = Tensor::zeros(&[n], Dtype::F64).unwrap();
        f.object_rows((&zeros, &zeros), "f").unwrap().block_rows().unwrap().get()
    };
    assert_eq!([rows(10), rows(100_000)], [64, 8]);
    let between = rows(2_000);
    assert!(between.is_power_of_two() && (8..64).contains(&between), "{between}");
}

/// The gradient of a sum must not hold gradients of single rows, each of which has the size of the network's weights.
#[test]
fn gradients_of_sums_need_less_memory() {
    let loss = |(v, w): (Var, Var), x: Var| x.dot(v).tanh().dot(w).square().sum();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, Dtype::F64).unwrap();
    let weights = (zeros(&[12, 24]), zeros(&[24, 16]));
    let args = (zeros(&[12]), &weights);
    let sums = jit(move |(x, p): (Var, (Var, Var))| Summed(value_and_grad(move |p| loss(p, x))(p)));
    let sums = sums.object_rows(&args, "sums").unwrap();
    let gradient = jit(move |(x, p): (Var, (Var, Var))| Summed(loss(p, x)));
    let gradient = gradient.object_rows_value_and_grad(&args, "gradient").unwrap();
    assert_eq!(sums.results(), gradient.results());
    let bytes = [&gradient, &sums].map(Object::workspace_bytes);
    assert!(2 * bytes[0] < bytes[1], "{bytes:?} bytes");
}

#[track_caller]
fn refused(result: Result<Object, tapeloom::Error>, kind: Kind, says: &str) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind);
    let text = error.to_string();
    assert!(text.contains(says) && text.contains("object_rows.rs:"), "{text}");
    text
}

#[test]
fn what_cannot_be_shipped_is_an_error_with_its_line() {
    let line = line!() + 1;
    let large = |x: Var| x.gt(1.0);
    let f = jit(move |(x, ()): (Var, ())| (Stacked(large(x)), Summed((x, large(x)))));
    let text = refused(f.object_rows((0.0, ()), "f"), Kind::Dtype, "`result.1.1` is summed over");
    assert!(text.contains(&format!("object_rows.rs:{line}:")), "{text}");
    let f = jit(|((), w): ((), Var)| Summed(w));
    refused(f.object_rows(((), 0.0), "f"), Kind::Arguments, "whose row has no arrays");
    let f = jit(|(x, w): (Var, Var)| Summed(x.dot(w)));
    refused(f.object_rows(([1.0, 2.0], [1.0]), "f"), Kind::Shape, "`dot`");
    let f = jit(|(x, w): (Var, Var)| Summed(x * w.convert(Dtype::F64)));
    let gradient = f.object_rows_value_and_grad((1.0, 2i64), "f");
    refused(gradient, Kind::NotDifferentiable, "`value_and_grad`");
    let printed = |(x, ()): (Var, ())| {
        debug_print("x", x);
        Stacked(x)
    };
    refused(
        jit(printed).object_rows((0.0, ()), "f"),
        Kind::Target,
        "cannot call the Rust function",
    );
    let f = jit(|(x, ()): (Var, ())| Stacked(x));
    refused(f.object_rows((0.0, ()), "two words"), Kind::Target, "is no name of a function in C");
}

/// Compiles a random function to an object whose number of rows is an argument; `None` if an object cannot contain it.
fn random_case(seed: u64, options: &Options) -> Result<Option<ObjectCase>, Problem> {
    let (n, rows) = (19, NonZeroUsize::new(8).unwrap());
    let mut m = Module::new();
    let Ok(case) = Recipe::draw(seed).program(&mut m) else { return Ok(None) };
    let mut rng = Rng::new(seed);
    let arrays = |types: Vec<tapeloom_ir::Type>| -> Vec<ArrayType> {
        types.iter().filter_map(|ty| ty.as_array().cloned()).collect()
    };
    let (params, results) =
        (arrays(m.function(case.f).param_types()), arrays(m.function(case.f).result_types()));
    let mut per_row: Vec<bool> = params.iter().map(|_| rng.index(3) > 0).collect();
    let Some(first) = per_row.first_mut() else { return Ok(None) };
    *first = true;
    let stacked: Vec<bool> =
        results.iter().map(|ty| ty.dtype == Dtype::Bool || rng.index(2) == 0).collect();

    let leading = |ty: &ArrayType, n| ArrayType::new(ty.dtype, ty.shape.with_leading(n));
    let of = batch(&mut m, case.f, rows.get(), &per_row)?;
    let block = block_of(
        &mut m,
        (&params, &per_row),
        (of.function, &of.batched_out),
        &stacked,
        rows.get(),
    )?;
    let code = tapeloom_backend::Options::default();
    let mut compiled = Vec::new();
    let mut lowered = Vec::new();
    for f in [case.f, block] {
        let f = BEFORE_CODE.observed(&mut m, f, &mut |_| ())?;
        lowered.push(Lowered::of(&m, f, &code, &[])?);
        let program = tapeloom_backend::compile(&m, f, &code)?;
        // Products by the matrix library are summed in another order than in objects, so skip programs with them.
        let text = program.report().program.to_string();
        if text.lines().any(|l| l.contains("contract") && !l.contains("lanes")) {
            return Ok(None);
        }
        compiled.push(program);
    }
    let fields = |of: &str, per_row: &[bool]| {
        let field =
            |(i, per_row): (usize, &bool)| RowField { path: format!("{of}{i}"), per_row: *per_row };
        per_row.iter().enumerate().map(field).collect()
    };
    let interface =
        RowInterface { arguments: fields("x", &per_row), results: fields("y", &stacked) };
    let object = object::compile_rows(&lowered[0], (&lowered[1], rows), &interface, options);
    let object = match object {
        Err(problem) if problem.kind == Kind::Target => return Ok(None),
        object => object?,
    };
    let args: Vec<Tensor> = case
        .args
        .iter()
        .zip(&per_row)
        .map(|(x, per_row)| match per_row {
            true => rng.tensor(&leading(x.ty(), n)),
            false => x.clone(),
        })
        .collect();
    let call = |program: usize, of: &dyn Fn(&Tensor) -> Tensor| {
        let args: Vec<Tensor> =
            args.iter().zip(&per_row).map(|(x, on)| if *on { of(x) } else { x.clone() }).collect();
        compiled[program].call(&args.iter().collect::<Vec<_>>()).unwrap()
    };
    let want = Totals::new(n, stacked, results).of(
        rows.get(),
        |start| call(1, &|x| part(x, start, rows.get())),
        |i| call(0, &|x| one(x, i)),
    );
    Ok(Some(ObjectCase { object, args, want }))
}

/// Makes the function of a block from the batched function of a row: repeats results that are equal for all rows, and sums
/// those that are not stacked.
fn block_of(
    m: &mut Module,
    (params, per_row): (&[ArrayType], &[bool]),
    (batched, batched_out): (FuncId, &[bool]),
    stacked: &[bool],
    rows: usize,
) -> Result<FuncId, Problem> {
    let leading = |ty: &ArrayType| ArrayType::new(ty.dtype, ty.shape.with_leading(rows));
    let mut draft = Draft::new("block");
    let params = params.iter().zip(per_row);
    let params: Vec<Atom> = params
        .map(|(ty, on)| draft.param(if *on { leading(ty) } else { ty.clone() }.into()))
        .collect();
    let types = m.function(batched).result_types();
    let b = Builder::new(m, &mut draft);
    let results = b.emit(Call::inline(batched), &params);
    let mut all = Vec::new();
    for (i, mut y) in results.into_iter().enumerate() {
        if !batched_out[i]
            && let Some(ty) = types[i].as_array()
        {
            let dims = (1..=ty.shape.len()).collect();
            y = b.emit1(Broadcast { shape: ty.shape.with_leading(rows), dims }, &[y]);
        }
        if !stacked[i] {
            y = b.emit1(Reduce { reducer: Reducer::Sum, axes: vec![0] }, &[y]);
        }
        all.push(y);
    }
    draft.finish(m, all)
}

#[test]
fn random_programs_have_the_same_bits() {
    let Some(toolchain) = Toolchain::here() else { return };
    let machines = Machine::here();
    let (mut cases, mut tried) = (Vec::new(), 0);
    for seed in Sweep::ObjectRows.seeds() {
        tried += 1;
        let options = machines[tried % machines.len()].options(&format!("rows_{}", cases.len()));
        cases.extend(random_case(seed, &options).unwrap());
    }
    assert!(cases.len() * 4 > tried, "{} objects of {tried} programs", cases.len());
    if let Err(problem) = check(&toolchain, &cases) {
        panic!("{problem}");
    }
}
