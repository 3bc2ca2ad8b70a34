//! The cheapest path down a grid: each step leads to the cell below or to one beside that.
//!
//! In the TapeFlow study's changed version (the mutated form), costs are factors, the first row is given, the last
//! column but one has no right neighbour, and the result is the last row. (The study's two arrays of rows that are
//! swapped are one array here: no row is written twice.) In the textbook form, costs are summed, and the result is the
//! sum of the last row, so that the derivative with respect to a cell is the number of paths through it.
//!
//! Of equally cheap cells the first is chosen, in the order straight, left, right.
//!
//! Size: the number of rows and of columns.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise, unit};
use tapeloom::prelude::*;

const SIZES: Sizes = Sizes { test: &[5, 7], study: &[100, 100], large: &[4096, 8192] };

/// The kernel as the TapeFlow study changed it (the mutated form): products of the costs along paths through a grid.
pub(super) const PRODUCTS: Kernel = Kernel {
    name: "pathfinder",
    form: Form::Mutated,
    sizes: SIZES,
    inputs: |size| Inputs {
        variables: vec![
            Array::of(size, |i| if i < size[1] { 1.0 + 0.5 * unit(i) } else { 0.0 }),
            Array::of(size, |i| 1.0 + 0.02 * noise(i)),
        ],
        data: vec![],
        seed: Array::of(&size[1..], unit),
    },
    program: |_, x, _| products(x[0], x[1]),
    by_hand: products_by_hand,
};

/// The kernel as textbooks define it, without the changes of the TapeFlow study: sums of the costs along paths through
/// a grid.
pub(super) const SUMS: Kernel = Kernel {
    name: "pathfinder",
    form: Form::Textbook,
    sizes: SIZES,
    inputs: |size| Inputs {
        variables: vec![Array::of(size, |i| (10.0 * unit(i)).floor())],
        data: vec![],
        seed: Array::full(&[], 1.0),
    },
    program: |_, x, _| sums(x[0]),
    by_hand: sums_by_hand,
};

fn products(start: Var, wall: Var) -> Var {
    let [of_rows, columns] = [wall.shape()[0], wall.shape()[1]];
    let rows = Ref::new(start);
    let cell = |t: Var, n: Var| {
        let least = Ref::new(rows.at((t, n)).get());
        let compare = |beside: Var| {
            let there = rows.at((t, beside)).get();
            least.update(|least| select(least.le(there), least, there));
        };
        cond(n.gt(0), |()| compare(n - 1), |()| (), ());
        cond(n.lt(columns as i64 - 2), |()| compare(n + 1), |()| (), ());
        rows.at((t + 1, n)).set(wall.index((t + 1, n)) * least.get());
    };
    iterations(of_rows - 1, |t| iterations(columns, |n| cell(t, n)));
    rows.get().index(of_rows - 1)
}

fn sums(wall: Var) -> Var {
    let columns = wall.shape()[1];
    let edge = full([1], f64::INFINITY);
    let less = |a: Var, b: Var| select(a.le(b), a, b);
    let step = |(row, wall): (Var, Var)| {
        let left = concat(&[edge, row.slice_axis(0, ..columns - 1)], 0);
        let right = concat(&[row.slice_axis(0, 1..), edge], 0);
        (wall + less(less(row, left), right), ())
    };
    scan(step, wall.index(0), wall.slice_axis(0, 1..)).0.sum()
}

/// Returns the column of the cheapest cell of `row`, the row above, from which a path leads to the cell in column `n`.
/// The candidates are columns n - 1 and n, and n + 1 if `n < last_with_right`.
fn cheapest(row: &[f64], n: usize, last_with_right: usize) -> usize {
    let mut least = n;
    if n > 0 && row[n - 1] < row[least] {
        least = n - 1;
    }
    if n < last_with_right && row[n + 1] < row[least] {
        least = n + 1;
    }
    least
}

/// Computes, by hand, value and gradient of the TapeFlow study's version of the kernel (the mutated form); the tape is
/// the rows of costs.
fn products_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let [of_rows, columns] = [size[0], size[1]];
    let [start, wall] = [0, 1].map(|k| &inputs.variables[k].numbers);
    let mut rows = Vec::with_capacity(of_rows * columns);
    rows.extend_from_slice(&start[..columns]);
    for t in 0..of_rows - 1 {
        for n in 0..columns {
            let row = &rows[t * columns..][..columns];
            let least = row[cheapest(row, n, columns - 2)];
            rows.push(wall[(t + 1) * columns + n] * least);
        }
    }
    let value = rows[(of_rows - 1) * columns..].to_vec();
    let mut of_wall = vec![0.0; of_rows * columns];
    let (mut ct, mut above) = (inputs.seed.numbers.clone(), vec![0.0; columns]);
    for t in (0..of_rows - 1).rev() {
        let row = &rows[t * columns..][..columns];
        above.fill(0.0);
        for (n, ct) in ct.iter().enumerate() {
            let (least, at) = (cheapest(row, n, columns - 2), (t + 1) * columns + n);
            of_wall[at] = ct * row[least];
            above[least] += ct * wall[at];
        }
        std::mem::swap(&mut ct, &mut above);
    }
    let mut of_start = vec![0.0; of_rows * columns];
    of_start[..columns].copy_from_slice(&ct);
    ByHand { value, gradients: vec![of_start, of_wall], tape: 8 * (of_rows - 1) * columns }
}

/// Computes value and gradient of the textbook form by hand; the tape is, for each cell, the direction of the cheapest
/// cell before: left, straight or right.
fn sums_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let [of_rows, columns] = [size[0], size[1]];
    let wall = &inputs.variables[0].numbers;
    let (mut row, mut tape) = (wall[..columns].to_vec(), Vec::with_capacity(wall.len()));
    for t in 1..of_rows {
        let mut next = Vec::with_capacity(columns);
        for n in 0..columns {
            let least = cheapest(&row, n, columns - 1);
            tape.push((least + 1 - n) as u8);
            next.push(wall[t * columns + n] + row[least]);
        }
        row = next;
    }
    let mut slope = vec![0.0; wall.len()];
    slope[(of_rows - 1) * columns..].fill(inputs.seed.numbers[0]);
    for at in (columns..wall.len()).rev() {
        let least = at - columns + usize::from(tape[at - columns]) - 1;
        slope[least] += slope[at];
    }
    ByHand { value: vec![row.iter().sum()], gradients: vec![slope], tape: tape.len() }
}
