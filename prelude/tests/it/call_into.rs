//! `call_into` must write results to the memory of earlier results.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use tapeloom::prelude::*;
use tapeloom::{Kind, Target};

#[derive(Tree, Clone, PartialEq, Debug)]
struct Layer<T> {
    w: T,
    #[tree(static)]
    depth: usize,
}

type Named<T> = BTreeMap<String, Vec<T>>;

type Results = ((Layer<Tensor>, Named<Tensor>), [Tensor; 2], Box<Option<Tensor>>, ());

/// For trees of every container, each leaf must keep its address.
#[test]
fn leaves_of_any_tree_keep_their_memory() {
    let f = jit(|x: Var| {
        let named: Named<Var> = [("a".to_owned(), vec![x + 1.0, x + 2.0])].into();
        let layer = Layer { w: x.sum(), depth: 2 };
        ((layer, named), [x * 2.0, x * 3.0], Box::new(Some(x)), ())
    });
    let mut results = f.call([1.0, 2.0]).unwrap();
    let addresses = |((layer, named), pair, last, ()): &Results| {
        let leaves = [&layer.w].into_iter().chain(&named["a"]).chain(pair).chain((**last).as_ref());
        leaves.map(Tensor::address).collect::<Vec<_>>()
    };
    let memory = addresses(&results);
    assert_eq!(memory.len(), 6);
    f.call_into([5.0, 6.0], &mut results).unwrap();
    assert_eq!(results, f.call([5.0, 6.0]).unwrap());
    assert_eq!(addresses(&results), memory);
}

#[test]
fn shared_memory_and_other_types_are_replaced() {
    let f = jit(|x: Var| 2.0 * x);
    let x = Tensor::from([1.0, 2.0]);
    // If a clone of a result is alive, the clone keeps its numbers, even if it is the argument of the call.
    let mut y = f.call(&x).unwrap();
    let clone = y.clone();
    f.call_into(&clone, &mut y).unwrap();
    assert_eq!((&clone, &y), (&Tensor::from([2.0, 4.0]), &Tensor::from([4.0, 8.0])));
    // If two given results share memory, each must get new memory.
    let two = jit(|x: Var| (x + 1.0, x + 2.0));
    let mut both = (x.clone(), x.clone());
    two.call_into(&x, &mut both).unwrap();
    assert_eq!(both, (Tensor::from([2.0, 3.0]), Tensor::from([3.0, 4.0])));
    // A given result that shares memory with a tensor captured by the program must get new memory, because the next
    // call reads the captured tensor.
    let captured = Tensor::from([10.0, 20.0]);
    let own = captured.clone();
    let add = jit(move |x: Var| x + &own);
    let mut y = captured.clone();
    add.call_into(&x, &mut y).unwrap();
    add.call_into(&x, &mut y).unwrap();
    assert_eq!((y, captured), (Tensor::from([11.0, 22.0]), Tensor::from([10.0, 20.0])));
    // Given tensors of another shape or dtype must be replaced, and so must reshaped tensors.
    for mut y in [Tensor::from(1.0), Tensor::from([1_i64, 2]), Tensor::from([[1.0, 2.0]])] {
        f.call_into(&x, &mut y).unwrap();
        assert_eq!(y, Tensor::from([2.0, 4.0]));
    }
    let memory = y_of(&f, &x);
    let mut y = memory.reshape(&[2, 1]).unwrap();
    drop(memory);
    f.call_into(&x, &mut y).unwrap();
    assert_eq!(y, Tensor::from([2.0, 4.0]));
}

fn y_of(f: &Jit<Var, Var, impl Fn(Var) -> Var>, x: &Tensor) -> Tensor {
    f.call(x).unwrap()
}

/// The returned tree must have the structure of the results, even if the given tree has another one.
#[test]
fn trees_of_another_structure_are_replaced() {
    let f = jit(|xs: Vec<Var>| xs.iter().map(|x| *x + 1.0).collect::<Vec<Var>>());
    let mut ys = Vec::new();
    for n in [2, 3, 1] {
        f.call_into(vec![1.0; n], &mut ys).unwrap();
        assert_eq!(ys, vec![Tensor::from(2.0); n]);
    }
    let g = jit(|x: Var| Layer { w: x, depth: 3 });
    let mut layer = Layer { w: Tensor::from(0.0), depth: 1 };
    g.call_into(1.0, &mut layer).unwrap();
    assert_eq!(layer, Layer { w: Tensor::from(1.0), depth: 3 });
}

/// For arguments of another type, a `Jit` compiles another program. A `Compiled` refuses them, and leaves the given
/// results unchanged.
#[test]
fn other_arguments_are_compiled_or_refused() {
    let f = jit(|x: Var| x + 1.0);
    let mut y = Tensor::from(0.0);
    for n in [1, 3, 2] {
        f.call_into(vec![1.0; n], &mut y).unwrap();
        assert_eq!(y, Tensor::from(vec![2.0; n]));
    }
    assert_eq!(f.programs(), 3);
    let compiled = f.compile([1.0; 2]).unwrap();
    compiled.call_into([2.0, 3.0], &mut y).unwrap();
    let error = compiled.call_into([1.0; 3], &mut y).unwrap_err();
    assert_eq!((error.kind(), y), (Kind::Arguments, Tensor::from([3.0, 4.0])));
}

/// If a call fails after some results were written, all tensors must stay valid, and the next call must write them.
#[test]
fn an_error_leaves_tensors_of_the_same_types() {
    let f = jit(|x: Var| {
        let y = x.sin();
        let z = callback("half", x, x.array_type(), |x: Tensor| match x.numbers().sum::<f64>() {
            sum if sum < 0.0 => Err("a negative sum".into()),
            _ => Ok(x.map_numbers(|x| x / 2.0)),
        });
        (y, y.gt(0.5), z)
    });
    let x = Tensor::from([1.0, 2.0, 3.0]);
    let want = f.call(&x).unwrap();
    let mut results = want.clone();
    drop(want);
    let types = |(y, large, z): &(Tensor, Tensor, Tensor)| [y, large, z].map(|t| t.ty().clone());
    let before = types(&results);
    for error in [
        f.call_into([-1.0, -2.0, -3.0], &mut results).unwrap_err(),
        f.call_into(-1.0, &mut results).unwrap_err(),
    ] {
        assert_eq!((error.kind(), types(&results)), (Kind::Callback, before.clone()));
    }
    f.call_into(&x, &mut results).unwrap();
    assert_eq!(results, f.call(&x).unwrap());
}

/// Interpreters and programs with limits must also write the results to the given memory.
#[test]
fn every_engine_writes_into_results() {
    let square = |x: Var| fori_loop(3, |(_, x): (Var, Var)| x * x, x);
    let all = [
        jit(square),
        jit(square).interpreted(),
        jit(square).nan_check(),
        jit(square).on(Target::Interpreter),
        jit(square).max_steps(5),
    ];
    for f in all {
        let mut y = Tensor::from([7.0, 7.0]);
        let memory = y.address();
        f.call_into([2.0, 1.0], &mut y).unwrap();
        assert_eq!((&y, y.address()), (&Tensor::from([256.0, 1.0]), memory));
    }
}
