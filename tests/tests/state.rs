//! Programs with mutable state against their pure forms.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::prelude::*;

/// A loop with a branch, in which two arrays are read and written.
#[test]
fn a_branch_in_a_loop_writes() {
    let mutated = |x: Var| {
        let (r, s) = (Ref::new(x), Ref::new(0.0));
        let round = |(i, ()): (Var, ())| {
            let (x, before) = (r.at(i), r.at((i + 4) % 5));
            x.add(before.get().sin());
            cond(x.get().gt(0.5), |()| s.add(x.get()), |()| r.at(0).set(0.25), ());
        };
        fori_loop(5, round, ());
        (r.get() * r.get()).sum() + s.get()
    };
    let pure = |x: Var| {
        let round = |(i, (r, s)): (Var, (Var, Var))| {
            let r = r.at(i).add(r.index((i + 4) % 5).sin());
            let yes = |(r, s): (Var, Var)| (r, s + r.index(i));
            cond(r.index(i).gt(0.5), yes, |(r, s): (Var, Var)| (r.at(0).set(0.25), s), (r, s))
        };
        let (r, s) = fori_loop(5, round, (x, zeros([], Dtype::F64)));
        (r * r).sum() + s
    };
    let x = Tensor::from([0.1, 0.6, -0.7, 0.3, 0.9]);
    assert_eq!(jit(mutated).call(&x).unwrap(), jit(pure).call(&x).unwrap());
    assert_eq!(jit(grad(mutated)).call(&x).unwrap(), jit(grad(pure)).call(&x).unwrap());
}

/// The condition of a loop reads what its body writes.
#[test]
fn a_condition_reads_what_the_body_writes() {
    let mutated = |x: Var| {
        let (r, n) = (Ref::new(x), Ref::new(0));
        while_loop(|()| r.get().lt(100.0), |()| (r.mul(r.get()), n.add(1)).0, ());
        (r.get(), n.get())
    };
    let f = jit(mutated);
    let (x, n) = f.call(3.0).unwrap();
    assert_eq!((x.item::<f64>().unwrap(), n.item::<i64>().unwrap()), (6561.0, 3));
    let slope = run(grad(|x| mutated(x).0), 3.0).unwrap();
    assert_eq!(slope.item::<f64>().unwrap(), 8.0 * 3f64.powi(7));
}
