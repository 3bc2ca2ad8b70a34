//! Convolutions and pools with strides, and their transposes, compared with naive sums over kernel positions, bit for
//! bit.

#![allow(clippy::unwrap_used, reason = "tests")]

use tapeloom::conv::{self, Conv, windows};
use tapeloom::{accelerator::Machine, prelude::*};

/// A convolution along one axis: the number of elements, the number of kernel positions, and the movement of windows.
#[derive(Clone, Copy, Debug)]
struct Line {
    elements: usize,
    places: usize,
    stride: usize,
    dilation: usize,
    spread: usize,
    padding: (i64, i64),
}

impl Line {
    /// Returns the number of windows: the extent of the result.
    fn windows(&self) -> usize {
        let reach = |n: usize, by: usize| if n == 0 { 0 } else { (n - 1) * by + 1 } as i64;
        let room = reach(self.elements, self.spread) + self.padding.0 + self.padding.1
            - reach(self.places, self.dilation);
        if room < 0 { 0 } else { room as usize / self.stride + 1 }
    }

    /// Returns the index of the element that window `o` reads at kernel position `k`, or `None` in the padding.
    fn read(&self, o: usize, k: usize) -> Option<usize> {
        let at = (o * self.stride + k * self.dilation) as i64 - self.padding.0;
        let (i, rest) = (at.div_euclid(self.spread as i64), at.rem_euclid(self.spread as i64));
        (rest == 0 && i >= 0 && (i as usize) < self.elements).then_some(i as usize)
    }
}

/// Returns geometries of convolutions in which errors in remainders of strides, padding or ends are likely.
fn lines() -> Vec<Line> {
    let mut all = Vec::new();
    for (elements, places) in [(1, 1), (1, 7), (2, 5), (7, 1), (7, 3), (13, 4), (12, 9)] {
        for (stride, dilation, spread) in [
            (1, 1, 1),
            (2, 1, 1),
            (3, 1, 1),
            (5, 1, 1),
            (3, 2, 1),
            (2, 2, 1),
            (4, 6, 1),
            (1, 1, 3),
            (3, 1, 2),
            (2, 3, 4),
            (1, 3, 2),
        ] {
            for padding in [(0, 0), (2, 1), (9, 8), (-1, 3), (1, -2)] {
                let line = Line { elements, places, stride, dilation, spread, padding };
                let whole = (elements - 1) * spread + 1;
                let cropped = whole as i64 + padding.0.min(0) + padding.1.min(0);
                if cropped > 0 && line.windows() > 0 {
                    all.push(line);
                }
            }
        }
    }
    all
}

fn numbers(shape: &[usize], from: f64) -> Tensor {
    let n: usize = shape.iter().product();
    // Small integers: their sums of products are exact in any order, so that bits can be compared.
    let data = (0..n).map(|i| ((i as f64 * 7.0 + from) * 5.0 % 13.0) - 6.0).collect();
    Tensor::new(shape, data).unwrap()
}

/// Returns a message for the first difference between the expected numbers and the results of `f` on any engine,
/// compared bit for bit.
fn wrong(
    f: impl Fn(Vec<Var>) -> Vec<Var> + Clone + 'static,
    args: &[Tensor],
    want: &[Vec<f64>],
) -> Option<String> {
    let args = args.to_vec();
    let engines = [
        ("native", jit(f.clone()).call(&args)),
        ("interpreter", jit(f.clone()).interpreted().call(&args)),
        ("accelerator", jit(f).simulate(&args, Machine::cal()).map(|(results, _)| results)),
    ];
    for (engine, got) in engines {
        let got = match got {
            Ok(got) => got,
            Err(e) => return Some(format!("{engine}: {e}")),
        };
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            let got: Vec<f64> = got.numbers().collect();
            if got != *want {
                return Some(format!("{engine}: result {i} is {got:?}, not {want:?}"));
            }
        }
    }
    None
}

#[track_caller]
fn report(failures: &[String]) {
    let first = &failures[..failures.len().min(5)];
    assert!(failures.is_empty(), "{} fail:\n{}", failures.len(), first.join("\n"));
}

/// Convolutions along one axis, for two images, three channels and two outputs: values, gradients and second
/// derivatives must equal naive sums bit for bit.
#[test]
fn convolutions_are_slow_sums() {
    let (images, channels, outputs) = (2, 3, 2);
    let mut failures = Vec::new();
    for line in lines() {
        let count = line.windows();
        let x = numbers(&[images, channels, line.elements], 1.0);
        let w = numbers(&[outputs, channels, line.places], 4.0);
        let ct = numbers(&[images, outputs, count], 2.0);
        let flat = |t: &Tensor| t.numbers().collect::<Vec<f64>>();
        let (xs, ws, cts) = (flat(&x), flat(&w), flat(&ct));
        let (mut y, mut dx, mut dw) =
            (vec![0.0; cts.len()], vec![0.0; xs.len()], vec![0.0; ws.len()]);
        for n in 0..images {
            for c in 0..channels {
                for p in 0..outputs {
                    for o in 0..count {
                        for k in 0..line.places {
                            let Some(i) = line.read(o, k) else { continue };
                            let (i, k) = (
                                (n * channels + c) * line.elements + i,
                                (p * channels + c) * line.places + k,
                            );
                            let o = (n * outputs + p) * count + o;
                            y[o] += xs[i] * ws[k];
                            dx[i] += cts[o] * ws[k];
                            dw[k] += cts[o] * xs[i];
                        }
                    }
                }
            }
        }
        let how = Conv::new()
            .strides([line.stride])
            .dilation([line.dilation])
            .input_dilation([line.spread])
            .padding([line.padding]);
        let f = move |x: Vec<Var>| {
            let how = how.clone();
            let y = conv::conv(x[0], x[1], how.clone());
            let ct = x[2];
            let slopes =
                grad(move |x: Vec<Var>| (conv::conv(x[0], x[1], how.clone()) * ct).sum())(vec![
                    x[0], x[1],
                ]);
            vec![y, slopes[0], slopes[1]]
        };
        let why = wrong(f, &[x, w, ct], &[y, dx, dw]);
        failures.extend(why.map(|why| format!("{line:?} {why}")));
    }
    report(&failures);
}

/// Sums over windows along two axes, and their transposes, must equal naive sums bit for bit.
#[test]
fn pools_are_slow_sums() {
    let mut failures = Vec::new();
    let all = lines();
    for (n, line) in all.iter().enumerate().step_by(9) {
        let other = all[(n * 17 + 5) % all.len()];
        let pair = [*line, other];
        let x = numbers(&[2, line.elements, other.elements], 3.0);
        let counts = pair.map(|l| l.windows());
        let ct = numbers(&[2, counts[0], counts[1]], 5.0);
        let (xs, cts): (Vec<f64>, Vec<f64>) = (x.numbers().collect(), ct.numbers().collect());
        let (mut y, mut dx) = (vec![0.0; cts.len()], vec![0.0; xs.len()]);
        for b in 0..2 {
            for (o, p) in (0..counts[0]).flat_map(|o| (0..counts[1]).map(move |p| (o, p))) {
                for (k, l) in (0..line.places).flat_map(|k| (0..other.places).map(move |l| (k, l)))
                {
                    let (Some(i), Some(j)) = (line.read(o, k), other.read(p, l)) else { continue };
                    let at = (b * line.elements + i) * other.elements + j;
                    let to = (b * counts[0] + o) * counts[1] + p;
                    y[to] += xs[at];
                    dx[at] += cts[to];
                }
            }
        }
        let of = windows([line.places, other.places])
            .strides([line.stride, other.stride])
            .dilation([line.dilation, other.dilation])
            .input_dilation([line.spread, other.spread])
            .padding([line.padding, other.padding]);
        let f = move |x: Vec<Var>| {
            let (of, ct) = (of.clone(), x[1]);
            let y = conv::sum_pool(x[0], of.clone());
            let by_patches = conv::patches(x[0], of.clone()).sum_axis([-2, -1]);
            let pooled = of.clone();
            let slope = grad(move |x: Var| (conv::sum_pool(x, pooled.clone()) * ct).sum())(x[0]);
            // The transpose of `patches`, in which each position of a window has its own cotangent.
            let weighted = move |x: Var| {
                let y = conv::patches(x, of.clone());
                (y * ct.expand_dims(-1).expand_dims(-1).broadcast_to(y.shape())).sum()
            };
            vec![y, by_patches, slope, grad(weighted)(x[0])]
        };
        let why = wrong(f, &[x, ct], &[y.clone(), y, dx.clone(), dx]);
        failures.extend(why.map(|why| format!("{pair:?} {why}")));
    }
    report(&failures);
}

/// An infinite element must be multiplied by elements of the kernel only, in every lowering: a product of infinity and
/// a zero from padding would be nan.
#[test]
fn an_infinite_element_meets_the_places_of_a_kernel_alone() {
    let mut failures = Vec::new();
    let few = [(1, 7), (2, 3), (2, 9), (3, 20)].into_iter().flat_map(|(elements, places)| {
        [1, 2, 3].map(|stride| {
            let padding = (places as i64 - 1, places as i64 - 1);
            Line { elements, places, stride, dilation: 1, spread: 1, padding }
        })
    });
    for line in lines().into_iter().step_by(5).chain(few) {
        let count = line.windows();
        let (mut y, mut dx, mut dw) =
            (vec![0.0; count], vec![0.0; line.elements], vec![0.0; line.places]);
        let one_infinite = |n: usize| {
            let mut all = vec![1.0; n];
            all[n / 2] = f64::INFINITY;
            all
        };
        let (xs, cts) = (one_infinite(line.elements), one_infinite(count));
        for (o, k) in (0..count).flat_map(|o| (0..line.places).map(move |k| (o, k))) {
            if let Some(i) = line.read(o, k) {
                y[o] += 0.5 * xs[i];
                dx[i] += 0.5 * cts[o];
                dw[k] += xs[i];
            }
        }
        let how = Conv::new()
            .strides([line.stride])
            .dilation([line.dilation])
            .input_dilation([line.spread])
            .padding([line.padding]);
        let f = move |v: Vec<Var>| {
            let (how, w) = (how.clone(), v[1]);
            let y = conv::conv(v[0], w, how.clone());
            let in_x = grad({
                let (how, ct) = (how.clone(), v[2]);
                move |x: Var| (conv::conv(x, w, how.clone()) * ct).sum()
            });
            let x = v[0];
            let in_w = grad(move |w: Var| conv::conv(x, w, how.clone()).sum());
            vec![y, in_x(v[3]), in_w(w)]
        };
        let of = |n: usize, data: Vec<f64>| Tensor::new(&[1, 1, n], data).unwrap();
        let args = [
            of(line.elements, xs),
            Tensor::full(&[1, 1, line.places], 0.5).unwrap(),
            of(count, cts),
            Tensor::full(&[1, 1, line.elements], 1.0).unwrap(),
        ];
        let why = wrong(f, &args, &[y, dx, dw]);
        failures.extend(why.map(|why| format!("{line:?} {why}")));
    }
    report(&failures);
}
