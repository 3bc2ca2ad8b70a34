//! LeNet-5: a network for digits.
//!
//! In the version that the TapeFlow study changed (the mutated form), convolutions are products of matrices, and the
//! memory of each filter overlaps that of the next. Sums over windows are computed once per element, so that the last
//! windows read memory behind the layer. There are no activations. All outputs of layers lie in one array, and all
//! weights in another. The result depends on the first filter of the first layer only. The textbook form is the loss of
//! the network of LeCun et al. (1998) over a batch of images, with hyperbolic tangents; every filter of its second
//! layer reads all maps of the first.
//!
//! Size: the edge of the image; for the textbook form, the number of images.

use super::{Array, ByHand, Form, Inputs, Kernel, Sizes, iterations, noise, unit};
use tapeloom::conv::Conv;
use tapeloom::prelude::*;

/// The kernel as the TapeFlow study changed it (the mutated form): products of matrices, written with loops.
pub(super) const PRODUCTS: Kernel = Kernel {
    name: "lenet",
    form: Form::Mutated,
    sizes: Sizes { test: &[20], study: &[32], large: &[1060] },
    inputs: |size| Inputs {
        variables: vec![Array::of(&[Widths::of(size[0]).weights()], |i| 0.2 * noise(i))],
        data: vec![Array::of(&[size[0] * size[0]], unit)],
        seed: Array::full(&[10], 1.0),
    },
    program: |size, x, data| products(Widths::of(size[0]), x[0], data[0]),
    by_hand: products_by_hand,
};

/// The kernel as textbooks define it, without the changes of the TapeFlow study: the loss of the network, written with
/// arrays.
pub(super) const NETWORK: Kernel = Kernel {
    name: "lenet",
    form: Form::Textbook,
    sizes: Sizes { test: &[1], study: &[1], large: &[64] },
    inputs: |size| {
        let weights = LAYERS.iter().flat_map(|layer| {
            let fan = layer[1..].iter().product::<usize>() as f64;
            [
                Array::of(layer, move |i| noise(i) / fan.sqrt()),
                Array::of(&layer[..1], |i| 0.1 * noise(i)),
            ]
        });
        Inputs {
            variables: weights.collect(),
            data: vec![Array::of(&[size[0], EDGE, EDGE], unit)],
            seed: Array::full(&[], 1.0),
        }
    },
    program: |_, x, data| loss(x, data[0]),
    by_hand: loss_by_hand,
};

/// The number of columns and rows of a filter, and the edge of a pooling window, in elements.
const FILTER: usize = 5;
const WINDOW: usize = 2;
/// The number of filters of each of the first two layers, and of outputs of each of the last three.
const FILTERS: [usize; 2] = [6, 16];
const OUTPUTS: [usize; 3] = [120, 84, 10];

/// The edges, in elements, of the inputs and outputs of the layers.
#[derive(Clone, Copy)]
struct Widths {
    image: usize,
    first: usize,
    pooled: usize,
    second: usize,
    third: usize,
}

impl Widths {
    fn of(image: usize) -> Widths {
        let first = image + 1 - FILTER;
        let pooled = first / WINDOW;
        let second = pooled + 1 - FILTER;
        Widths { image, first, pooled, second, third: second / WINDOW }
    }

    /// Returns the position of the first weight of each layer in the array of all weights.
    fn filters(self) -> [usize; 5] {
        let area = FILTER * FILTER;
        let second = FILTERS[0] * area;
        let third = second + FILTERS[1] * area;
        let fourth = third + OUTPUTS[0] * area;
        [0, second, third, fourth, fourth + OUTPUTS[1]]
    }

    /// Returns the length of the array of all weights, including the memory behind the weights that the last filter of
    /// the first layer reads.
    fn weights(self) -> usize {
        let behind = (FILTERS[0] - 1) * FILTER * FILTER + FILTER * self.image;
        behind.max(self.filters()[4] + OUTPUTS[2])
    }

    /// Returns the positions of the layers' outputs in the array of all outputs: products and sums of the first two
    /// layers, then the outputs of the last three, then the end.
    fn places(self) -> [usize; 8] {
        let of_first = FILTERS[0] * self.first * self.first;
        let sizes = [
            of_first,
            of_first,
            FILTERS[1] * self.second * self.second,
            FILTERS[1] * self.third * self.third,
            OUTPUTS[0].max(FILTER * self.third),
            OUTPUTS[1],
            OUTPUTS[2],
        ];
        let mut places = [0; 8];
        (0..7).for_each(|i| places[i + 1] = places[i] + sizes[i]);
        places
    }
}

fn products(widths: Widths, weights: Var, image: Var) -> Var {
    let places = widths.places();
    let memory = Ref::new(zeros([places[7]], Dtype::F64));
    // Adds the product of a square matrix and a filter, a matrix of five columns in `weights`, to the outputs from
    // position `to` on.
    let product = |matrix: &dyn Fn(Var) -> Var, width: usize, filter: Var, to: Var| {
        iterations(width, |i| {
            iterations(FILTER, |j| {
                let out = memory.at(to + i * FILTER + j);
                out.set(0.0);
                iterations(width, |k| {
                    out.add(matrix(i * width + k) * weights.index(filter + k * FILTER + j));
                });
            });
        });
    };
    let pool = |from: Var, width: usize, to: Var| {
        iterations(width, |i| {
            iterations(width, |j| {
                let sum = Ref::new(0.0);
                iterations(WINDOW, |k| {
                    let row = from + (i * WINDOW + k) * width;
                    iterations(WINDOW, |l| sum.add(memory.at(row + j * WINDOW + l).get()));
                });
                memory.at(to + i * width + j).set(sum.get());
            });
        });
    };
    let dense = |from: usize, width: usize, filter: usize, to: usize, outputs: usize| {
        iterations(outputs, |i| {
            let sum = Ref::new(0.0);
            iterations(width, |j| sum.add(memory.at(j + from).get() * weights.index(i + filter)));
            memory.at(i + to).set(sum.get());
        });
    };
    let at = |from: usize| move |i: Var| memory.at(i + from).get();
    let number = |n: usize| full([], n as i64);

    let filters = widths.filters();
    let map = widths.first * widths.first;
    iterations(FILTERS[0], |f| {
        product(&|i| image.index(i), widths.image, f * (FILTER * FILTER), f * map);
        pool(f * map, widths.first, f * (widths.pooled * widths.pooled) + places[1]);
    });
    product(&at(places[1]), widths.pooled, number(filters[1]), number(places[2]));
    pool(number(places[2]), widths.second, number(places[3]));
    product(&at(places[3]), widths.third, number(filters[2]), number(places[4]));
    dense(places[4], OUTPUTS[0], filters[3], places[5], OUTPUTS[1]);
    dense(places[5], OUTPUTS[1], filters[4], places[6], OUTPUTS[2]);
    memory.slice_axis(0, places[6]..places[7]).get()
}

/// Computes, by hand, value and gradient of the TapeFlow study's version of the kernel. Of the first layer only the
/// filter that affects the result is computed; the tape is the operands of the products.
fn products_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let widths = Widths::of(size[0]);
    let filters = widths.filters();
    let (weights, image) = (&inputs.variables[0].numbers, &inputs.data[0].numbers);
    // Sums over windows read memory behind the products, which is zero until all sums are computed.
    let pool = |x: &[f64], width: usize, n: usize| -> Vec<f64> {
        let at = |i: usize| x.get(i).copied().unwrap_or(0.0);
        let window = |i: usize| i / width * WINDOW * width + i % width * WINDOW;
        let sum = |i: usize| [0, 1, width, width + 1].map(|by| at(window(i) + by)).iter().sum();
        (0..n).map(sum).collect()
    };
    let unpool = |ct: &[f64], width: usize, n: usize| -> Vec<f64> {
        let mut of_x = vec![0.0; n];
        for (i, ct) in ct.iter().enumerate() {
            let window = i / width * WINDOW * width + i % width * WINDOW;
            for by in [0, 1, width, width + 1] {
                if let Some(x) = of_x.get_mut(window + by) {
                    *x += ct;
                }
            }
        }
        of_x
    };
    let product = |matrix: &[f64], width: usize, filter: usize| -> Vec<f64> {
        let mut out = vec![0.0; width * FILTER];
        for (row, out) in matrix.chunks(width).zip(out.chunks_mut(FILTER)) {
            for (k, x) in row.iter().enumerate() {
                let filter = &weights[filter + k * FILTER..][..FILTER];
                out.iter_mut().zip(filter).for_each(|(out, w)| *out += x * w);
            }
        }
        out
    };
    let dense = |x: &[f64], n: usize, filter: usize, outputs: usize| -> Vec<f64> {
        (0..outputs).map(|i| x[..n].iter().map(|x| x * weights[filter + i]).sum()).collect()
    };
    let area = |width: usize| width * width;
    let sums = pool(&product(image, widths.image, 0), widths.first, area(widths.pooled));
    let second = product(&sums, widths.pooled, filters[1]);
    let more_sums = pool(&second, widths.second, area(widths.third));
    let mut third = product(&more_sums, widths.third, filters[2]);
    let given = third.len();
    third.resize(OUTPUTS[0].max(given), 0.0);
    let fourth = dense(&third, OUTPUTS[0], filters[3], OUTPUTS[1]);
    let value = dense(&fourth, OUTPUTS[1], filters[4], OUTPUTS[2]);

    let mut slope = vec![0.0; weights.len()];
    let mut back_dense = |x: &[f64], n: usize, filter: usize, ct: &[f64]| -> Vec<f64> {
        let sum: f64 = x[..n].iter().sum();
        ct.iter().enumerate().for_each(|(i, ct)| slope[filter + i] += ct * sum);
        let each: f64 = ct.iter().enumerate().map(|(i, ct)| ct * weights[filter + i]).sum();
        vec![each; n]
    };
    let of_fourth = back_dense(&fourth, OUTPUTS[1], filters[4], &inputs.seed.numbers);
    let mut of_third = back_dense(&third, OUTPUTS[0], filters[3], &of_fourth);
    of_third.resize(given, 0.0);
    let mut back_product = |matrix: &[f64], width: usize, filter: usize, ct: &[f64]| {
        let mut of_matrix = vec![0.0; matrix.len()];
        for (i, ct) in ct.chunks(FILTER).enumerate() {
            for k in 0..width {
                for (j, ct) in ct.iter().enumerate() {
                    let (at, w) = (i * width + k, filter + k * FILTER + j);
                    of_matrix[at] += ct * weights[w];
                    slope[w] += ct * matrix[at];
                }
            }
        }
        of_matrix
    };
    let of_sums = back_product(&more_sums, widths.third, filters[2], &of_third);
    let of_second = unpool(&of_sums, widths.second, second.len());
    let of_sums = back_product(&sums, widths.pooled, filters[1], &of_second);
    let of_first = unpool(&of_sums, widths.first, widths.image * FILTER);
    for (row, ct) in image.chunks(widths.image).zip(of_first.chunks(FILTER)) {
        for (x, slope) in row.iter().zip(slope.chunks_mut(FILTER)) {
            slope.iter_mut().zip(ct).for_each(|(slope, ct)| *slope += ct * x);
        }
    }
    let kept = sums.len() + more_sums.len() + third.len() + fourth.len();
    ByHand { value, gradients: vec![slope], tape: 8 * kept }
}

/// The edge of an image of the textbook form, in pixels.
const EDGE: usize = 32;
/// The shapes of the textbook form's weights: outputs, then inputs.
const LAYERS: [&[usize]; 5] =
    [&[6, 1, 5, 5], &[16, 6, 5, 5], &[120, 16, 5, 5], &[84, 120], &[10, 84]];

fn loss(weights: &[Var], images: Var) -> Var {
    let mut x = images.expand_dims(1);
    for (layer, wb) in weights.chunks(2).enumerate() {
        let (w, b) = (wb[0], wb[1]);
        x = if layer < 3 { convolution(x, w, b).tanh() } else { x.dot(w.t()) + b };
        x = match layer {
            0 | 1 => average(x),
            2 => x.reshape([x.len(), OUTPUTS[0]]),
            3 => x.tanh(),
            _ => x,
        };
    }
    let labels = arange(x.len(), Dtype::I64) % 10;
    -(x.log_softmax(1) * labels.one_hot(10, Dtype::F64)).sum()
}

fn convolution(x: Var, w: Var, b: Var) -> Var {
    conv::conv(x, w, Conv::new()) + b.reshape([b.len(), 1, 1])
}

fn average(x: Var) -> Var {
    conv::avg_pool(x, conv::windows([2, 2]).strides([2, 2]))
}

/// Square feature maps: one row-major matrix per channel.
struct Maps {
    channels: usize,
    edge: usize,
    numbers: Vec<f64>,
}

impl Maps {
    fn zeros(channels: usize, edge: usize) -> Maps {
        Maps { channels, edge, numbers: vec![0.0; channels * edge * edge] }
    }

    fn convolved(&self, w: &[f64], b: &[f64]) -> Maps {
        let mut out = Maps::zeros(b.len(), self.edge + 1 - FILTER);
        out.numbers.chunks_mut(out.edge * out.edge).zip(b).for_each(|(map, b)| map.fill(*b));
        self.taps(b.len(), |tap, from, to, n| {
            let (x, y) = (&self.numbers[from..from + n], &mut out.numbers[to..to + n]);
            y.iter_mut().zip(x).for_each(|(y, x)| *y += w[tap] * x);
        });
        out
    }

    /// The reverse pass of a convolution: from the cotangent `ct` of its result, computes the cotangents of its
    /// weights, biases and input maps, and adds them to the given arrays.
    fn back(&self, w: &[f64], ct: &Maps, of_w: &mut [f64], of_b: &mut [f64], of_x: &mut [f64]) {
        let maps = ct.numbers.chunks(ct.edge * ct.edge);
        of_b.iter_mut().zip(maps).for_each(|(b, map)| *b += map.iter().sum::<f64>());
        self.taps(ct.channels, |tap, from, to, n| {
            let (x, ct) = (&self.numbers[from..from + n], &ct.numbers[to..to + n]);
            of_w[tap] += x.iter().zip(ct).map(|(x, ct)| x * ct).sum::<f64>();
            of_x[from..from + n].iter_mut().zip(ct).for_each(|(x, ct)| *x += w[tap] * ct);
        });
    }

    /// Calls `f` for each weight and each row of the output, with the index of the weight, the start of the elements
    /// that are read, the start of the elements that are written, and their number.
    fn taps(&self, outputs: usize, mut f: impl FnMut(usize, usize, usize, usize)) {
        let edge = self.edge + 1 - FILTER;
        for tap in 0..outputs * self.channels * FILTER * FILTER {
            let (j, i) = (tap % FILTER, tap / FILTER % FILTER);
            let channel = tap / (FILTER * FILTER) % self.channels;
            let output = tap / (FILTER * FILTER * self.channels);
            for row in 0..edge {
                let from = (channel * self.edge + row + i) * self.edge + j;
                f(tap, from, (output * edge + row) * edge, edge);
            }
        }
    }

    fn tanh(mut self) -> Maps {
        self.numbers.iter_mut().for_each(|x| *x = x.tanh());
        self
    }

    /// Returns the position in the pooled maps of the mean to which element `i` contributes.
    fn mean(&self, i: usize) -> usize {
        let (row, column) = (i / self.edge, i % self.edge);
        (row / self.edge * self.edge + row % self.edge) / 2 * (self.edge / 2) + column / 2
    }

    fn averaged(&self) -> Maps {
        let mut out = Maps::zeros(self.channels, self.edge / 2);
        self.numbers.iter().enumerate().for_each(|(i, x)| out.numbers[self.mean(i)] += x / 4.0);
        out
    }

    /// Returns the cotangent of the operand of tanh, given the cotangent `ct` of the averaged results of tanh.
    fn back_averaged(&self, ct: &[f64]) -> Maps {
        let of = |(i, y): (usize, &f64)| ct[self.mean(i)] / 4.0 * (1.0 - y * y);
        let numbers = self.numbers.iter().enumerate().map(of).collect();
        Maps { channels: self.channels, edge: self.edge, numbers }
    }
}

/// Computes value and gradient of the textbook form by hand; the tape is the results of tanh for one image.
fn loss_by_hand(size: &[usize], inputs: &Inputs) -> ByHand {
    let weights: Vec<&[f64]> = inputs.variables.iter().map(|x| &x.numbers[..]).collect();
    let seed = inputs.seed.numbers[0];
    let mut gradients: Vec<Vec<f64>> = weights.iter().map(|w| vec![0.0; w.len()]).collect();
    let (mut loss, mut tape) = (0.0, 0);
    let dense = |w: &[f64], b: &[f64], x: &[f64]| -> Vec<f64> {
        let row = |(w, b): (&[f64], &f64)| w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>() + b;
        w.chunks(x.len()).zip(b).map(row).collect()
    };
    let back = |w: &[f64], x: &[f64], ct: &[f64], [of_w, of_b]: [&mut Vec<f64>; 2]| -> Vec<f64> {
        let mut of_x = vec![0.0; x.len()];
        for (i, ct) in ct.iter().enumerate() {
            of_b[i] += ct;
            let row = i * x.len()..(i + 1) * x.len();
            of_w[row.clone()].iter_mut().zip(x).for_each(|(of_w, x)| *of_w += ct * x);
            of_x.iter_mut().zip(&w[row]).for_each(|(of_x, w)| *of_x += ct * w);
        }
        of_x
    };
    for (label, image) in inputs.data[0].numbers.chunks(EDGE * EDGE).enumerate().take(size[0]) {
        let image = Maps { channels: 1, edge: EDGE, numbers: image.to_vec() };
        let c1 = image.convolved(weights[0], weights[1]).tanh();
        let s2 = c1.averaged();
        let c3 = s2.convolved(weights[2], weights[3]).tanh();
        let s4 = c3.averaged();
        let c5 = s4.convolved(weights[4], weights[5]).tanh();
        let f6 = dense(weights[6], weights[7], &c5.numbers);
        let f6: Vec<f64> = f6.into_iter().map(f64::tanh).collect();
        let out = dense(weights[8], weights[9], &f6);
        let most = out.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let sum: f64 = out.iter().map(|x| (x - most).exp()).sum();
        loss += most + sum.ln() - out[label % 10];
        tape = 8 * (c1.numbers.len() + c3.numbers.len() + c5.numbers.len() + f6.len());

        let hit = |i: usize| f64::from(u8::from(i == label % 10));
        let of_out: Vec<f64> =
            out.iter().enumerate().map(|(i, x)| seed * ((x - most).exp() / sum - hit(i))).collect();
        let [of_w1, of_b1, of_w3, of_b3, of_w5, of_b5, of_w6, of_b6, of_w, of_b] =
            &mut gradients[..]
        else {
            continue;
        };
        let of_f6 = back(weights[8], &f6, &of_out, [of_w, of_b]);
        let of_f6: Vec<f64> = of_f6.iter().zip(&f6).map(|(ct, y)| ct * (1.0 - y * y)).collect();
        let mut of_c5 = back(weights[6], &c5.numbers, &of_f6, [of_w6, of_b6]);
        of_c5.iter_mut().zip(&c5.numbers).for_each(|(ct, y)| *ct *= 1.0 - y * y);
        let of_c5 = Maps { channels: c5.channels, edge: c5.edge, numbers: of_c5 };
        let mut of_s4 = vec![0.0; s4.numbers.len()];
        s4.back(weights[4], &of_c5, of_w5, of_b5, &mut of_s4);
        let of_c3 = c3.back_averaged(&of_s4);
        let mut of_s2 = vec![0.0; s2.numbers.len()];
        s2.back(weights[2], &of_c3, of_w3, of_b3, &mut of_s2);
        let of_c1 = c1.back_averaged(&of_s2);
        let mut nowhere = vec![0.0; image.numbers.len()];
        image.back(weights[0], &of_c1, of_w1, of_b1, &mut nowhere);
    }
    ByHand { value: vec![loss], gradients, tape }
}
