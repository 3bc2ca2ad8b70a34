//! scratch
use std::time::Instant;
use tapeloom::prelude::*;
fn main() {
    let f = jit(grad(|x: Var| x.sin() * x));
    let x = Tensor::from(1.5);
    let t = Instant::now();
    f.call(&x).unwrap();
    eprintln!("first {:?}", t.elapsed());
    for _ in 0..3 {
        let t = Instant::now();
        let n = 1_000_000;
        for _ in 0..n {
            std::hint::black_box(f.call(std::hint::black_box(&x)).unwrap());
        }
        eprintln!("call {:.1} ns", t.elapsed().as_secs_f64() / n as f64 * 1e9);
    }
    for n in [1000usize, 10_000, 100_000] {
        let f = jit(grad(|x: Var| {
            let mut y = x;
            for i in 0..n / 2 {
                y = y.sin() + x * (i as f64);
            }
            y
        }));
        let t = Instant::now();
        f.call(&x).unwrap();
        eprintln!("unrolled {n}: {:?}", t.elapsed());
        for (s, d) in f.explain(&x).unwrap().timings() {
            eprint!("{s} {:.1}ms  ", d.as_secs_f64() * 1e3);
        }
        eprintln!();
    }
}
