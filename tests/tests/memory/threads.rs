//! The peak that `explain` reports for a call on several threads, compared with the memory that the call allocates.

use tapeloom::prelude::*;
use tapeloom_tests::Counting;
use tapeloom_tests::threaded::THREADED;

/// Bytes that a call may allocate in addition to the reported ones, for handles, tables of arguments and the list of
/// threads.
const BESIDE: usize = 32 << 10;

/// Programs without large products, for which the matrix library allocates buffers of its own.
const PROGRAMS: [&str; 4] = ["stencil_1024", "odes_10000", "newton_100000", "heston_20000"];

#[test]
fn the_reported_peak_is_that_of_the_allocator() {
    for name in PROGRAMS {
        let threaded = THREADED.iter().find(|t| t.name == name).unwrap();
        let arguments = (threaded.arguments)().unwrap();
        let given: usize = arguments.iter().map(|a| a.elements() * 8).sum();
        let f = |v: Vec<Var>| (threaded.program)(&v);
        // The first call on several threads starts them. Results stay alive, since their memory is recycled otherwise.
        let mut results = vec![jit(f).threads(7).call(&arguments).unwrap()];
        let peaks = [1, 2, 7].map(|threads| {
            let f = jit(f).threads(threads);
            let peak = f.explain(&arguments).unwrap().peak_bytes();
            let code = f.compile(&arguments).unwrap();
            let (y, most) = Counting::most(|| code.call(&arguments).unwrap());
            results.push(y);
            let reported = peak - given;
            assert!(
                (reported..reported + BESIDE).contains(&most),
                "{name} on {threads} threads: {reported} bytes reported, {most} allocated"
            );
            peak
        });
        let [one, two, seven] = peaks;
        assert!(one <= two && seven - one == 6 * (two - one), "{name}: {peaks:?}");
    }
}
