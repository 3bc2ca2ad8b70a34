//! Operations on all leaves of trees: maps, sums, vectors; and the errors for trees that differ.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::BTreeMap;
use tapeloom::prelude::*;
use tapeloom::{Error, Kind};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Act {
    Relu,
    Tanh,
}

#[derive(Tree, Clone, Debug)]
struct Dense<T> {
    w: T,
    b: Option<T>,
    #[tree(static)]
    act: Act,
    #[tree(static)]
    rate: f64,
}

#[derive(Tree, Clone, Debug)]
struct Net<T> {
    layers: Vec<Dense<T>>,
    named: BTreeMap<String, Box<T>>,
    rest: ([T; 2], ()),
}

fn net<T: Clone>(leaf: impl Fn(f64) -> T) -> Net<T> {
    let dense = |w, b: Option<f64>, act| Dense { w: leaf(w), b: b.map(&leaf), act, rate: 0.5 };
    Net {
        layers: vec![dense(2.0, Some(1.0), Act::Relu), dense(3.0, None, Act::Tanh)],
        named: [("k".to_owned(), Box::new(leaf(11.0)))].into(),
        rest: ([leaf(13.0), leaf(17.0)], ()),
    }
}

fn numbers<A: Tree<Tensor>>(tree: &A) -> Vec<f64> {
    tree_leaves(tree).iter().flat_map(|t| t.to_vec::<f64>().unwrap()).collect()
}

fn fails<A: Tree<Var>, B: Tree<Var>>(f: impl Fn(A) -> B, args: impl Args<A>) -> Error {
    match run(f, args) {
        Ok(_) => panic!("the program is wrong and ran"),
        Err(error) => error,
    }
}

#[test]
fn maps_keep_the_tree_and_visit_leaves_in_order() {
    let p = net(Tensor::from);
    assert_eq!(numbers(&p), [2.0, 1.0, 3.0, 11.0, 13.0, 17.0]);
    let q = run(|p: Net<Var>| tree_map2(|x, y| x - y, &tree_map(|x| x * x, &p), &p), &p).unwrap();
    assert_eq!(numbers(&q), [2.0, 0.0, 6.0, 110.0, 156.0, 272.0]);
    let q = run(|p: Net<Var>| tree_map3(|x, y, z| x * y + z, &p, &p, &p), &p).unwrap();
    assert_eq!(numbers(&q), [6.0, 2.0, 12.0, 132.0, 182.0, 306.0]);
    assert_eq!(numbers(&tree_map(|t| Tensor::from(t.item::<f64>().unwrap() + 1.0), &p))[0], 3.0);
    assert_eq!(q.layers[1].act, Act::Tanh);
    let paths = tree_paths(&p);
    let want =
        ["layers[0].w", "layers[0].b", "layers[1].w", "named[\"k\"]", "rest.0[0]", "rest.0[1]"];
    assert_eq!(paths, want);
}

#[test]
fn zeros_and_ones_like_traced_and_concrete_trees() {
    let p = (Tensor::from([1i64, 2]), vec![Tensor::scalar(true), Tensor::scalar(2.0f32)]);
    let inside = run(|p: (Var, Vec<Var>)| (zeros_like(&p), ones_like(&p)), &p).unwrap();
    let outside = (zeros_like(&p), ones_like(&p));
    for (a, b) in tree_leaves(&inside).iter().zip(tree_leaves(&outside)) {
        assert_eq!(*a, b);
    }
    assert_eq!(outside.1.1[0].to_vec::<bool>().unwrap(), [true]);
    assert_eq!(outside.1.0.to_vec::<i64>().unwrap(), [1, 1]);
}

#[test]
fn sums_products_and_norms_of_all_elements() {
    let p = net(Tensor::from);
    let f = |p: Net<Var>| (tree_sum(&p), tree_dot(&p, &p), global_norm(&p));
    let (sum, dot, norm) = run(f, &p).unwrap();
    let all = numbers(&p);
    assert_eq!(sum.item::<f64>().unwrap(), all.iter().sum::<f64>());
    let squares: f64 = all.iter().map(|x| x * x).sum();
    assert_eq!(dot.item::<f64>().unwrap(), squares);
    assert!((norm.item::<f64>().unwrap() - squares.sqrt()).abs() < 1e-14 * squares);
    // The sum over a tree without leaves must be zero.
    let none = run(|v: Vec<Var>| (tree_sum(&v), global_norm(&v)), Vec::<Tensor>::new()).unwrap();
    assert_eq!((none.0.item::<f64>().unwrap(), none.1.item::<f64>().unwrap()), (0.0, 0.0));
    check_grads(|p: Net<Var>| global_norm(&p), &p, 2).unwrap();
}

#[test]
fn vectors_and_back() {
    let p = (Tensor::from([[1.0, 2.0], [3.0, 4.0]]), vec![Tensor::from(5.0), Tensor::from([6.0])]);
    let all = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let f = |p: (Var, Vec<Var>)| {
        let (v, unravel) = ravel(&p);
        (v, unravel(v), unravel(v * v))
    };
    let (v, same, squares) = run(f, &p).unwrap();
    assert_eq!(v.to_vec::<f64>().unwrap(), all);
    assert_eq!(tree_leaves(&same), tree_leaves(&p));
    assert_eq!(squares.1[1].to_vec::<f64>().unwrap(), [36.0]);
    // `ravel` must have derivatives.
    check_grads(|p: (Var, Vec<Var>)| ravel(&p).0.sin(), &p, 2).unwrap();

    let (v, unravel) = ravel_tensors(&p).unwrap();
    assert_eq!(v.to_vec::<f64>().unwrap(), all);
    assert_eq!(tree_leaves(&unravel(&v).unwrap()), tree_leaves(&p));

    // `ravel` must accept trees without leaves, with one leaf, and with leaves that have no elements or are constants.
    assert_eq!(run(|()| ravel(&()).0, ()).unwrap().shape(), [0]);
    assert_eq!(run(|x: Var| ravel(&x).0, 2.0).unwrap().shape(), [1]);
    let empty = run(|p: (Var, Var)| ravel(&p).0, (Vec::<f64>::new(), [1.0])).unwrap();
    assert_eq!(empty.to_vec::<f64>().unwrap(), [1.0]);
    let literal = run(|x: Var| ravel(&(x, x.zeros_like())).0, 2.0).unwrap();
    assert_eq!(literal.to_vec::<f64>().unwrap(), [2.0, 0.0]);
    // Leaves may have dtypes other than f64.
    let (v, unravel) = ravel_tensors(&[Tensor::from([true]), Tensor::from([false, true])]).unwrap();
    assert_eq!(unravel(&v).unwrap()[1].to_vec::<bool>().unwrap(), [false, true]);
}

#[test]
fn leaves_of_several_dtypes_are_named() {
    let p = (Tensor::from(1.0), vec![Tensor::from(2.0), Tensor::scalar(3i64)]);
    type P = (Var, Vec<Var>);
    let errors = [
        fails(|p: P| ravel(&p).0, &p),
        fails(|p: P| tree_sum(&p), &p),
        fails(|p: P| global_norm(&p), &p),
        fails(|p: P| tree_dot(&p, &p), &p),
    ];
    for error in errors {
        assert_eq!(error.kind(), Kind::Dtype);
        assert_eq!(error.diagnostics().len(), 1, "{error}");
        let text = error.to_string();
        assert!(text.contains("`tree.0` is f64[], `tree.1[1]` is i64[]"), "{text}");
        assert!(text.contains(file!()), "the user's line: {text}");
    }
    let Err(error) = ravel_tensors(&p) else { panic!("of two dtypes") };
    assert!(error.to_string().contains("`tree.1[1]` is i64[]"), "{error}");
}

#[test]
fn a_vector_that_does_not_fit_is_an_error() {
    let error = fails(|p: (Var, Var)| ravel(&p).1(p.1), (1.0, [2.0, 3.0]));
    assert!(
        error.to_string().contains("ravelled to f64[3], and cannot be rebuilt from f64[2]"),
        "{error}"
    );
    let (_, unravel) = ravel_tensors(&[Tensor::from(1.0)]).unwrap();
    assert_eq!(unravel(&Tensor::from([1.0f32])).unwrap_err().kind(), Kind::Dtype);
    assert_eq!(unravel(&Tensor::from([1.0, 2.0])).unwrap_err().kind(), Kind::Shape);
}

/// Every kind of difference between two trees must be reported with its path, by every function that takes several
/// trees.
#[test]
fn where_trees_differ_the_place_is_named() {
    type Change = fn(&mut Net<Var>);
    let change: [(Change, &str); 6] = [
        (|p| p.layers[1].act = Act::Relu, "`layers[1].act`: Tanh in the first, Relu in another"),
        (|p| p.layers[0].rate = -0.0, "`layers[0].rate`: 0.5 in the first, -0.0 in another"),
        (|p| p.layers[0].b = None, "`layers[0].b`: there in the first, absent in another"),
        (|p| p.layers.truncate(1), "`layers`: 2 elements in the first, 1 element in another"),
        (|p| p.named.clear(), "`named`: keyed [\"k\"] in the first, keyed [] in another"),
        (
            |p| {
                p.layers[0].act = Act::Tanh;
                p.layers[1].act = Act::Relu;
            },
            "`layers[0].act`: Relu in the first, Tanh in another; `layers[1].act`: Tanh in the first",
        ),
    ];
    for (change, want) in change {
        let error = fails(
            |p: Net<Var>| {
                let mut q = p.clone();
                change(&mut q);
                tree_map2(|x, y| x + y, &p, &q)
            },
            net(Tensor::from),
        );
        assert_eq!(error.kind(), Kind::Shape);
        let text = error.to_string();
        assert!(text.contains(want), "{want}\n{text}");
        assert!(text.contains(file!()), "the user's line: {text}");
    }
    let other = |p: &Net<Var>| {
        let mut q = p.clone();
        q.layers[1].act = Act::Relu;
        q
    };
    let error = fails(
        |p: Net<Var>| jvp(|p: Net<Var>| tree_sum(&p))((p.clone(), other(&p))),
        net(Tensor::from),
    );
    let want = "`tangent.layers[1].act`: Tanh in its primal, Relu in it";
    assert!(error.to_string().contains(want), "{error}");
    let error =
        fails(|p: Net<Var>| vjp(|p: Net<Var>| p)(p.clone()).1(other(&p)), net(Tensor::from));
    assert!(error.to_string().contains("`cotangent.layers[1].act`: Tanh in its primal"), "{error}");
    let error = fails(
        |p: Net<Var>| {
            custom_vjp(
                |p: Net<Var>| tree_sum(&p),
                |p| (tree_sum(&p), p),
                |p: Net<Var>, _| other(&p),
            )(p)
            .sin()
        },
        net(Tensor::from),
    );
    assert!(
        error.to_string().contains("`cotangent.layers[1].act`: Tanh in the function"),
        "{error}"
    );
}

#[test]
fn static_floats_are_compared_by_their_bits() {
    let f = jit(|d: Dense<Var>| d.w * d.rate);
    let at = |rate| {
        let d = Dense { w: Tensor::from(2.0), b: None, act: Act::Relu, rate };
        f.call(&d).unwrap().item::<f64>().unwrap()
    };
    assert_eq!(at(0.5), 1.0);
    assert!(at(f64::NAN).is_nan() && at(f64::NAN).is_nan());
    assert_eq!(f.programs(), 2, "nan is itself");
    assert!(at(0.0).is_sign_positive() && at(-0.0).is_sign_negative());
    assert_eq!(f.programs(), 4, "the zeros are two");
    let why = f.explain(&Dense { w: 1.0, b: None, act: Act::Relu, rate: 0.5 }).unwrap();
    assert_eq!(why.misses()[1], "`argument.rate` was 0.5 and is NaN");
}

#[test]
fn numbers_of_every_dtype_stand_for_leaves() {
    let f = jit(|n: Net<Var>| tree_sum(&n));
    assert_eq!(f.call(net(|x| x as i64)).unwrap().item::<i64>().unwrap(), 47);
    assert_eq!(f.call(net(|x| x as f32)).unwrap().item::<f32>().unwrap(), 47.0);
    let data = net(Tensor::from);
    let borrowed = tree_leaves(&data);
    let pair = jit(|p: [Var; 2]| p[0] + p[1]);
    assert_eq!(pair.call([&borrowed[0], &borrowed[1]]).unwrap().item::<f64>().unwrap(), 3.0);
}

#[test]
fn axes_as_a_tree_of_axes() {
    // Two networks: each has its own weights, and both share one bias.
    let f = |(p, x): (Dense<Var>, Var)| p.w * x + p.b.unwrap();
    fn axes<T>(w: T, b: T) -> Dense<T> {
        Dense { w, b: Some(b), act: Act::Relu, rate: 0.5 }
    }
    let p = Dense {
        w: Tensor::from([1.0, 2.0]),
        b: Some(Tensor::from(10.0)),
        act: Act::Relu,
        rate: 0.5,
    };
    let y = run(vmap_axes((axes(Some(0), None), None), 0, f), (&p, 3.0)).unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [13.0, 16.0]);
    // The gradients of all members must be stacked along the batch axes that `out_axes` gives for each leaf.
    let g = vmap_axes((axes(0, 0), None), axes(0, 0), |(p, x): (Dense<Var>, Var)| {
        grad(|p: Dense<Var>| (p.w * x + p.b.unwrap()).square())(p)
    });
    let q = Dense { b: Some(Tensor::from([0.0, 1.0])), ..p.clone() };
    let g = run(g, (&q, 1.0)).unwrap();
    assert_eq!(g.w.to_vec::<f64>().unwrap(), [2.0, 6.0]);
    // For a list of arrays, the batch axes may be given as a list.
    let f = |v: Vec<Var>| v[0] * v[1];
    let y =
        run(vmap_axes(vec![Some(0), None], 0, f), &[Tensor::from([1.0, 2.0]), Tensor::from(3.0)])
            .unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [3.0, 6.0]);
    let y = run(
        vmap_axes([None, Some(0)], 0, |[x, y]: [Var; 2]| x - y),
        [&Tensor::from(3.0), &Tensor::from([1.0])],
    )
    .unwrap();
    assert_eq!(y.to_vec::<f64>().unwrap(), [2.0]);

    let wrong = Dense { w: Some(0), b: None, act: Act::Tanh, rate: 0.5 };
    let error = fails(vmap_axes((wrong, None), 0, |(p, x): (Dense<Var>, Var)| p.w * x), (&p, 3.0));
    assert_eq!(error.diagnostics().len(), 1, "{error}");
    let text = error.to_string();
    assert!(text.contains("`in_axes` of `vmap_axes` does not fit its tree"), "{text}");
    assert!(text.contains("`b`: there in the tree, absent in the axes"), "{text}");
    assert!(text.contains("`act`: Relu in the tree, Tanh in the axes"), "{text}");
    let error = fails(vmap_axes(0, vec![0], |x: Var| vec![x, x]), [1.0]);
    assert!(error.to_string().contains("1 axes for a `Vec` of 2"), "{error}");
}

/// The Hessian with respect to a tree must be the Hessian with respect to the vector of all its leaves.
#[test]
fn hessians_of_trees_are_matrices_over_the_vector() {
    let f = |(x, v): (Var, [Var; 2])| (x * v[0].sum()).sin() + v[1].powi(3).sum() * x;
    let p = (Tensor::from(0.5), [Tensor::from([[0.1, 0.2]]), Tensor::from([0.3, -0.4])]);
    let (v, _) = ravel_tensors(&p).unwrap();
    let of_vector = |v: Var| {
        let (a, b) = (v.slice_axis(0, 1..3).reshape([1, 2]), v.slice_axis(0, 3..));
        f((v.index(0), [a, b]))
    };
    let h = run(hessian(f), &p).unwrap();
    assert_eq!(h.shape(), [5, 5]);
    let want = run(hessian(of_vector), &v).unwrap().to_vec::<f64>().unwrap();
    for (a, b) in h.to_vec::<f64>().unwrap().into_iter().zip(want) {
        assert!((a - b).abs() < 1e-14, "{a} {b}");
    }
    // Products of the Hessian with vectors must be those of `hvp`, whose result is a tree.
    let products = jit(|(p, t): ((Var, [Var; 2]), (Var, [Var; 2]))| {
        (hessian(f)(p).dot(ravel(&t).0), ravel(&hvp(f)((p, t))).0)
    });
    let t = (Tensor::from(1.0), [Tensor::from([[2.0, 3.0]]), Tensor::from([4.0, 5.0])]);
    let (a, b) = products.call((&p, &t)).unwrap();
    for (a, b) in numbers(&a).into_iter().zip(numbers(&b)) {
        assert!((a - b).abs() < 1e-13, "{a} {b}");
    }
    // An array in a `Box` counts as a single array; a tuple of one array is a tree.
    let one = |x: Var| x.powi(3).sum();
    let x = Tensor::from([[1.0, 2.0]]);
    assert_eq!(run(hessian(one), &x).unwrap().shape(), [1, 2, 1, 2]);
    assert_eq!(
        run(hessian(|x: Box<Var>| one(*x)), Box::new(x.clone())).unwrap().shape(),
        [1, 2, 1, 2]
    );
    assert_eq!(run(hessian(|(x,): (Var,)| one(x)), (&x,)).unwrap().shape(), [2, 2]);
    let mixed = fails(hessian(|(x, n): (Var, Var)| x * n.convert(Dtype::F64)), (1.0, 2i64));
    assert_eq!(mixed.kind(), Kind::Dtype, "{mixed}");
}
