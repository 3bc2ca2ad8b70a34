//! A program with a sum of each of many arrays: its number of loops must be proportional to the number of arrays.

use tapeloom::prelude::*;

/// Sums over equal extents share loops, so that their arrays are read together. At most 16 sums share one loop: each
/// sum holds accumulators in registers, and the time of register allocation grows faster than the number of sums. Sums
/// of 200 arrays in one loop took 19 seconds to compile.
#[test]
fn sums_of_many_arrays_share_loops_in_groups() {
    let loops = |arrays: usize| {
        let x = vec![Tensor::full(&[1000], 0.5).unwrap(); arrays];
        let f = jit(|x: Vec<Var>| x.iter().map(|x| x.square().sum()).collect::<Vec<_>>());
        let kernels = f.explain(&x).unwrap().kernels();
        let folds = kernels.lines().filter(|l| l.trim_start().starts_with("fold "));
        (folds.count(), kernels)
    };
    for arrays in [16, 80, 160] {
        let (folds, kernels) = loops(arrays);
        let groups = arrays / 16;
        // Each group of 16 sums has one loop over vectors, and may have a second one for the remainder.
        assert!(folds >= groups && folds <= 2 * groups, "{folds} loops for {arrays}:\n{kernels}");
    }
}
