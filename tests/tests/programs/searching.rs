//! Searches in sorted vectors, on every engine, compared with counts over all pairs of element and query. Short vectors
//! are compared elementwise with all queries, longer vectors are bisected. Also the work of a search.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::Target;
use tapeloom::accelerator::Machine;
use tapeloom::prelude::*;
use tapeloom_tests::{Agreement, Elements};

/// Lengths of the sorted vector around the longest one (64) that is compared elementwise with each query, and around
/// powers of two.
const LENGTHS: &[usize] = &[
    0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 100, 127, 128, 129, 200, 1023,
    1024, 1025,
];

/// Returns a sorted vector of `n` elements with ties, both zeros and infinities, and nan at the end.
fn table(n: usize) -> Vec<f64> {
    let mut x: Vec<f64> =
        (0..n).map(|i| ((i * 7919) % n.max(1) / 3) as f64 - (n / 6) as f64).collect();
    for (i, special) in
        [-0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::NAN].iter().enumerate()
    {
        if n > 8 {
            x[i] = *special;
        }
    }
    x.sort_by(|a, b| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())));
    x
}

/// Returns queries for searches in the sorted array `table`: its elements, numbers between elements, numbers beyond
/// both ends, infinities and nan.
fn queries(table: &[f64]) -> Vec<f64> {
    let few = table.iter().step_by(table.len() / 40 + 1);
    let near = few.flat_map(|x| [*x, x - 0.5, x + 0.5]);
    near.chain([0.0, -0.0, 1e300, -1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]).collect()
}

/// Returns the expected result for each query: the number of elements less than the query, and the number of elements
/// not greater.
fn counts(table: &Tensor, x: &Tensor) -> (Vec<i64>, Vec<i64>) {
    let (t, x) = (numbers(table), numbers(x));
    let below = |t: f64, x: f64| t < x || (x.is_nan() && !t.is_nan());
    let count = |x: f64, right: bool| {
        t.iter().filter(|t| if right { !below(x, **t) } else { below(**t, x) }).count() as i64
    };
    (x.iter().map(|x| count(*x, false)).collect(), x.iter().map(|x| count(*x, true)).collect())
}

fn numbers(x: &Tensor) -> Vec<f64> {
    (0..x.elements()).map(|i| x.at(i).to_f64()).collect()
}

/// Returns the sorted vector `x` converted to this dtype; integers leave out infinities and nan.
fn of(dtype: Dtype, x: &[f64]) -> Tensor {
    let x: Tensor = x.iter().copied().filter(|x| dtype.is_float() || x.is_finite()).collect();
    let to = |x: Var| if dtype == Dtype::Bool { x.gt(0.0) } else { x.convert(dtype) };
    run(|x: Var| if dtype == Dtype::F64 { x } else { to(x) }, &x).unwrap()
}

const DTYPES: [Dtype; 7] =
    [Dtype::F64, Dtype::F32, Dtype::I64, Dtype::I32, Dtype::U64, Dtype::U32, Dtype::Bool];

#[test]
fn places_are_counts_of_all_pairs_for_every_length_and_dtype() {
    let both = jit(|(t, x): (Var, Var)| (t.searchsorted(x), t.searchsorted_right(x)));
    for n in LENGTHS {
        let (table, queries) = (table(*n), queries(&table(*n)));
        for dtype in DTYPES {
            let mut table = table.clone();
            if matches!(dtype, Dtype::U64 | Dtype::U32) {
                table.retain(|x| *x >= 0.0);
            }
            let (t, x) = (of(dtype, &table), of(dtype, &queries));
            let (left, right) = both.call((&t, &x)).unwrap();
            let expected = counts(&t, &x);
            assert_eq!(left.to_vec::<i64>().unwrap(), expected.0, "left of {n} {dtype}");
            assert_eq!(right.to_vec::<i64>().unwrap(), expected.1, "right of {n} {dtype}");
        }
    }
}

#[test]
fn engines_agree_on_ascending_and_on_unsorted_vectors() {
    let all = |(t, x): (Var, Var)| {
        (t.searchsorted(x), t.searchsorted_right(x), x.digitize(t), x.is_in(t))
    };
    for n in [0, 8, 9, 64, 65, 130] {
        let sorted = table(n);
        let mut unsorted = sorted.clone();
        unsorted.rotate_left(n / 3);
        for table in [sorted, unsorted] {
            let x: Tensor = queries(&table).into_iter().collect();
            let t: Tensor = table.into_iter().collect();
            let native = jit(all).call((&t, &x)).unwrap();
            let places = native.0.to_vec::<i64>().unwrap();
            assert!(places.iter().all(|i| (0..=n as i64).contains(i)), "{places:?}");
            for engine in [
                jit(all).interpreted(),
                jit(all).on(Target::Interpreter),
                jit(all).on(Target::Accelerator(Machine::cal())),
            ] {
                assert_eq!(engine.call((&t, &x)).unwrap(), native, "{n}");
            }
        }
    }
}

#[test]
fn edges_fall_or_rise() {
    for n in LENGTHS {
        let rising: Vec<f64> = table(*n).into_iter().filter(|x| !x.is_nan()).collect();
        let falling: Vec<f64> = rising.iter().rev().copied().collect();
        let x: Vec<f64> = queries(&rising);
        let place = |edges: &[f64]| {
            let args =
                (x.iter().copied().collect::<Tensor>(), edges.iter().copied().collect::<Tensor>());
            run(|(x, e): (Var, Var)| x.digitize(e), args).unwrap().to_vec::<i64>().unwrap()
        };
        // `digitize` with ascending edges counts the edges not above the element, with descending edges the edges above
        // it. No edge is above nan.
        let count = |holds: &dyn Fn(f64, f64) -> bool| -> Vec<i64> {
            x.iter().map(|x| rising.iter().filter(|e| holds(**e, *x)).count() as i64).collect()
        };
        assert_eq!(place(&rising), count(&|e, x| e <= x || x.is_nan()), "{n} rise");
        if rising.first() < rising.last() {
            assert_eq!(place(&falling), count(&|e, x| e > x), "{n} fall");
            let from_nan = [&[f64::NAN], &falling[..]].concat();
            let above = count(&|e, x| e > x).into_iter().zip(&x);
            let above: Vec<i64> = above.map(|(n, x)| n + i64::from(!x.is_nan())).collect();
            assert_eq!(place(&from_nan), above, "{n} fall from nan");
        }
    }
}

#[test]
fn elements_of_a_set_of_any_size() {
    for n in LENGTHS {
        let x = queries(&table(*n));
        for dtype in DTYPES {
            // A set for `isin` need not be sorted, so shuffle the elements.
            let mut set = table(*n);
            set.reverse();
            set.rotate_left(n / 2);
            if matches!(dtype, Dtype::U64 | Dtype::U32) {
                set.retain(|x| *x >= 0.0);
            }
            let (s, x) = (of(dtype, &set), of(dtype, &x));
            let found = run(|(x, s): (Var, Var)| x.is_in(s), (&x, &s)).unwrap();
            let set = numbers(&s);
            let expected: Vec<bool> = numbers(&x).iter().map(|x| set.contains(x)).collect();
            assert_eq!(found.to_vec::<bool>().unwrap(), expected, "{n} {dtype}");
        }
    }
}

/// A batch of vectors, of queries, or of both must give the same results as single calls.
#[test]
fn batches_are_their_members() {
    for n in [7, 64, 65, 100] {
        let row = |k: usize| -> Vec<f64> { table(n).iter().map(|x| x * (k + 1) as f64).collect() };
        let t = Tensor::from((0..3).flat_map(row).collect::<Vec<_>>()).reshape(&[3, n]).unwrap();
        let x = Tensor::from((0..15).map(|i| 1.5 * i as f64 - 7.0).collect::<Vec<_>>());
        let x = x.reshape(&[3, 5]).unwrap();
        let both = |(t, x): (Var, Var)| (t.searchsorted(x), t.searchsorted_right(x));
        let each = |f: fn(Var, Var, usize) -> (Var, Var)| {
            run(
                |(t, x): (Var, Var)| {
                    let all: Vec<(Var, Var)> = (0..3).map(|k| both(f(t, x, k))).collect();
                    let (l, r): (Vec<Var>, Vec<Var>) = all.into_iter().unzip();
                    (stack(&l, 0), stack(&r, 0))
                },
                (&t, &x),
            )
            .unwrap()
        };
        let got = run(|(t, x): (Var, Var)| vmap(both)((t, x)), (&t, &x)).unwrap();
        assert_eq!(got, each(|t, x, k| (t.index(k), x.index(k))), "both, {n}");
        let got = run(|(t, x): (Var, Var)| vmap(|t: Var| both((t, x)))(t), (&t, &x)).unwrap();
        assert_eq!(got, each(|t, x, k| (t.index(k), x)), "vectors, {n}");
        let got =
            run(|(t, x): (Var, Var)| vmap(|x: Var| both((t.index(1), x)))(x), (&t, &x)).unwrap();
        assert_eq!(got, each(|t, x, k| (t.index(1), x.index(k))), "queries, {n}");
    }
}

/// Interpolation at many points of a polygon, which bisects, must equal interpolation between the two known
/// neighbouring points, and so must derivatives.
#[test]
fn a_polygon_through_many_points_has_the_derivatives_of_its_pieces() {
    let at: Tensor = (0..50).map(|i| 0.37 + 1.9 * i as f64).collect();
    let values = |xp: Var| (0.1 * xp).sin() * xp;
    // The neighbouring points are floor(x) and floor(x) + 1.
    let piece = |x: Var| {
        let (x0, x1) = (x.stop_gradient().floor(), x.stop_gradient().floor() + 1.0);
        values(x0) + (x - x0) * (values(x1) - values(x0))
    };
    let polygon = |x: Var| {
        let xp = arange(100, Dtype::F64);
        interp(x, xp, values(xp))
    };
    let of = |f: &dyn Fn(Var) -> Var| {
        run(|x: Var| value_and_grad(|x: Var| (f(x) * f(x)).sum())(x), &at).unwrap()
    };
    let ((y, dy), (z, dz)) = (of(&polygon), of(&piece));
    Agreement::CLOSE.check_all(&[y, dy], &[z, dz]).unwrap();
    let slopes = |f: &dyn Fn(Var) -> Var| run(|x: Var| jvp(|x: Var| f(x))((x, x)), &at).unwrap();
    let ((y, dy), (z, dz)) = (slopes(&polygon), slopes(&piece));
    Agreement::CLOSE.check_all(&[y, dy], &[z, dz]).unwrap();
    // With respect to the values of the polygon, the derivative at each position has two weights, and their sum is 1.
    let by_value =
        |f: Var| interp(constant(0.5) + arange(99, Dtype::F64), arange(100, Dtype::F64), f);
    let g = run(grad(move |f: Var| by_value(f).sum()), Tensor::full(&[100], 3.0).unwrap()).unwrap();
    let g = g.to_vec::<f64>().unwrap();
    assert_eq!((g[0], g[1], g[98], g[99]), (0.5, 1.0, 1.0, 0.5));
}

/// Returns the counted work of `f` for a table and queries of these lengths.
fn work(f: &dyn Fn(Var, Var) -> Var, table: usize, queries: usize) -> u64 {
    let x: Tensor = (0..queries).map(|i| i as f64).collect();
    let t: Tensor = (0..table).map(|i| i as f64).collect();
    jit(|(t, x): (Var, Var)| f(t, x)).explain((&t, &x)).unwrap().work().unwrap()
}

/// With four times the elements in the sorted array and four times the queries, the work of a search must grow by
/// little more than four times, not sixteen times.
#[test]
fn searches_are_no_comparison_of_all_pairs() {
    let search = |t: Var, x: Var| t.searchsorted(x);
    let in_expression = |t: Var, x: Var| (0.5 * t + t).searchsorted_right(x * 2.0);
    let in_sorted = |t: Var, x: Var| t.sort(0).searchsorted(x);
    let bins = |t: Var, x: Var| x.digitize(t);
    let set = |t: Var, x: Var| x.is_in(t);
    let polygon = |t: Var, x: Var| interp(x, t, t * t);
    let gradient = |t: Var, x: Var| grad(|t: Var| interp(x, t * 2.0, t * t).sum())(t);
    type Search<'a> = (&'a str, &'a dyn Fn(Var, Var) -> Var);
    let cases: [Search<'_>; 7] = [
        ("searchsorted", &search),
        ("in an expression", &in_expression),
        ("in a sorted vector", &in_sorted),
        ("digitize", &bins),
        ("is_in", &set),
        ("interp", &polygon),
        ("the gradient of interp", &gradient),
    ];
    for (name, f) in cases {
        let (some, many) = (work(f, 500, 500), work(f, 2000, 2000));
        assert!(many <= 6 * some, "{name}: {some} for 500, {many} for 2000");
    }
    // Each further query must cost one bisection, of at most 12 steps with at most 12 operations.
    let (few, more) = (work(&search, 4000, 100), work(&search, 4000, 200));
    assert!(more - few <= 100 * 12 * 12, "{few} for 100 queries, {more} for 200");
}
