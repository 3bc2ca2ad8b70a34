//! The operations of the golden data, written with the library's public API.

use super::Operation;
use serde_json::Value;
use std::rc::Rc;
use tapeloom::prelude::*;

/// Returns the library's function for the operation that the golden data call `name`, with these parameters; `None` if
/// the library has no such function.
pub(super) fn operation(name: &str, params: &Value) -> Option<Operation> {
    if let Some(f) = unary(name) {
        return Some(Rc::new(move |x| vec![f(x[0])]));
    }
    if let Some(f) = binary(name) {
        return Some(Rc::new(move |x| vec![f(x[0], x[1])]));
    }
    structural(name, params)
}

/// Returns the library's function of one array that the golden data call `name`; `None` if the library has no such
/// function.
pub(super) fn unary(name: &str) -> Option<fn(Var) -> Var> {
    Some(match name {
        "neg" => |x| -x,
        "abs" => Var::abs,
        "sign" => Var::signum,
        "floor" => Var::floor,
        "ceil" => Var::ceil,
        "round" => Var::round,
        "exp" => Var::exp,
        "exp2" => Var::exp2,
        "expm1" => Var::exp_m1,
        "log" => Var::ln,
        "log1p" => Var::ln_1p,
        "sqrt" => Var::sqrt,
        "rsqrt" => Var::rsqrt,
        "cbrt" => Var::cbrt,
        "sin" => Var::sin,
        "cos" => Var::cos,
        "tan" => Var::tan,
        "asin" => Var::asin,
        "acos" => Var::acos,
        "atan" => Var::atan,
        "sinh" => Var::sinh,
        "cosh" => Var::cosh,
        "tanh" => Var::tanh,
        "asinh" => Var::asinh,
        "acosh" => Var::acosh,
        "atanh" => Var::atanh,
        "logistic" => Var::sigmoid,
        "erf" => Var::erf,
        "erfc" => Var::erfc,
        "erf_inv" => Var::erf_inv,
        "lgamma" => Var::lgamma,
        "digamma" => Var::digamma,
        "square" => Var::square,
        "is_finite" => Var::is_finite,
        "reciprocal" => Var::recip,
        "convert_f64_f32" => |x| x.convert(Dtype::F32),
        "convert_i64_f64" => |x| x.convert(Dtype::F64),
        "relu" => Var::relu,
        "gelu_tanh" => Var::gelu_tanh,
        "gelu_exact" => Var::gelu,
        "silu" => Var::silu,
        "softplus" => Var::softplus,
        "softmax" => |x| x.softmax(-1),
        "log_softmax" => |x| x.log_softmax(-1),
        "elu" => |x| x.elu(),
        "cholesky_of_symmetrized" => linalg::cholesky,
        "inv" => linalg::inv,
        "det" => linalg::det,
        "eigvalsh" => linalg::eigvalsh,
        "svdvals" => linalg::svdvals,
        // The projector onto the eigenvectors of the two smallest eigenvalues.
        "eigh_projector" => |x| {
            let v = linalg::eigh(x).1.slice_axis(1, 0..2);
            v.matmul(v.t())
        },
        "qr_abs_r" => |x| linalg::qr(x).1.abs(),
        "lu_solve_logdet" => |x| linalg::lu_factor(x).packed.diagonal().abs().ln().sum(),
        "pinv" => linalg::pinv,
        "expm" => linalg::expm,
        "bessel_i0e" => Var::i0e,
        "bessel_i1e" => Var::i1e,
        "log_ndtr" => Var::log_ndtr,
        "ndtri" => Var::ndtri,
        "fft2_power" => |x| fft::fft2(x).abs2(),
        _ => return None,
    })
}

fn binary(name: &str) -> Option<fn(Var, Var) -> Var> {
    Some(match name {
        "add" | "add_broadcast" => |x, y| x + y,
        "sub" => |x, y| x - y,
        "mul" | "mul_broadcast" => |x, y| x * y,
        "div" => |x, y| x / y,
        "rem" => |x, y| x % y,
        "pow" => |x, y| x.pow(y),
        "atan2" => |x, y| x.atan2(y),
        "max" => |x, y| x.maximum(y),
        "min" => |x, y| x.minimum(y),
        "nextafter" => |x, y| x.next_after(y),
        "igamma" => |a, x| a.gammainc(x),
        "igammac" => |a, x| a.gammaincc(x),
        "betaln" => |x, y| x.betaln(y),
        "xlogy" => |x, y| x.xlogy(y),
        "eq" => |x, y| x.eq(y),
        "ne" => |x, y| x.ne(y),
        "lt" => |x, y| x.lt(y),
        "le" => |x, y| x.le(y),
        "gt" => |x, y| x.gt(y),
        "ge" => |x, y| x.ge(y),
        "and" => |x, y| x & y,
        "or" => |x, y| x | y,
        "xor" => |x, y| x ^ y,
        "shift_left" => |x, y| x << y,
        "shift_right_arithmetic" => |x, y| x >> y,
        "dot" | "matvec" => |x, y| x.dot(y),
        "matmul" | "batch_matmul" => |x, y| x.matmul(y),
        "irfft_of_rfft_filter" => {
            |x, h| fft::irfft(fft::rfft(x, -1) * h, fft::along(-1).points(x.len()))
        }
        "triangular_solve" => |t, b| linalg::solve_triangular(t, b, Triangle::LOWER),
        "triangular_solve_trans_upper" => {
            |t, b| linalg::solve_triangular(t, b, Triangle::UPPER.transposed())
        }
        "solve" => |a, b| linalg::solve(a, b),
        _ => return None,
    })
}

fn sizes(value: &Value) -> Vec<usize> {
    value.as_array().into_iter().flatten().filter_map(Value::as_u64).map(|n| n as usize).collect()
}

fn ints(value: &Value) -> Vec<i64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
}

fn pairs(x: &Value, y: &Value) -> Vec<(usize, usize)> {
    sizes(x).into_iter().zip(sizes(y)).collect()
}

fn one(f: impl Fn(&[Var]) -> Var + 'static) -> Option<Operation> {
    Some(Rc::new(move |x| vec![f(x)]))
}

/// Returns a reduction over the axes in the parameter `axes`, or over all axes if it is null.
fn reduction(params: &Value, f: fn(Var, Vec<usize>) -> Var) -> Option<Operation> {
    let axes = (!params["axes"].is_null()).then(|| sizes(&params["axes"]));
    one(move |x| f(x[0], axes.clone().unwrap_or((0..x[0].rank()).collect())))
}

/// Returns a cumulative fold along the axis in the parameter `axis`, forward or reversed.
fn cumulative(
    params: &Value,
    forward: fn(Var, i64) -> Var,
    reverse: fn(Var, i64) -> Var,
) -> Option<Operation> {
    let axis = params["axis"].as_i64()?;
    let f = if params["reverse"] == true { reverse } else { forward };
    one(move |x| f(x[0], axis))
}

fn padding(params: &Value) -> Vec<(i64, i64)> {
    let all = params["padding"].as_array().into_iter().flatten();
    all.map(|each| (each[0].as_i64().unwrap_or(0), each[1].as_i64().unwrap_or(0))).collect()
}

/// Returns a fold over the windows that the parameters describe.
fn pool(params: &Value, f: fn(Var, conv::Windows) -> Var) -> Option<Operation> {
    let windows = conv::windows(sizes(&params["window"]))
        .strides(sizes(&params["strides"]))
        .padding(padding(params))
        .along([0, 1]);
    one(move |x| f(x[0], windows.clone()))
}

fn structural(name: &str, params: &Value) -> Option<Operation> {
    let p = params.clone();
    match name {
        "cumsum" => cumulative(&p, Var::cumsum, Var::cumsum_reverse),
        "cumprod" => cumulative(&p, Var::cumprod, Var::cumprod_reverse),
        "cummax" => cumulative(&p, Var::cummax, Var::cummax_reverse),
        "cummin" => cumulative(&p, Var::cummin, Var::cummin_reverse),
        "cumlogsumexp" => cumulative(&p, Var::cumlogsumexp, Var::cumlogsumexp_reverse),
        "sort" => one(move |x| x[0].sort(p["dimension"].as_i64().unwrap_or(-1))),
        "argsort" => one(move |x| x[0].argsort(p["dimension"].as_i64().unwrap_or(-1))),
        "sort_key_val" => Some(Rc::new(move |x| {
            let (keys, values) = x[0].sort_key_val(x[1], p["dimension"].as_i64().unwrap_or(-1));
            vec![keys, values]
        })),
        "top_k" => Some(Rc::new(move |x| {
            let (values, indices) = x[0].top_k(p["k"].as_u64().unwrap_or(0) as usize);
            vec![values, indices]
        })),
        "rfft_re_im" => {
            let axis = p["axis"].as_i64()?;
            Some(Rc::new(move |x| {
                let y = fft::rfft(x[0], axis);
                vec![y.re, y.im]
            }))
        }
        "threefry2x32" => one(|x| {
            // The file has keys, counters and random bits as pairs of 32-bit words, the high word first.
            let wide = |words: Var| words.convert(Dtype::U64);
            let half = x[1].len() / 2;
            let key = (wide(x[0].index(0)) << 32) | wide(x[0].index(1));
            let words = wide(x[1]);
            let counter = (words.slice_axis(0, ..half) << 32) | words.slice_axis(0, half..);
            let bits = random::threefry2x32(key, counter);
            concat(&[bits >> 32, bits], 0).convert(Dtype::U32)
        }),
        "cond" => one(|x| {
            let yes = |(x, y): (Var, Var)| x * y.sin();
            let no = |(x, y): (Var, Var)| x + y * y;
            cond(x[0], yes, no, (x[1], x[2]))
        }),
        "switch" => {
            one(|x| switch(x[0], [&|x: Var| x.sin(), &|x: Var| x.cos(), &|x: Var| x.powi(3)], x[1]))
        }
        "scan_rnn" => Some(Rc::new(|x| {
            let w = x[1];
            let round = |(h, x): (Var, Var)| {
                let z = (w.dot(h) + x).tanh();
                (z, 2.0 * z)
            };
            let (h, y) = scan(round, x[0], x[2]);
            vec![h, y]
        })),
        "scan_reverse" => Some(Rc::new(|x| {
            let round = |(c, x): (Var, Var)| (c * x.cos(), c + x);
            let (c, y) = scan_reverse(round, x[0], x[1]);
            vec![c, y]
        })),
        "fori_newton_sqrt" => one(move |x| {
            let (a, trips) = (x[0], p["trips"].as_u64().unwrap_or(0) as usize);
            fori_loop(trips, |(_, x): (Var, Var)| 0.5 * (x + a / x), a)
        }),
        "while_double" => {
            one(|x| while_loop(|x: Var| x.lt(1.0), |x: Var| 2.0 * x + 0.1 * x.sin(), x[0]))
        }
        "assoc_scan_mul" => one(|x| associative_scan(|(a, b): (Var, Var)| a * b, x[0])),
        "integer_pow" => one(move |x| x[0].powi(p["y"].as_i64().unwrap_or(0) as i32)),
        "polygamma" => one(move |x| x[0].polygamma(p["n"].as_u64().unwrap_or(0) as u32)),
        "select" => one(|x| select(x[0], x[1], x[2])),
        "clamp" => one(|x| x[1].clamp(x[0], x[2])),
        "reshape" => one(move |x| x[0].reshape(sizes(&p["new_shape"]))),
        "transpose" => one(move |x| x[0].permute(sizes(&p["permutation"]))),
        "broadcast_in_dim" => one(move |x| {
            // The operand's axes are placed by `broadcast_dimensions`; missing axes have extent 1 and are broadcast.
            let shape = sizes(&p["shape"]);
            let mut placed = vec![1; shape.len()];
            for (from, to) in sizes(&p["broadcast_dimensions"]).into_iter().enumerate() {
                placed[to] = x[0].shape()[from];
            }
            x[0].reshape(placed).broadcast_to(shape)
        }),
        "rev" => one(move |x| x[0].flip(sizes(&p["dimensions"]))),
        "slice" => one(move |x| {
            let bounds = pairs(&p["start"], &p["limit"]).into_iter().zip(sizes(&p["strides"]));
            bounds.enumerate().fold(x[0], |x, (axis, ((start, limit), step))| {
                x.slice_step(axis, start..limit, step)
            })
        }),
        "dynamic_slice" => one(move |x| x[0].dynamic_slice(&x[1..], sizes(&p["slice_sizes"]))),
        "dynamic_update_slice" => one(|x| x[0].dynamic_update_slice(x[1], &x[2..])),
        "pad" => one(move |x| {
            let widths =
                ints(&p["low"]).into_iter().zip(ints(&p["high"])).zip(sizes(&p["interior"]));
            let widths: Vec<_> = widths.map(|((low, high), inside)| (low, high, inside)).collect();
            x[0].pad_dilated(&widths, x[1])
        }),
        "concatenate" => one(move |x| concat(x, p["dimension"].as_i64().unwrap_or(0))),
        "split" => Some(Rc::new(move |x| {
            let axis = p["axis"].as_i64().unwrap_or(0);
            let part = |from: &mut usize, size: usize| {
                *from += size;
                Some(x[0].slice_axis(axis, *from - size..*from))
            };
            sizes(&p["sizes"]).into_iter().scan(0, part).collect()
        })),
        "iota" => one(move |_| {
            iota(sizes(&p["shape"]), p["dimension"].as_u64().unwrap_or(0) as usize, Dtype::I64)
        }),
        "tile" => one(move |x| x[0].tile(sizes(&p["reps"]))),
        "reduce_sum" => reduction(params, |x, axes| x.sum_axis(axes)),
        "reduce_prod" => reduction(params, |x, axes| x.prod_axis(axes)),
        "reduce_max" => reduction(params, |x, axes| x.max_axis(axes)),
        "reduce_min" => reduction(params, |x, axes| x.min_axis(axes)),
        "mean" => reduction(params, |x, axes| x.mean_axis(axes)),
        "var" => reduction(params, |x, axes| x.var_axis(axes)),
        "logsumexp" => reduction(params, |x, axes| x.logsumexp_axis(axes)),
        "reduce_and" => reduction(params, |x, axes| x.all_axis(axes)),
        "reduce_or" => reduction(params, |x, axes| x.any_axis(axes)),
        "argmax" => one(move |x| x[0].argmax(p["axis"].as_i64().unwrap_or(0))),
        "argmin" => one(move |x| x[0].argmin(p["axis"].as_i64().unwrap_or(0))),
        "dot_general" => {
            let contract = pairs(&p["lhs_contracting"], &p["rhs_contracting"]);
            let batch = pairs(&p["lhs_batch"], &p["rhs_batch"]);
            one(move |x| x[0].dot_general(x[1], &contract, &batch))
        }
        "slogdet" => Some(Rc::new(|x: &[Var]| {
            let (sign, log) = linalg::slogdet(x[0]);
            vec![sign, log]
        })),
        "einsum" => one(move |x| einsum(p["spec"].as_str().unwrap_or(""), x)),
        "take" => one(move |x| x[0].take(x[1], p["axis"].as_i64().unwrap_or(0))),
        "take_along_axis" => {
            one(move |x| x[0].take_along_axis(x[1], p["axis"].as_i64().unwrap_or(0)))
        }
        // `x[1]` has a row (i, j) for each element that is read: the result has the elements `x[0][i, j]`.
        "gather_nd" => one(|x| x[0].index((x[1].index_axis(1, 0), x[1].index_axis(1, 1)))),
        "scatter_set_unique" => one(|x| x[0].at(x[1]).set(x[2])),
        "scatter_add" => one(|x| x[0].at(x[1]).add(x[2])),
        "scatter_mul_unique" => one(|x| x[0].at(x[1]).mul(x[2])),
        "scatter_max" => one(|x| x[0].at(x[1]).max(x[2])),
        "layer_norm" => {
            one(move |x| x[0].layer_norm(-1, p["eps"].as_f64().unwrap_or(0.0)) * x[1] + x[2])
        }
        "attention" => one(|x| {
            let scale = 1.0 / (x[0].shape()[1] as f64).sqrt();
            (x[0].matmul(x[1].t()) * scale).softmax(-1).matmul(x[2])
        }),
        "conv_general_dilated" => {
            let (padding, groups) = (padding(&p), p["feature_group_count"].as_u64()? as usize);
            let how = conv::Conv::new()
                .strides(sizes(&p["strides"]))
                .padding(padding)
                .input_dilation(sizes(&p["lhs_dilation"]))
                .dilation(sizes(&p["rhs_dilation"]))
                .groups(groups);
            one(move |x| conv::conv_general_dilated(x[0], x[1], how.clone()))
        }
        "reduce_window_sum" => pool(&p, conv::sum_pool),
        "reduce_window_max" => pool(&p, conv::max_pool),
        _ => None,
    }
}
