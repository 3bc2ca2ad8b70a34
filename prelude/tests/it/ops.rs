//! Operations of `Var`: values compared with numbers computed by hand, derivatives with finite differences.
#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;

/// Returns the elements of the compiled result, after comparing the result with the interpreter's.
#[track_caller]
fn eval<A: Tree<Var>>(f: impl Fn(A) -> Var, args: impl Args<A>) -> Vec<f64> {
    let native = jit(&f).call(&args).unwrap();
    let reference = jit(&f).interpreted().call(&args).unwrap();
    assert_eq!(native.shape(), reference.shape());
    let numbers = |t: &Tensor| t.numbers().collect::<Vec<f64>>();
    let (native, reference) = (numbers(&native), numbers(&reference));
    for (x, y) in native.iter().zip(&reference) {
        assert!((x - y).abs() <= 1e-12 * y.abs().max(1.0) || x.to_bits() == y.to_bits());
    }
    native
}

#[track_caller]
fn near(got: Vec<f64>, want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{got:?} instead of {want:?}");
    for (x, y) in got.iter().zip(want) {
        assert!((x - y).abs() <= 1e-12 * y.abs().max(1.0), "{got:?} instead of {want:?}");
    }
}

const M: [[f64; 3]; 2] = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];

#[test]
fn broadcasting_follows_numpy() {
    near(
        eval(|(x, y): (Var, Var)| x + y, (M, [10.0, 20.0, 30.0])),
        &[11., 22., 33., 14., 25., 36.],
    );
    near(
        eval(|(x, y): (Var, Var)| x * y.expand_dims(1), (M, [1.0, 10.0])),
        &[1., 2., 3., 40., 50., 60.],
    );
    near(eval(|(x, y): (Var, Var)| x.outer(y), ([1.0, 2.0], [3.0, 4.0])), &[3., 4., 6., 8.]);
    near(eval(|x: Var| x.expand_dims(0) - x.expand_dims(-1), [1.0, 3.0]), &[0., 2., -2., 0.]);
    check_grads(|(x, y): (Var, Var)| (x * y.expand_dims(1)).sin(), (M, [1.0, 10.0]), 2).unwrap();
}

#[test]
fn reductions_over_some_axes() {
    near(eval(|x: Var| x.sum_axis(0), M), &[5., 7., 9.]);
    near(eval(|x: Var| x.sum_axis([-1]), M), &[6., 15.]);
    near(eval(|x: Var| x.prod(), M), &[720.]);
    near(eval(|x: Var| x.max_axis(1) - x.min_axis(1), M), &[2., 2.]);
    near(eval(|x: Var| x.mean_axis(..), M), &[3.5]);
    near(eval(|x: Var| x.var_axis(1), M), &[2. / 3., 2. / 3.]);
    near(eval(|x: Var| x.std_axis(0), M), &[1.5, 1.5, 1.5]);
    near(eval(|x: Var| x / x.norm_keepdims(1), [[3.0, 4.0]]), &[0.6, 0.8]);
    near(eval(|x: Var| x.gt(2.0).count_true_axis(1), M), &[1., 3.]);
    near(eval(|x: Var| x.gt(2.0).all_axis(1).convert(Dtype::F64), M), &[0., 1.]);
    near(eval(|x: Var| x.gt(9.0).any().convert(Dtype::F64), M), &[0.]);
    near(eval(|x: Var| x.logsumexp(), [1000.0, 1000.0]), &[1000.0 + 2f64.ln()]);
    assert_eq!(eval(|x: Var| x.logsumexp(), [f64::NEG_INFINITY; 2]), [f64::NEG_INFINITY]);
    for f in
        [Var::sum, Var::prod, Var::mean, Var::var, Var::std, Var::norm, Var::logsumexp, Var::max]
    {
        check_grads(f, M, 2).unwrap();
    }
}

#[test]
fn movement() {
    near(eval(|x: Var| x.t(), M), &[1., 4., 2., 5., 3., 6.]);
    near(eval(|x: Var| x.reshape([1, 2, 3]).permute([2, 0, 1]), M), &[1., 4., 2., 5., 3., 6.]);
    near(eval(|x: Var| x.swap_axes(0, -1).move_axis(1, 0), M), &[1., 2., 3., 4., 5., 6.]);
    near(eval(|x: Var| x.flip(1), M), &[3., 2., 1., 6., 5., 4.]);
    near(eval(|x: Var| x.roll(1, 1), M), &[3., 1., 2., 6., 4., 5.]);
    near(eval(|x: Var| x.roll(-1, 0), M), &[4., 5., 6., 1., 2., 3.]);
    near(eval(|x: Var| x.tile([2, 1]).sum_axis(1), M), &[6., 15., 6., 15.]);
    near(eval(|x: Var| x.tile([2, 1, 1]).sum_axis([1, 2]), M), &[21., 21.]);
    near(eval(|x: Var| x.repeat(2, 0).sum_axis(1), M), &[6., 6., 15., 15.]);
    near(eval(|x: Var| x.pad(&[(1, -1)], 9.0), [1.0, 2.0]), &[9., 1.]);
    near(eval(|x: Var| concat(&x.split(3, 1), 0).flatten(), M), &[1., 4., 2., 5., 3., 6.]);
    near(eval(|x: Var| stack(&x.unstack(0), 1), M), &[1., 4., 2., 5., 3., 6.]);
    near(eval(|x: Var| x.expand_dims(1).squeeze(1), M), &[1., 2., 3., 4., 5., 6.]);
    near(eval(|x: Var| x.tril(0), M), &[1., 0., 0., 4., 5., 0.]);
    near(eval(|x: Var| x.triu(1), M), &[0., 2., 3., 0., 0., 6.]);
    near(eval(|()| linspace(1.0, 3.0, 5, Dtype::F64), ()), &[1., 1.5, 2., 2.5, 3.]);
    check_grads(|x: Var| x.roll(1, 1).tile([2, 2]).pad(&[(1, 0), (0, -1)], 1.0).powi(2), M, 2)
        .unwrap();
}

/// The last of `n` numbers from a start to an end must be exactly the end, although rounding makes
/// `(n - 1) * (1 / (n - 1))` less than 1 for some n, of which 50 is the smallest.
#[test]
fn ranges_end_at_the_given_end() {
    for n in [2, 3, 50, 99, 104] {
        let x = run(|()| linspace(0.0, 1.0, n, Dtype::F64), ()).unwrap().to_vec::<f64>().unwrap();
        assert_eq!((x[0], x[n - 1], x.len()), (0.0, 1.0, n));
    }
    assert_eq!(eval(|()| linspace(0.3, 1.0, 1, Dtype::F64), ()), [0.3]);
    assert!(eval(|()| linspace(0.3, 1.0, 0, Dtype::F64), ()).is_empty());
}

/// A u64 above the range of i64 is beyond the end of every axis; it does not count from the end.
#[test]
fn unsigned_integers_never_count_from_the_end() {
    const X: [f64; 4] = [10.0, 11.0, 12.0, 13.0];
    for i in [4u64, 1 << 63, u64::MAX - 4, u64::MAX - 1, u64::MAX] {
        assert_eq!(eval(|(x, i): (Var, Var)| x.index(i), (X, i)), [13.0], "{i}");
        assert_eq!(eval(|(x, i): (Var, Var)| x.index_axis(0, i), (X, i)), [13.0], "{i}");
        assert_eq!(eval(|(x, i): (Var, Var)| x.at(i).get(), (X, i)), [13.0], "{i}");
        assert_eq!(eval(|(x, i): (Var, Var)| x.take(i, 0), (X, i)), [13.0], "{i}");
        assert_eq!(eval(|(x, i): (Var, Var)| x.at(i).set(0.0), (X, i)), X, "{i}");
        assert_eq!(eval(|(x, i): (Var, Var)| x.at(i).add(1.0), (X, i)), X, "{i}");
        let pair = |(x, i): (Var, Var)| x.reshape([2, 2]).index((0, i));
        assert_eq!(eval(pair, (X, i)), [11.0], "{i}");
        let slice = |(x, i): (Var, Var)| x.dynamic_slice(&[i], [2]);
        assert_eq!(eval(slice, (X, i)), [12.0, 13.0], "{i}");
        assert_eq!(eval(|(x, i): (Var, Var)| x.ldexp(i), ([1.0], i.max(5000))), [f64::INFINITY]);
    }
    let last = |(x, i): (Var, Var)| x.index(i);
    assert_eq!(eval(last, (X, u32::MAX)), [13.0]);
    assert_eq!(eval(last, (X, -1i32)), [13.0]);
}

#[test]
fn indexing() {
    near(eval(|x: Var| x.index((-1, 0)), M), &[4.]);
    near(eval(|x: Var| x.index_axis(1, -1), M), &[3., 6.]);
    near(eval(|x: Var| x.slice([0..1, 1..3]), M), &[2., 3.]);
    near(eval(|x: Var| x.slice_step(1, .., 2), M), &[1., 3., 4., 6.]);
    near(eval(|(x, i): (Var, Var)| x.index((i, 1)), (M, [1i64, -2])), &[5., 2.]);
    near(eval(|(x, i): (Var, Var)| x.take(i, 1), (M, [[2i64], [-3]])), &[3., 1., 6., 4.]);
    near(eval(|(x, i): (Var, Var)| x.dynamic_slice(&[i, i], [1, 2]), (M, 1i64)), &[5., 6.]);
    near(
        eval(|x: Var| x.dynamic_update_slice(zeros([1, 2], Dtype::F64), &[1, 0]), M),
        &[1., 2., 3., 0., 0., 6.],
    );
    near(eval(|x: Var| x.at((0, 1)).set(7.0).at(1).mul(10.0), M), &[1., 7., 3., 40., 50., 60.]);
    near(eval(|x: Var| x.at(1).max(5.0).at(0).min(2.0), M), &[1., 2., 2., 5., 5., 6.]);
    near(eval(|(x, i): (Var, Var)| x.at(i).add(1.0), ([0.0; 3], [2i64, 2, 7])), &[0., 0., 2.]);
    near(eval(|(x, i): (Var, Var)| x.at(i).get(), ([1.0, 2.0], 9i64)), &[2.]);
    near(eval(|x: Var| x.argmax(1) * 10 + x.argmin(1), M), &[20., 20.]);
    let i = Tensor::from([2i64, 0]);
    check_grads(|x: Var| x.take(constant(&i), 1).sin(), M, 2).unwrap();
    let j = Tensor::from([[2i64], [0]]);
    check_grads(|x: Var| x.take_along_axis(constant(&j), 1).sin(), M, 2).unwrap();
    check_grads(
        |x: Var| x.at((constant(&i), 1)).add(x.index(0)),
        [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        2,
    )
    .unwrap();
    check_grads(
        |x: Var| x.at((0, 1)).set(x.index((2, 1)).square()),
        [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        2,
    )
    .unwrap();
}

#[test]
fn products() {
    let (a, b) = (M, [[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]);
    near(eval(|(a, b): (Var, Var)| a.matmul(b), (a, b)), &[7., 8., 16., 17.]);
    near(eval(|(a, b): (Var, Var)| a.dot(b), (a, b)), &[7., 8., 16., 17.]);
    near(eval(|(a, b): (Var, Var)| a.tensordot(b, &[(0, 1), (1, 0)]), (a, b)), &[24.]);
    near(eval(|a: Var| a.matmul(a.t()).trace(), a), &[91.]);
    near(eval(|a: Var| a.matmul(a.t()).diagonal(), a), &[14., 77.]);
    near(eval(|a: Var| a.index(0).matmul(a.t()), a), &[14., 32.]);
    // The function must work for a batch of one operand, and for a batch of both.
    let batched = |f: fn(Var, Var) -> Var| move |a: Var| f(stack(&[a, 2.0 * a], 0), a.t());
    near(eval(batched(|x, y| x.matmul(y).sum_axis([1, 2])), a), &[155., 310.]);
    near(eval(batched(|x, y| y.matmul(x).sum_axis([1, 2])), a), &[261., 522.]);
    near(eval(batched(|x, y| x.matmul(stack(&[y], 0)).sum_axis([1, 2])), a), &[155., 310.]);
    near(
        eval(batched(|x, _| x.index((0, 0)).matmul(x.permute([0, 2, 1])).sum_axis(1)), a),
        &[46., 92.],
    );
    check_grads(|(a, b): (Var, Var)| a.matmul(b).sin(), (a, b), 2).unwrap();
    check_grads(batched(|x, y| x.matmul(y)), a, 2).unwrap();
}

#[test]
fn einstein_sums() {
    near(eval(|a: Var| einsum("ij->ji", &[a]), M), &[1., 4., 2., 5., 3., 6.]);
    near(eval(|a: Var| einsum("ij->", &[a]), M), &[21.]);
    near(eval(|a: Var| einsum("ba", &[a]), M), &[1., 4., 2., 5., 3., 6.]);
    near(eval(|a: Var| einsum("ij,kj", &[a, a]), M), &[14., 32., 32., 77.]);
    near(eval(|a: Var| einsum("ij,ij->i", &[a, a]), M), &[14., 77.]);
    near(eval(|a: Var| einsum("i,j->ij", &[a, a]), [1.0, 2.0]), &[1., 2., 2., 4.]);
    near(eval(|a: Var| einsum("ij,jk,kl->il", &[a, a.t(), a]).sum_axis(0), M), &[482., 637., 792.]);
    near(eval(|a: Var| einsum("ii->i", &[a.matmul(a.t())]), M), &[14., 77.]);
    near(eval(|a: Var| einsum("ii", &[a.matmul(a.t())]), M), &[91.]);
    near(eval(|a: Var| einsum("...j,...j->...", &[a, a]), M), &[14., 77.]);
    near(eval(|a: Var| einsum("...j,j->...", &[a, a.index(0)]), M), &[14., 32.]);
    near(eval(|a: Var| einsum("bi,bj->bij", &[a, a]).sum_axis([1, 2]), M), &[36., 225.]);
    check_grads(|a: Var| einsum("ij,kj,k->i", &[a, a, a.sum_axis(1)]), M, 2).unwrap();
}

#[test]
fn activations() {
    let x = [-2.0, -0.5, 0.3, 1.7];
    near(eval(|x: Var| x.softplus(), x), &x.map(|x: f64| x.exp().ln_1p()));
    near(eval(|x: Var| x.log_sigmoid(), x), &x.map(|x: f64| -(-x).exp().ln_1p()));
    near(eval(|x: Var| x.silu(), x), &x.map(|x: f64| x / (1.0 + (-x).exp())));
    near(
        eval(|x: Var| x.elu_with(1.5), x),
        &x.map(|x: f64| if x > 0.0 { x } else { 1.5 * x.exp_m1() }),
    );
    near(eval(|x: Var| x.leaky_relu(0.1), x), &[-0.2, -0.05, 0.3, 1.7]);
    near(eval(|x: Var| x.softmax(0).sum(), x), &[1.0]);
    near(eval(|x: Var| x.log_softmax(0) - x.softmax(0).ln(), x), &[0.0; 4]);
    near(eval(|x: Var| x.layer_norm(0, 0.0).mean(), x), &[0.0]);
    near(eval(|x: Var| x.layer_norm(0, 0.0).var(), x), &[1.0]);
    near(eval(|x: Var| x.logaddexp(1.0), x), &x.map(|x: f64| (x.exp() + 1f64.exp()).ln()));
    // `gelu` is x Φ(x) with the normal distribution function Φ; `gelu_tanh` approximates it and must differ slightly.
    near(eval(|x: Var| x.gelu(), 1.0), &[0.841_344_746_068_542_9]);
    near(eval(|x: Var| x.gelu_tanh(), 1.0), &[0.841_191_990_608_276]);
    for f in [Var::softplus, Var::log_sigmoid, Var::silu, Var::gelu, Var::gelu_tanh, Var::relu] {
        check_grads(f, x, 3).unwrap();
    }
    check_grads(|x: Var| x.elu_with(1.5), x, 3).unwrap();
    check_grads(|x: Var| x.softmax(0), x, 3).unwrap();
    check_grads(|x: Var| x.log_softmax(0), x, 3).unwrap();
    check_grads(|x: Var| x.layer_norm(0, 1e-5), x, 2).unwrap();
}

/// Where formulas could overflow or divide by zero, values and derivatives are finite.
#[test]
fn activations_at_the_edge() {
    let far = [-1000.0, 0.0, 1000.0];
    let slope = |f: fn(Var) -> Var| eval(vmap(grad(f)), far);
    near(slope(Var::softplus), &[0.0, 0.5, 1.0]);
    near(slope(Var::log_sigmoid), &[1.0, 0.5, 0.0]);
    near(slope(Var::silu), &[0.0, 0.5, 1.0]);
    near(slope(Var::relu), &[0.0, 0.0, 1.0]);
    near(slope(|x| x.elu()), &[0.0, 1.0, 1.0]);
    near(eval(vmap(grad(grad(Var::softplus))), far), &[0.0, 0.25, 0.0]);
    let inf = f64::INFINITY;
    assert_eq!(eval(|x: Var| x.logaddexp(inf), inf), [inf]);
    assert_eq!(eval(|x: Var| x.logaddexp(-inf), -inf), [-inf]);
    assert!(eval(|x: Var| x.relu(), f64::NAN)[0].is_nan());
}

#[test]
fn integers_and_bits() {
    assert_eq!(eval(|x: Var| (x % 4) + (x / 4) * 10, [-7i64, 7]), [-13.0, 13.0]);
    assert_eq!(eval(|x: Var| ((x << 2) | 1) ^ (x >> 1), [5i64, -4]), [23.0, 15.0]);
    assert_eq!(eval(|x: Var| x.gt(1) & !x.gt(2), [1i64, 2, 3]), [0.0, 1.0, 0.0]);
}

#[test]
fn a_product_scattered_into_one_place_has_its_third_derivative() {
    // f(u) = 2 u0 u1 u2; its third derivative must be right even if elements of u are zero.
    let f = |u: Var| constant([2.0]).at(constant([0i64, 0, 0])).mul(u).sum();
    let unit = |i: usize| {
        let mut e = [0.0; 3];
        e[i] = 1.0;
        constant(e)
    };
    let third = move |u: Var| {
        let first = move |u: Var| jvp(f)((u, unit(0))).1;
        let second = move |u: Var| jvp(first)((u, unit(1))).1;
        jvp(second)((u, unit(2))).1
    };
    let backward = move |u: Var| hessian(move |u: Var| jvp(f)((u, unit(2))).1)(u);
    let u = [[0.0, 0.0, 5.0], [0.0, 5.0, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 0.0], [1.0, 2.0, 4.0]];
    near(eval(vmap(third), u), &[2.0; 5]);
    near(eval(vmap(backward), u), &[0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0].repeat(5));
}

#[test]
fn a_product_scattered_into_one_place_has_no_wrong_fourth_derivative() {
    // f(u) = u0 u1 u2 u3 has the derivative 1 with respect to all four. The result must be 1, or obviously invalid.
    let f = |u: Var| constant([1.0]).at(constant([0i64; 4])).mul(u).sum();
    let along = |i: usize| constant([0, 1, 2, 3].map(|k| f64::from(k == i)));
    let fourth = move |u: Var| {
        let first = move |u: Var| jvp(f)((u, along(3))).1;
        let second = move |u: Var| jvp(first)((u, along(2))).1;
        let third = move |u: Var| jvp(second)((u, along(1))).1;
        jvp(third)((u, along(0))).1
    };
    let known = [[1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 3.0, 4.0], [0.0, 2.0, 0.0, 4.0]];
    near(eval(vmap(fourth), known), &[1.0; 3]);
    let unknown = eval(vmap(fourth), [[0.0, 0.0, 0.0, 5.0], [0.0; 4]]);
    assert!(unknown.iter().all(|y| !y.is_finite()), "{unknown:?}");
}

/// If a product has zero factors, and the product of the other factors overflows, derivatives may be nan, but never a
/// wrong number. If the product of the other factors is finite, derivatives must be right.
#[test]
fn overflow_beside_zeros_makes_derivatives_of_products_nan() {
    let total: fn(Var) -> Var = |x| x.prod();
    let last: fn(Var) -> Var = |x| x.cumprod(0).index(-1);
    let forward = |f: fn(Var) -> Var| move |x: Var| jvp(f)((x, x.ones_like())).1.flatten();
    let reverse = |f: fn(Var) -> Var| move |x: Var| grad(f)(x).flatten();
    for (scale, right) in [(1e7, true), (1e200, false)] {
        let x = [0.0, 0.0, scale, scale];
        for f in [total, last] {
            let slopes = [run(forward(f), x).unwrap(), run(reverse(f), x).unwrap()];
            for slope in slopes.iter().flat_map(|y| y.to_vec::<f64>().unwrap()) {
                // Two of the four factors are zero, so every product of three factors is zero, and so is each
                // derivative.
                assert!(slope == 0.0 || slope.is_nan() && !right, "{slope} at {x:?}");
            }
        }
        let some = run(reverse(last), x).unwrap().to_vec::<f64>().unwrap();
        assert_eq!(some.iter().all(|slope| *slope == 0.0), right, "{some:?}");
    }
    let f = |x: Var| forward(total)(x);
    let lower = [[1e13f32, 0.0, 0.0], [1e13, 1e13, 0.0], [1e13, 1e13, 1e13]];
    assert!(run(f, lower).unwrap().to_vec::<f32>().unwrap()[0].is_nan());
}

/// If points are further apart than the largest float, their distance is infinite; its derivatives must be finite and
/// follow the same formulas as for any other distance.
#[test]
fn overflowing_distances_have_their_derivatives() {
    let slopes = |(x, y): (Var, Var)| {
        let (dx, dy) = grad(|(x, y): (Var, Var)| x.hypot(y).sum())((x, y));
        let ones = (x.ones_like(), y.ones_like());
        let forward = jvp(|(x, y): (Var, Var)| x.hypot(y))(((x, y), ones));
        stack(&[dx, dy, forward.1], 0)
    };
    let half = 0.5f64.sqrt();
    let table = [
        (1.7e308, 1.7e308, half, half),
        (-1.5e308, 1.5e308, -half, half),
        (1.2e308, -1.6e308, 0.6, -0.8),
        (1.79e308, 1e300, 1.0, 1e300 / 1.79e308),
        (3e-310, 4e-310, 0.6, 0.8),
        (0.0, 0.0, 0.0, 0.0),
        (1.0, f64::INFINITY, 0.0, f64::NAN),
        (f64::NEG_INFINITY, 1.0, f64::NAN, 0.0),
    ];
    let close = |x: f64, want: f64, within: f64| {
        (x.is_nan() && want.is_nan()) || (x - want).abs() <= within * want.abs()
    };
    for (x, y, dx, dy) in table {
        let found = run(slopes, ([x], [y])).unwrap().to_vec::<f64>().unwrap();
        for (found, want) in found.iter().zip([dx, dy, dx + dy]) {
            assert!(close(*found, want, 1e-14), "{x} {y}: {found}, want {want}");
        }
    }
    let table = [(3e38f32, 3e38f32, half, half), (1.5e38, -3.2e38, 0.424_434, -0.905_459)];
    for (x, y, dx, dy) in table {
        let found = run(slopes, ([x], [y])).unwrap().to_vec::<f32>().unwrap();
        for (found, want) in found.iter().zip([dx, dy, dx + dy]) {
            assert!(close((*found).into(), want, 1e-5), "{x} {y}: {found}, want {want}");
        }
    }
    let size = |(x, y): (Var, Var)| Complex { re: x, im: y }.abs();
    let (dx, dy) = run(grad(size), (3e38f32, 3e38f32)).unwrap();
    for slope in [dx, dy] {
        assert!(close(slope.item::<f32>().unwrap().into(), half, 1e-6), "{slope}");
    }
    // If the distance overflows, its second derivatives must still follow the formula y² / h³.
    let bend = |(x, y): (Var, Var)| grad(|x: Var| grad(|x: Var| x.hypot(y))(x) * 1e300)(x);
    let bend = run(bend, (1.2e308, 1.6e308)).unwrap().item::<f64>().unwrap();
    assert!(close(bend, 0.64 / 2e8, 1e-12), "{bend}");
}

#[test]
fn diagonals_of_any_matrix() {
    for (n, m) in [(2, 3), (3, 2), (3, 3), (1, 4), (4, 1), (0, 2), (2, 0)] {
        let x: Tensor = (0..2 * n * m).map(|i| -(i as f64)).collect();
        let x = x.reshape(&[2, n, m]).unwrap();
        let y = run(|x: Var| x.diagonal(), &x).unwrap();
        let k = n.min(m);
        assert_eq!(y.shape(), [2, k]);
        for b in 0..2 {
            for i in 0..k {
                let (y, x) = (y.get::<f64>(&[b, i]).unwrap(), x.get::<f64>(&[b, i, i]).unwrap());
                assert_eq!(y.to_bits(), x.to_bits());
            }
        }
    }
    let odd = run(|x: Var| x.diagonal(), [[f64::INFINITY, f64::NAN], [f64::NAN, -0.0]]).unwrap();
    assert_eq!(odd, Tensor::from([f64::INFINITY, -0.0]));
    let truth = run(|x: Var| x.diagonal(), [[true, false, true], [true, true, true]]).unwrap();
    assert_eq!(truth, Tensor::from([true, true]));
    check_grads(|x: Var| x.diagonal().sin(), M, 2).unwrap();
}

#[test]
fn nested_arrays_are_arguments() {
    let y = run(|x: Var| x.sum_axis(0), [[[1.0, 2.0]], [[3.0, 4.0]]]).unwrap();
    assert_eq!(y, Tensor::from([[4.0, 6.0]]));
}

#[test]
fn triangles_beyond_every_offset() {
    let m = Tensor::from(M);
    for k in [3, 1 << 40, i64::MAX] {
        assert_eq!(run(|x: Var| x.triu(k), &m).unwrap(), m.zeros_like());
        assert_eq!(run(|x: Var| x.tril(k), &m).unwrap(), m);
    }
    for k in [-3, -(1 << 40), i64::MIN] {
        assert_eq!(run(|x: Var| x.tril(k), &m).unwrap(), m.zeros_like());
        assert_eq!(run(|x: Var| x.triu(k), &m).unwrap(), m);
    }
}

/// Constant data can be passed without `constant`.
#[test]
fn indices_and_points_may_be_data() {
    let (rows, xs) = (Tensor::from([2i64, 0]), Tensor::from([0.0, 1.0, 3.0]));
    let y = run(
        |x: Var| {
            let put = x.put_along_axis(&rows, 9.0, 0);
            (x.take(&rows, 0), x.take(-1, 0), x.take_along_axis(&rows, 0), put, interp(0.5, &xs, x))
        },
        [1.0, 2.0, 3.0],
    )
    .unwrap();
    assert_eq!((y.0, y.1), (Tensor::from([3.0, 1.0]), Tensor::from(3.0)));
    assert_eq!((y.2, y.3), (Tensor::from([3.0, 1.0]), Tensor::from([9.0, 2.0, 9.0])));
    assert_eq!(y.4, Tensor::from(1.5));
}

/// The maximum of truth values is true if one is true, at every kind of index.
#[test]
fn truth_values_have_a_larger_one() {
    let x = [false, true, false];
    for places in [Tensor::from(0i64), Tensor::from([0i64]), Tensor::from([0i64, 0])] {
        let f = jit(|(x, i): (Var, Var)| {
            (x.at(i).max(true), x.at(i).max(false), x.at(1).min(false), x.at(i).min(true))
        });
        let (a, b, c, d) = f.call((x, &places)).unwrap();
        let bools = |t: Tensor| t.to_vec::<bool>().unwrap();
        assert_eq!([bools(a), bools(b)], [[true, true, false], x]);
        assert_eq!([bools(c), bools(d)], [[false; 3], x]);
    }
    let written = jit(|x: Var| {
        let r = Ref::new(x);
        r.at(0).max(true);
        r.slice_axis(0, 1..).min(false);
        r.get()
    });
    assert_eq!(written.call(x).unwrap().to_vec::<bool>().unwrap(), [true, false, false]);
}

/// The order of the products depends on the extents; the value does not depend on the order.
#[test]
fn einsum_multiplies_in_the_cheapest_order() {
    let ones = |rows: usize, columns: usize| Tensor::full(&[rows, columns], 0.5).unwrap();
    for extents in [[2, 7, 3, 5, 1], [6, 1, 4, 2, 3], [1, 2, 3, 4, 5]] {
        let [a, b, c, d, e] = extents;
        for spec in ["ij,jk,kl,lm->im", "ij,jk,kl,lm->", "ij,jk,kl,lm->mkji", "ij,jk,kl,lm->ilm"] {
            let args = (ones(a, b), ones(b, c), ones(c, d), ones(d, e));
            let of = |f: fn(&str, &[Var]) -> Var| {
                let f = move |(a, b, c, d): (Var, Var, Var, Var)| f(spec, &[a, b.cos(), c, d]);
                run(f, args.clone()).unwrap()
            };
            let (got, want) = (of(einsum), of(einsum_left_to_right));
            assert_eq!(got.shape(), want.shape(), "{spec} of {extents:?}");
            near(got.to_vec::<f64>().unwrap(), &want.to_vec::<f64>().unwrap());
        }
    }
    // Returns the program of a product of matrices of 6 by 6 and perhaps a vector.
    let program = |spec: &str, f: fn(&str, &[Var]) -> Var| {
        let vector = spec.contains(",l->");
        let shape: &[usize] = if vector { &[6] } else { &[6, 6] };
        let last = Tensor::full(shape, 0.5).unwrap();
        let f = |(a, x): (Var, Var)| f(spec, &[a, a, a, x]);
        jit(f).explain((ones(6, 6), last)).unwrap().stages()[0].text.clone()
    };
    // The cheapest order begins with the vector, so no product of two matrices may be computed.
    assert!(!program("ij,jk,kl,l->i", einsum).contains("f64[6,6] = dot"));
    assert!(program("ij,jk,kl,l->i", einsum_left_to_right).contains("f64[6,6] = dot"));
    // If all orders cost the same, products must be computed in the written order.
    let chain = "ij,jk,kl,lm->im";
    assert_eq!(program(chain, einsum), program(chain, einsum_left_to_right));
    // A product of twelve operands, where `einsum` always multiplies the cheapest pair next, must have the value of the
    // product from left to right.
    let many = |f: fn(&str, &[Var]) -> Var| {
        let f = move |(a, x): (Var, Var)| {
            f("ab,bc,cd,de,ef,fg,gh,hi,ij,jk,kl,l->a", &[[a; 11].as_slice(), &[x]].concat())
        };
        run(f, (ones(2, 2), Tensor::full(&[2], 0.5).unwrap())).unwrap().to_vec::<f64>().unwrap()
    };
    near(many(einsum), &many(einsum_left_to_right));
}

/// A coordinate that is nan gives nan, and an infinite coordinate gives the value of the border.
#[test]
fn coordinates_may_be_infinite() {
    use tapeloom::interpolate::Order;
    infinite_coordinates_reach_the_border(&[Order::Nearest, Order::Linear]);
}

pub(crate) fn infinite_coordinates_reach_the_border(orders: &[interpolate::Order]) {
    use tapeloom::interpolate::{Border, map_coordinates};
    let far = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e19, -1e300];
    for &order in orders {
        for (border, high, low) in [
            (Border::Nearest, 30.0, 10.0),
            (Border::Constant(7.0), 7.0, 7.0),
            (Border::GridConstant(7.0), 7.0, 7.0),
        ] {
            let at = |c: Var| map_coordinates(constant([10.0, 20.0, 30.0]), &[c], order, border);
            let both = |c: Var| (at(c), grad(|c: Var| at(c).sum())(c));
            let (y, slope) = run(both, far).unwrap();
            let y = y.to_vec::<f64>().unwrap();
            assert!(y[0].is_nan(), "{order:?} {border:?} {y:?}");
            for (y, want) in y[1..].iter().zip([high, low, high, low]) {
                assert!((y - want).abs() < 1e-12, "{order:?} {border:?} {y} {want}");
            }
            let slope = slope.to_vec::<f64>().unwrap();
            assert!(slope[1..].iter().all(|x| x.abs() < 1e-12), "{order:?} {border:?} {slope:?}");
        }
    }
}

/// For a constant exponent, a power and its derivatives in both modes are those for an array of exponents, up to rounding.
#[test]
fn powers_with_a_number_are_those_with_an_array() {
    let numbers = [0.0, 0.3, 1.0, 7.5, 5e-324, 1e-310, 1e-155, 1e-103, 1e-40, 1e-20, 1e13];
    let more = [1e20, 1e38, 1e103, 1.3e154, 1.4e154, 1e160, f64::MAX, f64::INFINITY, f64::NAN];
    let x: Vec<f64> = numbers.into_iter().chain(more).flat_map(|x| [x, -x]).collect();
    for dtype in [Dtype::F64, Dtype::F32] {
        let (within, least) = match dtype {
            Dtype::F32 => (4.0 * f64::from(f32::EPSILON), f64::from(f32::from_bits(2))),
            _ => (4.0 * f64::EPSILON, f64::from_bits(2)),
        };
        for p in [-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0] {
            let all = |f: &dyn Fn(Var) -> Var, x: Var| {
                let tangent = jvp(f)((x, x.ones_like())).1;
                stack(&[f(x), tangent, grad(|x: Var| f(x).sum())(x)], 0).convert(Dtype::F64)
            };
            let both = |x: Var| {
                let x = x.convert(dtype);
                let exponents = x.full_like(p);
                let array = all(&|x| x.pow(exponents), x);
                stack(&[all(&|x| x.powf(p), x), all(&|x| x.pow(p), x), array], 0)
            };
            let y = run(both, &x[..]).unwrap().to_vec::<f64>().unwrap();
            let (numbers, array) = y.split_at(6 * x.len());
            for (i, y) in numbers.iter().enumerate() {
                let want = array[i % array.len()];
                let near = want.is_finite() && (y - want).abs() <= within * want.abs() + least;
                let same = *y == want || y.is_nan() && want.is_nan() || near;
                let (order, x) = (i / x.len() % 3, x[i % x.len()]);
                assert!(same, "{x:e} to {p} in {dtype}, row {order}: {y:e} and {want:e}");
            }
        }
    }
}

/// The quotient of the operands of an entropy may overflow or underflow, and so may its square.
#[test]
fn relative_entropies_of_distant_numbers() {
    // Returns the value, and the derivatives in forward and reverse mode.
    let of = |f: fn(Var, Var) -> Var| {
        move |(p, q): (Var, Var)| {
            let pair = |(p, q): (Var, Var)| f(p, q);
            let (one, zero) = (p.ones_like(), p.zeros_like());
            let along = |dp, dq| jvp(pair)(((p, q), (dp, dq))).1;
            let (dp, dq) = grad(pair)((p, q));
            stack(&[f(p, q), along(one, zero), along(zero, one), dp, dq], 0)
        }
    };
    // Each row is p, q, and the expected ln(p / q).
    for (p, q, log) in [
        (1.0, 1e-200, 460.517_018_598_809_1),
        (1e-200, 1.0, -460.517_018_598_809_1),
        (1e-300, 1e300, -1_381.551_055_796_427_4),
        (1e300, 1e-300, 1_381.551_055_796_427_4),
        (1e180, 1.0, 414.465_316_738_928_2),
        (1.0, 1e180, -414.465_316_738_928_2),
        (1e150, 1e-120, 621.697_975_108_392_3),
        (2.0, 4.0, -2f64.ln()),
        (1.0, 1.0 + f64::EPSILON, -f64::EPSILON),
        (1e300, 2e300, -2f64.ln()),
    ] {
        let close = |found: Tensor, [y, dp, dq]: [f64; 3], within: f64| {
            let (found, want): (Vec<f64>, _) = (found.numbers().collect(), [y, dp, dq, dp, dq]);
            let near = |(x, y): (&f64, f64)| *x == y || (x - y).abs() <= within * y.abs();
            assert!(found.iter().zip(want).all(near), "{p:e} {q:e}: {found:?} and not {want:?}");
        };
        let entropies = [p * log, log + 1.0, -p / q];
        let divergences = [p * log - p + q, log, 1.0 - p / q];
        close(run(of(|p, q| p.rel_entr(q)), (p, q)).unwrap(), entropies, 2e-15);
        if p.max(q) > 1.5 * p.min(q) {
            close(run(of(|p, q| p.kl_div(q)), (p, q)).unwrap(), divergences, 2e-15);
        }
    }
    let y = run(of(|p, q| p.kl_div(q)), (1e-30f32, 1e30f32)).unwrap().to_vec::<f32>().unwrap();
    assert!(y[0] == 1e30 && (y[1] + 138.155_1).abs() < 1e-4 && y[2] == 1.0, "{y:?}");
    let y = run(of(|p, q| p.kl_div(q)), (1e20f32, 1f32)).unwrap().to_vec::<f32>().unwrap();
    assert!((y[3] - 46.051_7).abs() < 1e-4 && y[4] == -1e20, "{y:?}");
}

/// The number of elements may not be representable in f32, and the number of segments not in i64.
#[test]
fn segments_may_be_many_or_large() {
    let n = (1 << 24) + 4;
    let mean = |x: Var| {
        let first = iota([n], 0, Dtype::I64).eq(0);
        let y = select(first, x * (n as f64), 0.0);
        y.segment_mean(first.zeros_like().convert(Dtype::I64), 1)
    };
    assert_eq!(run(mean, 1f32).unwrap().to_vec::<f32>().unwrap(), [1.0]);
    let error = run(|x: Var| x.segment_sum(constant([0i64, 1]), usize::MAX), [1.0, 2.0]);
    let error = error.unwrap_err();
    assert_eq!(error.diagnostics().len(), 1, "{error}");
    assert_eq!(error.kind(), tapeloom::Kind::TooLarge, "{error}");
}

/// Errors name the arguments of the call, not arrays that it makes of them.
#[test]
fn errors_name_the_types_of_the_arguments() {
    let v = || Tensor::from([1.0, 2.0]);
    for (line, error, text) in [
        (
            line!(),
            run(|v: Var| v.searchsorted(constant([1i64])), v()).unwrap_err(),
            "`searchsorted` needs operands of one dtype, got f64[2] and i64[1]",
        ),
        (
            line!(),
            run(|v: Var| v.digitize(constant([1i64])), v()).unwrap_err(),
            "`digitize` needs operands of one dtype, got i64[1] and f64[2]",
        ),
        (
            line!(),
            run(|v: Var| v.kron(constant([1i64])), v()).unwrap_err(),
            "`kron` needs operands of one dtype, got f64[2] and i64[1]",
        ),
    ] {
        let found = error.to_string();
        assert!(found.contains(text), "{found}");
        assert!(found.contains(&format!("{}:{}:", file!(), line + 1)), "{found}");
    }
}

/// An axis under an ellipsis may be empty in one operand and of extent 1 in the other one.
#[test]
fn an_empty_axis_is_broadcast_in_einsum() {
    for sides in [([1, 3], [0, 3]), ([0, 3], [1, 3])] {
        let f = move |()| {
            einsum("...i,...i->...", &[zeros(sides.0, Dtype::F64), zeros(sides.1, Dtype::F64)])
        };
        assert_eq!(run(f, ()).unwrap().shape(), [0]);
    }
}
