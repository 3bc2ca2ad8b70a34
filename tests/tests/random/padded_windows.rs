//! Products of windows of padded arrays. The transpose of such a product computes no cotangent of the padding, and must
//! still satisfy `<ct, f x> = <fᵀ ct, x>`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use tapeloom_ir::prim::{Broadcast, Dot, Move, Pad, Window};
use tapeloom_ir::{Atom, Builder, Draft, Dtype, FuncId, Literal, Module, Type};
use tapeloom_tests::transform_words::{Choice, Demand, Letter, append, same_numbers};
use tapeloom_tests::{Case, Failure, Rng, Sweep};

/// Emits a `pad` of a matrix, around and between its elements; negative amounts crop elements, and the fill need not be
/// zero.
fn padded(b: &Builder<'_>, x: Atom, rng: &mut Rng) -> Atom {
    let mut pad = Pad { low: vec![0; 2], high: vec![0; 2], interior: vec![0; 2] };
    for axis in 0..2 {
        if axis == 0 || rng.index(3) == 0 {
            let edge = |rng: &mut Rng| [0, 1, 1, 2, 3, -1][rng.index(6)];
            (pad.low[axis], pad.high[axis]) = (edge(rng), edge(rng));
            pad.interior[axis] = [0, 0, 1, 2][rng.index(4)];
        }
        if b.shape_of(x)[axis] == 1 {
            // Crop at most one end of an axis, so that elements remain.
            pad.low[axis] = pad.low[axis].max(0);
        }
    }
    let fill = Literal::f64(if rng.index(4) == 0 { 0.5 } else { 0.0 });
    b.emit1(pad, &[x, fill.into()])
}

/// Emits windows along the first axis of a matrix: the result has the position in the window as a third axis.
fn windows(b: &Builder<'_>, x: Atom, rng: &mut Rng) -> Atom {
    let shape = b.shape_of(x);
    let (n, places) = (shape[0], 1 + rng.index(3));
    let repeated =
        Broadcast { shape: [n, shape[1], places].into_iter().collect(), dims: vec![0, 1] };
    let x = b.emit1(repeated, &[x]);
    let (scale, divisor) = ([1, 1, 2, -1, -2][rng.index(5)], [1, 1, 2][rng.index(3)]);
    let step = [1, 1, 2, -1, 0][rng.index(5)];
    let extent = 1 + rng.index(6);
    // The windows begin within two elements of an end of the array, so that most of them read elements.
    let begin = if scale < 0 { (n * divisor) as i64 - 1 } else { 0 };
    let offset = begin + rng.index(4) as i64 - 2;
    let of = Window { moves: vec![Move { axis: 0, tap: 2, scale, step, offset, divisor, extent }] };
    let fill = Literal::f64(if rng.index(6) == 0 { 0.25 } else { 0.0 });
    b.emit1(of, &[x, fill.into()])
}

/// Returns a program that computes `Σ_kc windows(padded x)[o,c,k] w[k,c,p]` (o is the window, k the position in it, c a
/// channel), or this product without the sum over `c`, or the product of a padded matrix with windows of another one.
fn program(m: &mut Module, rng: &mut Rng) -> FuncId {
    let mut draft = Draft::new("windows");
    let matrix = |rng: &mut Rng| Type::array(Dtype::F64, &[2 + rng.index(4), 1 + rng.index(3)]);
    let (x, w) = (draft.param(matrix(rng)), draft.param(matrix(rng)));
    let b = Builder::new(m, &mut draft);
    let left = padded(&b, x, rng);
    let (y, dot, right) = match rng.index(3) {
        // In this form, which occurs in reverse passes, the cotangent of the left factor is a product with windows.
        0 => {
            let mut right = padded(&b, w, rng);
            right = windows(&b, right, rng);
            let n = b.shape_of(right)[0];
            let fits = Pad {
                low: vec![0, 0],
                high: vec![n as i64 - b.shape_of(left)[0] as i64, 0],
                interior: vec![0, 0],
            };
            let left = b.emit1(fits, &[left, Literal::f64(0.0).into()]);
            (left, Dot { batch: vec![], contract: vec![(0, 0)] }, right)
        }
        of => {
            let left = windows(&b, left, rng);
            let shape = b.shape_of(left);
            let n = b.shape_of(w)[0];
            let fits = Pad {
                low: vec![0, 0],
                high: vec![shape[2] as i64 - n as i64, 0],
                interior: vec![0, 0],
            };
            let w = b.emit1(fits, &[w, Literal::f64(0.0).into()]);
            if of == 1 {
                (left, Dot { batch: vec![], contract: vec![(2, 0)] }, w)
            } else {
                let dims = vec![0, 2];
                let more = [shape[2], shape[1], b.shape_of(w)[1]].into_iter().collect();
                let w = b.emit1(Broadcast { shape: more, dims }, &[w]);
                (left, Dot { batch: vec![], contract: vec![(1, 1), (2, 0)] }, w)
            }
        }
    };
    let z = b.emit1(dot, &[y, right]);
    draft.finish(m, vec![z]).unwrap()
}

fn holds(m: &mut Module, rng: &mut Rng) -> Result<(), Failure> {
    let f = program(m, rng);
    let types = m.function(f).param_types();
    let args = types.iter().filter_map(Type::as_array).map(|ty| rng.tensor(ty)).collect();
    let case = Case { name: "windows".into(), f, args, smooth: true };
    same_numbers(m, &case, Demand::default())?;
    let gradient = append(m, &case, Letter::Vjp, Choice::Some, rng)?;
    same_numbers(m, &gradient, Demand::default())?;
    let letter = Letter::ALL[rng.index(3)];
    append(m, &gradient, letter, Choice::Some, rng).map(|_| ())
}

#[test]
fn transposes_of_products_of_windows_are_transposes() {
    for seed in Sweep::PaddedWindows.seeds() {
        let mut m = Module::new();
        if let Err(e) = holds(&mut m, &mut Rng::new(seed)) {
            panic!("SWEEP_SEED={seed}: {e}");
        }
    }
}
