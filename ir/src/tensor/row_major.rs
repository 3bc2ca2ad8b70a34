//! Iteration over indices in memory order.

/// Advances a row-major index to the next element; after the last element, to 0 in every axis.
pub(crate) fn step(index: &mut [usize], shape: &[usize]) {
    for axis in (0..index.len()).rev() {
        index[axis] += 1;
        if index[axis] < shape[axis] {
            return;
        }
        index[axis] = 0;
    }
}
