//! Sixty small programs, each with its own closures: the time of rustc for this file is the time that users wait.
//! `tests/src/bin/compile_time.rs` compiles it and reports the time. Run, each program compares one number.

use tapeloom::prelude::*;

/// Defines a function per program, and a `main` that runs all of them.
macro_rules! programs {
    ($($name:ident: $body:expr, $want:expr;)*) => {
        $(fn $name() -> Result<f64, tapeloom::Error> {
            $body
        })*

        fn main() {
            let mut wrong = 0;
            $(match $name() {
                Ok(got) if (got - $want as f64).abs() <= 1e-6 * (1.0 + got.abs()) => {}
                other => {
                    eprintln!("{}: {other:?}", stringify!($name));
                    wrong += 1;
                }
            })*
            std::process::exit(wrong);
        }
    };
}

/// Returns the sum of the elements as a number.
fn total(x: Tensor) -> Result<f64, tapeloom::Error> {
    Ok(x.to_vec::<f64>()?.iter().sum())
}

#[derive(Tree, Clone)]
struct Line<T> {
    slope: T,
    offset: T,
}

programs! {
    exponential: total(run(|x: Var| x.exp(), 0.0)?), 1;
    square: total(run(|x: Var| x * x, [1.0, 2.0])?), 5;
    product: total(run(|(x, y): (Var, Var)| x * y + 1.0, (2.0, 3.0))?), 7;
    softmax: total(run(|x: Var| x.exp() / x.exp().sum(), [1.0, 2.0])?), 1;
    norm: total(run(|x: Var| (x * x).sum().sqrt(), [3.0, 4.0])?), 5;
    line: total(run(|(l, x): (Line<Var>, Var)| l.slope * x + l.offset,
        (Line { slope: 2.0, offset: 1.0 }, 3.0))?), 7;
    polynomial: total(run(|x: Var| 1.0 + x * (2.0 + x * 3.0), 2.0)?), 17;
    largest: total(run(|x: Var| x.max() - x.min(), [1.0, 4.0, 2.0])?), 3;
    matrix: total(run(|(a, x): (Var, Var)| a.dot(x), ([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]))?), 10;
    chosen: total(run(|x: Var| select(x.gt(0.0), x, -0.5 * x), [2.0, -2.0])?), 3;

    slope: total(jit(grad(|x: Var| x.sin())).call(0.0)?), 1;
    slope_of_sum: total(jit(grad(|x: Var| (x * x).sum())).call([1.0, 2.0])?), 6;
    slope_of_log: total(run(grad(|x: Var| x.ln()), 2.0)?), 0.5;
    gradient: {
        let (dx, dy) = jit(grad(|(x, y): (Var, Var)| x * y * y)).call((2.0, 3.0))?;
        Ok(total(dx)? + total(dy)?)
    }, 21;
    gradient_of_line: {
        let loss = |l: Line<Var>| (l.slope * 2.0 + l.offset - 1.0).powi(2);
        let g = jit(grad(loss)).call(Line { slope: 1.0, offset: 1.0 })?;
        Ok(total(g.slope)? + total(g.offset)?)
    }, 12;
    value_and_slope: {
        let (y, dy) = jit(value_and_grad(|x: Var| x.powi(3))).call(2.0)?;
        Ok(total(y)? + total(dy)?)
    }, 20;
    beside: {
        let (dx, next) = jit(grad_aux(|x: Var| (x.square(), x + 1.0))).call(3.0)?;
        Ok(total(dx)? + total(next)?)
    }, 10;
    second: total(jit(grad(grad(|x: Var| x.powi(4)))).call(1.0)?), 12;
    third: total(jit(grad(grad(grad(|x: Var| x.powi(5))))).call(2.0)?), 240;
    slope_along: {
        let (y, dy) = jit(|x: Var| jvp(|x: Var| x * x)((x, x.ones_like()))).call(3.0)?;
        Ok(total(y)? + total(dy)?)
    }, 15;
    pulled: {
        let f = jit(|x: Var| {
            let (y, pull) = vjp(|x: Var| x * x)(x);
            (y, pull(x.ones_like()))
        });
        let (y, dy) = f.call([1.0, 2.0])?;
        Ok(total(y)? + total(dy)?)
    }, 11;
    pushed: total(jit(|x: Var| linearize(|x: Var| x.sin())(x).1(x.ones_like())).call(0.0)?), 1;
    transposed: total(jit(|x: Var| linear_transpose(|v: Var| (3.0 * v).sum(), x)(full([], 2.0))).call([1.0, 1.0])?), 12;

    columns: total(jit(jacfwd(|x: Var| x * x.sum())).call([1.0, 2.0])?), 12;
    rows: total(jit(jacrev(|x: Var| x * x.sum())).call([1.0, 2.0])?), 12;
    curvature: total(jit(hessian(|x: Var| x.powi(3).sum())).call([1.0, 2.0])?), 18;
    curvature_of_two: total(jit(hessian(|(x, y): (Var, Var)| x * x * y)).call((1.0, 2.0))?), 8;
    curvature_along: total(jit(hvp(|x: Var| x.powi(3).sum())).call(([1.0, 2.0], [1.0, 1.0]))?), 18;
    slope_of_curvature: total(jit(jacrev(hessian(|x: Var| x.powi(3).sum()))).call([1.0, 2.0])?), 12;
    batch_of_curvatures: total(jit(vmap(hessian(|x: Var| x.powi(3).sum()))).call([[1.0], [2.0]])?), 18;

    batch: total(jit(vmap(|x: Var| x.sin())).call([0.0, 0.0])?), 0;
    batch_of_sums: total(jit(vmap(|x: Var| x.sum() * x)).call([[1.0, 2.0], [3.0, 4.0]])?), 58;
    batch_of_slopes: total(jit(vmap(grad(|x: Var| x.powi(3)))).call([1.0, 2.0])?), 15;
    slope_of_batch: total(jit(grad(|x: Var| vmap(|x: Var| x * x)(x).sum())).call([1.0, 2.0])?), 6;
    batch_of_two: total(jit(vmap(|(x, y): (Var, Var)| x * y)).call(([1.0, 2.0], [3.0, 4.0]))?), 11;
    batch_on_axes: total(jit(vmap_axes((1, None), 0, |(x, w): (Var, Var)| (x * w).sum()))
        .call(([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]))?), 73;
    batch_of_batches: total(jit(vmap(vmap(|x: Var| x + 1.0))).call([[1.0, 2.0], [3.0, 4.0]])?), 14;
    all_pairs: total(jit(|x: Var| vmap(|a: Var| vmap(|b: Var| a * b)(x))(x)).call([1.0, 2.0])?), 9;

    counted: total(jit(|x: Var| fori_loop(4, |(_, y): (Var, Var)| y * 2.0, x)).call(1.0)?), 16;
    counted_slope: total(jit(grad(|x: Var| fori_loop(3, |(_, y): (Var, Var)| y * x, x))).call(2.0)?), 32;
    counted_pair: {
        let swing = |(_, (x, v)): (Var, (Var, Var))| (x + v, v - x);
        let (x, v) = jit(move |x: Var| fori_loop(2, swing, (x, x))).call(1.0)?;
        Ok(total(x)? + total(v)?)
    }, 0;
    conditional: total(jit(|x: Var| while_loop(|x: Var| x.lt(100.0), |x: Var| x * x, x)).call(3.0)?), 6561;
    conditional_slope: total(jit(grad(|x: Var| while_loop(|x: Var| x.lt(9.0), |x: Var| x * x, x))).call(2.0)?), 32;
    scanned: {
        let (last, all) = jit(|x: Var| scan(|(s, x): (Var, Var)| (s + x, s), x.sum(), x)).call([1.0, 2.0])?;
        Ok(total(last)? + total(all)?)
    }, 13;
    scanned_back: total(jit(|x: Var| scan_reverse(|(s, x): (Var, Var)| (s * x, s), x.sum(), x).0).call([1.0, 2.0])?), 6;
    mapped: total(jit(|x: Var| map(|row: Var| row.dot(row), x)).call([[1.0, 2.0], [3.0, 4.0]])?), 30;
    prefixes: total(jit(|x: Var| associative_scan(|(a, b): (Var, Var)| a * b, x)).call([1.0, 2.0, 3.0])?), 9;
    branch: total(jit(|x: Var| cond(x.gt(0.0), |x: Var| x.sqrt(), |x: Var| -x, x)).call(4.0)?), 2;
    branch_slope: total(jit(grad(|x: Var| cond(x.gt(0.0), |x: Var| x * x, |x: Var| -x, x))).call(4.0)?), 8;
    batch_of_branches: total(jit(vmap(|x: Var| cond(x.gt(0.0), |x: Var| x, |x: Var| -x, x))).call([1.0, -2.0])?), 3;
    switched: total(jit(|(i, x): (Var, Var)| switch(i, [&|x: Var| x.sin(), &|x| x.cos(), &|x| x * x], x))
        .call((2i64, 3.0))?), 9;
    written: total(jit(|x: Var| {
        let r = Ref::new(x);
        fori_loop(3, |(i, ()): (Var, ())| r.mul(i.convert(Dtype::F64) + 1.0), ());
        r.get()
    }).call(2.0)?), 12;

    ruled: total(jit(grad(custom_jvp(|x: Var| x.exp(), |x: Var, dx: Var| (x.exp(), 2.0 * dx * x.exp())))).call(0.0)?), 2;
    clipped: total(jit(grad(|x: Var| 10.0 * custom_vjp(|x: Var| x, |x: Var| (x, ()), |(), ct: Var| ct.clamp(-1.0, 1.0))(x)))
        .call(2.0)?), 1;
    ruled_twice: total(jit(grad(custom_rules(
        |x: Var| x.sin(),
        |x: Var, dx: Var| (x.sin(), dx * x.cos()),
        |x: Var| (x.sin(), x),
        |x: Var, ct: Var| 3.0 * ct * x.cos(),
    ))).call(0.0)?), 3;
    checkpointed: total(jit(grad(|x: Var| checkpoint(|x: Var| x.sin().exp(), Policy::Nothing)(x).sum())).call([0.0, 0.0])?), 2;
    outlined: total(jit(|x: Var| {
        let step = outline(|x: Var| x * 0.5);
        step(step(step(x)))
    }).call(8.0)?), 1;
    fixed: total(jit(grad(|a: Var| fixed_point(|x: Var| 0.5 * x + a, a))).call(1.0)?), 2;
    solved: total(run(|(a, b): (Var, Var)| custom_linear_solve(|x: Var| a * x, b, |a, b| b / a(b.ones_like())),
        (2.0, 8.0))?), 4;
    recorded: {
        let tape = record(|x: Var| if x.item::<f64>() > 0.0 { x * x } else { -x }, 3.0)?;
        total(tape.pull(1.0)?)
    }, 6;
}
