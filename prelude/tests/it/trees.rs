//! Trees: derived structs, containers, static fields.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use tapeloom::prelude::*;

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
}

#[derive(Tree, Clone, Debug)]
struct Mlp<T> {
    layers: Vec<Dense<T>>,
    scales: [T; 2],
    named: BTreeMap<String, Box<T>>,
    rest: (T, ()),
}

#[derive(Tree, Clone, Debug)]
struct Pair<T>(T, T);

#[derive(Tree, Clone, Debug)]
struct Sized<T, const N: usize> {
    all: [T; N],
}

/// A recursive tree: a tree may contain itself, behind a `Box`.
#[derive(Tree, Clone, Debug)]
struct Chain<T> {
    value: T,
    next: Option<Box<Chain<T>>>,
}

fn mlp() -> Mlp<Tensor> {
    let dense =
        |w: f64, b: Option<f64>, act| Dense { w: Tensor::from(w), b: b.map(Tensor::from), act };
    Mlp {
        layers: vec![dense(2.0, Some(1.0), Act::Relu), dense(3.0, None, Act::Tanh)],
        scales: [Tensor::from(5.0), Tensor::from(7.0)],
        named: [("k".to_owned(), Box::new(Tensor::from(11.0)))].into(),
        rest: (Tensor::from(13.0), ()),
    }
}

fn sum(p: &Mlp<Var>) -> Var {
    let layers = p.layers.iter().map(|l| l.w * l.w + l.b.unwrap_or(0.0 * l.w));
    layers.sum::<Var>() + p.scales[0] * p.scales[1] + *p.named["k"] + p.rest.0
}

#[test]
fn a_gradient_has_the_shape_of_its_argument() {
    let g = jit(grad(|p: Mlp<Var>| sum(&p))).call(mlp()).unwrap();
    let number = |t: &Tensor| t.item::<f64>().unwrap();
    assert_eq!(number(&g.layers[0].w), 4.0);
    assert_eq!(g.layers[0].b.as_ref().map(number), Some(1.0));
    assert!(g.layers[1].b.is_none());
    assert_eq!(g.layers[1].act, Act::Tanh);
    assert_eq!(number(&g.scales[0]), 7.0);
    assert_eq!(number(&g.named["k"]), 1.0);
    assert_eq!(number(&g.rest.0), 1.0);
}

#[test]
fn structure_and_static_fields_are_part_of_the_key() {
    let f = jit(|d: Dense<Var>| match d.act {
        Act::Relu => d.w.relu(),
        Act::Tanh => d.w.tanh(),
    });
    let dense = |act| Dense { w: Tensor::from(-1.0), b: None, act };
    assert_eq!(f.call(dense(Act::Relu)).unwrap().item::<f64>().unwrap(), 0.0);
    assert_eq!(f.call(dense(Act::Tanh)).unwrap().item::<f64>().unwrap(), (-1.0f64).tanh());
    assert_eq!(f.call(dense(Act::Relu)).unwrap().item::<f64>().unwrap(), 0.0);
    assert_eq!(f.programs(), 2);
    let with_bias = Dense { b: Some(Tensor::from(0.0)), ..dense(Act::Relu) };
    f.call(&with_bias).unwrap();
    assert_eq!(f.programs(), 3);
}

#[test]
fn tuple_structs_const_parameters_and_recursion() {
    let f = jit(|(p, s): (Pair<Var>, Sized<Var, 2>)| Pair(p.1 * s.all[0], p.0 * s.all[1]));
    let s = Sized { all: [Tensor::from(10.0), Tensor::from(100.0)] };
    let out = f.call((Pair(1.0, 2.0), &s)).unwrap();
    assert_eq!((out.0.item::<f64>().unwrap(), out.1.item::<f64>().unwrap()), (20.0, 100.0));

    fn total(c: &Chain<Var>) -> Var {
        c.next.as_ref().map_or(c.value * c.value, |n| c.value * c.value + total(n))
    }
    let chain = Chain {
        value: Tensor::from(2.0),
        next: Some(Box::new(Chain { value: Tensor::from(3.0), next: None })),
    };
    let g = run(grad(|c: Chain<Var>| total(&c)), &chain).unwrap();
    assert_eq!(g.next.unwrap().value.item::<f64>().unwrap(), 6.0);
}

#[test]
fn borrowed_owned_and_plain_data() {
    let f = jit(|(x, (y, z)): (Var, (Var, Vec<Var>))| x * y + z[0] * z[1]);
    let (x, z) = (Tensor::from(2.0), [Tensor::from(4.0), Tensor::from(5.0)]);
    let want = 26.0;
    let got = [
        f.call((&x, (3.0, &z[..]))).unwrap(),
        f.call((x.clone(), (&Tensor::from(3.0), z.to_vec()))).unwrap(),
        f.call(&(&x, (3.0, vec![4.0, 5.0]))).unwrap(),
    ];
    for y in got {
        assert_eq!(y.item::<f64>().unwrap(), want);
    }
    assert_eq!(f.programs(), 1);
    let d = jit(|p: Pair<Var>| p.0 - p.1);
    assert_eq!(d.call(Pair(&x, &z[0])).unwrap().item::<f64>().unwrap(), -2.0);
}

#[test]
fn results_are_trees_too() {
    let f = jit(|x: Var| {
        let named: BTreeMap<String, Var> = [("x".to_owned(), x)].into();
        (Some(x), named, [x + 1.0, x + 2.0], ())
    });
    let (some, named, pair, ()) = f.call(1.0).unwrap();
    assert_eq!(some.unwrap().item::<f64>().unwrap(), 1.0);
    assert_eq!(named["x"].item::<f64>().unwrap(), 1.0);
    assert_eq!(pair[1].item::<f64>().unwrap(), 3.0);
}

#[test]
fn empty_trees() {
    assert_eq!(run(|()| full([2], 1.5), ()).unwrap().to_vec::<f64>().unwrap(), [1.5, 1.5]);
    let none: Vec<Tensor> = Vec::new();
    let out = run(|v: Vec<Var>| v, &none).unwrap();
    assert!(out.is_empty());
}
