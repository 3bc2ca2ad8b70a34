//! Deliberate and known differences between derivatives here and the recorded table, each with its reason. Tables of
//! the book are printed from these lists.

use super::functions::{FUNCTIONS, Form};
use super::table::{Entry, FIRST, FORWARD, Table, compute};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The order of derivative of one recorded number: value, gradient or Hessian.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Order {
    /// The value.
    Value,
    /// The gradient.
    First,
    /// The Hessian.
    Second,
}
use Order::{First, Second, Value};
use tapeloom_tests::Sweep;

/// A deliberate difference from JAX, or a known limit of accuracy.
pub struct Choice {
    /// The names of the functions that differ; all functions, if empty.
    functions: &'static [&'static str],
    /// The orders of derivatives for which the functions differ.
    orders: &'static [Order],
    /// The description of the arguments with a difference, for the table in the book.
    place: &'static str,
    /// Returns whether the functions differ at these arguments.
    at: fn(&[f64]) -> bool,
    /// The reason for the difference.
    why: &'static str,
}

const ALL: &[Order] = &[Value, First, Second];
const SLOPES: &[Order] = &[First, Second];

/// Deliberate differences from JAX, at points where mathematics defines no answer.
const CHOICES: &[Choice] = &[
    Choice {
        functions: &["take(7)", "take_along_axis(7)"],
        orders: ALL,
        place: "an index out of range",
        at: |_| true,
        why: "as every other read: the nearest element inside; JAX fills with nan here, and only here",
    },
    Choice {
        functions: &[],
        orders: ALL,
        place: "at subnormal numbers, or at 1e308, whose reciprocal is subnormal",
        at: subnormal,
        why: "they are exact; XLA replaces them by 0 on CPUs",
    },
    Choice {
        functions: &["relu", "relu6", "hard_sigmoid", "hard_silu"],
        orders: SLOPES,
        place: "nan",
        at: nan,
        why: "nan and its tangent are returned unchanged",
    },
    Choice {
        functions: &["pow", "powf(0)", "powf(1)", "powf(2.5)"],
        orders: SLOPES,
        place: "x = 0, or nan",
        at: |x| x[0] == 0.0 || nan(x),
        why: "x⁰ is 1 for every x, and x¹ is x: their derivatives are those of a constant and of a line",
    },
    Choice {
        functions: &["hypot"],
        orders: SLOPES,
        place: "the origin",
        at: |x| *x == [0.0, 0.0],
        why: "the gradient is 0, the mean of all directions, whatever the signs of zero (JAX has 1/2 in each, which depends on the axes); there is no Hessian",
    },
    Choice {
        functions: &["hypot"],
        orders: SLOPES,
        place: "if an operand is infinite",
        at: infinite,
        why: "the limit: a finite leg does not matter",
    },
    Choice {
        functions: &["logaddexp", "logaddexp2"],
        orders: SLOPES,
        place: "if an operand is infinite",
        at: infinite,
        why: "the limit: all of the derivative goes to the larger operand, half to each of equal ones",
    },
    Choice {
        functions: &["huber(1.5)"],
        orders: &[Second],
        place: "a kink of the slope, or nan",
        at: |x| x[0].abs() == 1.5 || nan(x),
        why: "the derivative of the parabola; JAX has the derivative of its minimum at a tie",
    },
    Choice {
        functions: &["sigmoid_cross_entropy"],
        orders: ALL,
        place: "if an operand is infinite or nan",
        at: |x| infinite(x) || nan(x),
        why: "the limit in the score; JAX subtracts infinities",
    },
    Choice {
        functions: &["clamp(-1, y)"],
        orders: &[First],
        place: "lower bound above the upper bound",
        at: |x| x[1] < -1.0,
        why: "the result is the upper bound, and its derivative 1",
    },
    Choice {
        functions: &[
            "sech",
            "acosh",
            "lgamma",
            "digamma",
            "polygamma(1)",
            "polygamma(2)",
            "squareplus(4)",
        ],
        orders: ALL,
        place: "±inf",
        at: infinite,
        why: "the limit where there is one, nan where there is none",
    },
    Choice {
        functions: &["cbrt"],
        orders: &[Second],
        place: "0, ±inf",
        at: |x| x[0] == 0.0 || infinite(x),
        why: "infinity times zero in an intermediate product",
    },
    Choice {
        functions: &["atanh"],
        orders: &[Second],
        place: "±1, ±inf",
        at: |x| x[0].abs() >= 1.0,
        why: "infinite with the sign of the side inside; nan outside",
    },
    Choice {
        functions: &["celu(1.5)"],
        orders: &[Second],
        place: "0",
        at: |x| x[0] == 0.0,
        why: "the derivative of the exponential side; JAX averages factors",
    },
    Choice {
        functions: &["ldexp(-3)"],
        orders: &[First],
        place: "±inf",
        at: infinite,
        why: "the factor, as everywhere",
    },
    Choice {
        functions: &["heaviside"],
        orders: &[First],
        place: "nan",
        at: nan,
        why: "nan for nan, with derivative 0",
    },
    Choice {
        functions: &["logsumexp", "norm"],
        orders: &[Second],
        place: "if an operand is infinite",
        at: infinite,
        why: "infinity times zero in an intermediate product",
    },
    Choice {
        functions: &["cumprod"],
        orders: SLOPES,
        place: "if an operand is infinite",
        at: infinite,
        why: "infinity times zero in an intermediate product",
    },
    Choice {
        functions: &["cumlogsumexp"],
        orders: SLOPES,
        place: "if an element is infinite or nan",
        at: |x| infinite(x) || nan(x),
        why: "the derivative of an infinite sum and of nan is 0",
    },
    Choice {
        functions: &["cummax", "cummin"],
        orders: SLOPES,
        place: "three equal elements, or nan",
        at: |x| nan(x) || (x[0] == x[1] && x[1] == x[2]),
        why: "each has a third, as in `max`; JAX shares by pairs, in the order of its tree; the \
              derivative of nan is 0",
    },
    Choice {
        functions: &["sort_descending", "argsort_descending"],
        orders: ALL,
        place: "equal elements",
        at: |x| x[0] == x[1] || x[1] == x[2] || x[0] == x[2] || nan(x),
        why: "in the order of their positions, in either direction",
    },
    Choice {
        functions: &["entr", "logit", "ndtri"],
        orders: ALL,
        place: "0, outside of the domain, ±inf",
        at: |x| x[0] <= 0.0 || x[0] >= 1.0,
        why: "0 at 0 is +0; outside, derivatives are 0",
    },
    Choice {
        functions: &["ndtri"],
        orders: &[Second],
        place: "arguments so small that the second derivative is beyond all numbers",
        at: |x| x[0] > 0.0 && x[0] < 1e-200,
        why: "it is -inf where JAX has nan",
    },
    Choice {
        functions: &["xlogy", "xlog1py", "rel_entr", "kl_div"],
        orders: ALL,
        place: "on the border of the domain, outside of it, and with infinite or nan operands",
        at: |x| x[0] <= 0.0 || x[1] <= 0.0 || infinite(x) || nan(x),
        why: "0 · ln y is 0 for every y; a constant outside of the domain has derivative 0; nan \
              for nan",
    },
    Choice {
        functions: &["beta", "betaln"],
        orders: ALL,
        place: "poles, infinities, nan, tiny and huge arguments",
        at: |x| x.iter().any(|x| *x < 1e-150 || x.abs() > 1e15 || x.is_nan()),
        why: "a limit where JAX subtracts infinities",
    },
];

/// Known limits: rounding, overflow or underflow of intermediate values makes the result differ from the mathematical
/// one.
const LIMITS: &[Choice] = &[
    Choice {
        functions: &[
            "atan",
            "erf",
            "erfc",
            "gelu_tanh",
            "sinc",
            "entr",
            "squareplus(4)",
            "pow",
            "div_floor",
            "xlogy",
            "xlog1py",
            "rel_entr",
            "kl_div",
            "mean",
            "var",
            "std",
            "norm",
            "cumprod",
            "nanmean",
            "nanvar",
            "nanstd",
            "layer_norm",
            "rms_norm",
        ],
        orders: ALL,
        place: "beyond 1e150 in size",
        at: |x| x.iter().any(|x| x.abs() > 1e150),
        why: "intermediate squares and products overflow",
    },
    Choice {
        functions: &[
            "asin",
            "acos",
            "atanh",
            "entr",
            "pow",
            "hypot",
            "atan2",
            "xlogy",
            "rel_entr",
            "kl_div",
            "std",
            "norm",
            "nanstd",
            "layer_norm",
            "rms_norm",
        ],
        orders: ALL,
        place: "below 1e-150 in size",
        at: |x| x.iter().any(|x| *x != 0.0 && x.abs() < 1e-150),
        why: "intermediate squares underflow, reciprocals overflow",
    },
    Choice {
        functions: &["median"],
        orders: SLOPES,
        place: "three equal elements",
        at: |x| x[0] == x[1] && x[1] == x[2],
        why: "its derivative is that of the middle element in a stable order, though a change of \
              one element alone does not change it",
    },
    Choice {
        functions: &["asin", "acos", "atanh"],
        orders: &[Second],
        place: "near 0",
        at: |x| x[0].abs() < 1e-5,
        why: "(1 - x)(1 + x), exact near ±1, cancels in its derivative: an absolute error of 1e-16",
    },
    Choice {
        functions: &["hypot", "squareplus(4)"],
        orders: &[Second],
        place: "one leg much longer than the other",
        at: |x| x.iter().any(|x| x.abs() > 30.0),
        why: "1 - (x/h)² cancels",
    },
    Choice {
        functions: &["atan2"],
        orders: &[Second],
        place: "legs of equal length",
        at: |x| x[0].abs() == x[1].abs(),
        why: "1 - 2 (x/h)² cancels",
    },
    Choice {
        functions: &["silu", "mish"],
        orders: ALL,
        place: "below -745",
        at: |x| x[0] < -745.0,
        why: "the logistic function underflows to 0, its product with x would not",
    },
    Choice {
        functions: &["sinc"],
        orders: ALL,
        place: "integers and large numbers",
        at: |x| x[0].abs() >= 1.0,
        why: "πx is rounded",
    },
    Choice {
        functions: &["pow"],
        orders: &[First],
        place: "(-1, -1e17)",
        at: |x| *x == [-1.0, -1e17],
        why: "y - 1 is rounded to an even number, as y is",
    },
    Choice {
        functions: &["beta", "betaln"],
        orders: ALL,
        place: "negative arguments",
        at: |x| x.iter().any(|x| *x < 0.0),
        why: "composed of `lgamma`: infinities are subtracted at poles, and large terms cancel",
    },
    Choice {
        functions: &["logsumexp", "softmax", "log_softmax", "cumlogsumexp"],
        orders: ALL,
        place: "one element far above the others",
        at: |x| x[0] > x[1] + 37.0,
        why: "p (1 - p) where p rounds to 1",
    },
];

fn subnormal(x: &[f64]) -> bool {
    x.iter().any(|x| x.is_subnormal() || x.abs() == 1e308)
}

fn nan(x: &[f64]) -> bool {
    x.iter().any(|x| x.is_nan())
}

fn infinite(x: &[f64]) -> bool {
    x.iter().any(|x| x.is_infinite())
}

impl Choice {
    fn covers(&self, name: &str, order: Order, point: &[f64]) -> bool {
        (self.functions.is_empty() || self.functions.contains(&name))
            && self.orders.contains(&order)
            && (self.at)(point)
    }
}

/// A number computed here that differs from the recorded one.
struct Other {
    name: String,
    order: Order,
    /// The name of the derivative, such as `∂x∂y`.
    number: String,
    point: Vec<f64>,
    jax: f64,
    here: f64,
}

/// The differences between the numbers computed here and the recorded table.
pub struct Findings {
    /// Messages for the differences that neither `CHOICES` nor `LIMITS` covers: failures.
    pub wrong: Vec<String>,
    source: String,
    /// For each entry of [`CHOICES`], the differences that it covers.
    chosen: Vec<Vec<Other>>,
    /// For each entry of [`LIMITS`], the differences that it covers.
    limits: Vec<Vec<Other>>,
    /// Numbers that are mathematically right here and wrong in JAX.
    exact: Vec<Other>,
    points: usize,
}

/// Compares all functions, at all recorded points and in every way of computing, with the recorded table.
pub fn find(table: &Table) -> Findings {
    let lists = |n: usize| (0..n).map(|_| Vec::new()).collect();
    let mut findings = Findings {
        wrong: Vec::new(),
        source: table.source.clone(),
        chosen: lists(CHOICES.len()),
        limits: lists(LIMITS.len()),
        exact: Vec::new(),
        points: 0,
    };
    for entry in Sweep::Edges.all(&table.entries) {
        let Some((_, form)) = FUNCTIONS.iter().find(|(name, _)| *name == entry.name) else {
            findings.wrong.push(format!("{} is recorded and not listed", entry.name));
            continue;
        };
        for computed in compute(entry, *form, &table.weights) {
            for (p, got) in computed.answers.iter().enumerate() {
                // Skip forward mode at infinite arguments: it multiplies zero tangents by factors that may be infinite,
                // which gives nan.
                let finite = entry.points[p].iter().all(|x| x.is_finite());
                if computed.how == FORWARD && !finite {
                    continue;
                }
                judge(&mut findings, entry, *form, p, got, computed.how);
            }
        }
    }
    for (list, found) in [(CHOICES, &findings.chosen), (LIMITS, &findings.limits)] {
        for (choice, found) in list.iter().zip(found) {
            if found.is_empty() {
                let line = format!("these no longer differ: {:?}", choice.why);
                findings.wrong.push(line);
            }
        }
    }
    findings
}

fn judge(findings: &mut Findings, entry: &Entry, form: Form, p: usize, got: &[f64], how: &str) {
    // The book counts each number once, as computed natively in reverse mode.
    let first = how == FIRST;
    let (jax, exact, point) = (&entry.jax[p], &entry.exact[p], &entry.points[p]);
    let n = point.len();
    let values = if entry.order == 0 { jax.len() } else { jax.len() - n - n * n };
    assert_eq!(got.len(), jax.len(), "{} at {point:?}", entry.name);
    for (k, (&here, &jax)) in got.iter().zip(jax).enumerate() {
        findings.points += usize::from(first);
        let (order, number) = name_of(k, values, n);
        // Terms of a row's sum may cancel: their error is relative to the largest number of the same order of
        // derivative.
        let scale = match form {
            Form::Row(_) => scale(entry, p, order, values, n),
            Form::One(_) | Form::Two(_) => 0.0,
        };
        let exact = exact.get(k).copied().flatten();
        let jax_agrees = same(here, jax, order, scale);
        let right = exact.map_or(jax_agrees, |e| same(here, e, First, scale));
        if right && jax_agrees {
            continue;
        }
        let name = entry.name.clone();
        let other = Other { name, order, number, point: point.clone(), jax, here };
        if right {
            if first {
                findings.exact.push(other);
            }
            continue;
        }
        let list = if exact.is_some() { LIMITS } else { CHOICES };
        let place = list.iter().position(|c| c.covers(&other.name, order, point));
        match (place, exact.is_some()) {
            (Some(i), true) => findings.limits[i].push(other),
            (Some(i), false) => {
                if first {
                    findings.chosen[i].push(other);
                }
            }
            (None, _) => {
                let truth = exact.map_or("none".to_owned(), |e| format!("{e:e}"));
                findings.wrong.push(format!(
                    "{} ({how}) {} at {point:?} is {here:e}; JAX {jax:e}, exact {truth}",
                    other.name, other.number
                ));
            }
        }
    }
}

/// Returns the order and the name of the derivative that is number `k` of the answer for one point. An answer consists
/// of `values` values, the gradient with respect to `n` arguments, and the Hessian.
fn name_of(k: usize, values: usize, n: usize) -> (Order, String) {
    let x = |i: usize| format!("∂{}", ["x", "y", "z"][i]);
    if k < values {
        (Value, "value".to_owned())
    } else if k < values + n {
        (First, x(k - values))
    } else {
        let k = k - values - n;
        (Second, if k / n == k % n { format!("{}²", x(k / n)) } else { x(k / n) + &x(k % n) })
    }
}

/// Returns the largest finite magnitude among the answer's numbers of this order of derivative.
fn scale(entry: &Entry, p: usize, order: Order, values: usize, n: usize) -> f64 {
    let of_order = |k: &usize| name_of(*k, values, n).0 == order;
    let numbers = entry.jax[p].iter().copied().enumerate();
    let exact = entry.exact[p].iter().enumerate().filter_map(|(k, x)| x.map(|x| (k, x)));
    let all = numbers.chain(exact).filter(|(k, x)| of_order(k) && x.is_finite());
    all.fold(0.0, |m, (_, x)| m.max(x.abs()))
}

/// Returns whether two numbers agree up to rounding; for values, zeros must have equal signs.
fn same(a: f64, b: f64, order: Order, scale: f64) -> bool {
    if a == 0.0 && b == 0.0 {
        return order != Value || a.is_sign_negative() == b.is_sign_negative();
    }
    a == b
        || (a.is_nan() && b.is_nan())
        || (a - b).abs() <= 1e-11 * b.abs() + 1e-14 * scale + 5.0 * f64::from_bits(1)
}

// -- The book ---------------------------------------------------------------------------------------

impl Findings {
    /// Returns the book's tables of differences, for each entry with its count of numbers.
    pub fn table(&self) -> String {
        let mut text = format!(
            "Compared are {} numbers of {} functions, recorded with {}.\n",
            self.points,
            FUNCTIONS.len(),
            self.source
        );
        text += "\n### Other conventions than JAX's\n\n";
        text += "| Functions | What | Where | JAX | Here | Why |\n|---|---|---|---|---|---|\n";
        for (choice, found) in CHOICES.iter().zip(&self.chosen) {
            line(&mut text, choice, found);
        }
        text += "\n### Limits\n\nThe mathematical number exists, but rounding, overflow or \
                 underflow of intermediate values loses it.\n\n";
        text += "| Functions | What | Where | JAX | Here | Why |\n|---|---|---|---|---|---|\n";
        for (choice, found) in LIMITS.iter().zip(&self.limits) {
            line(&mut text, choice, found);
        }
        text += "\n### Where JAX loses the number\n\n";
        text += "The mathematical number exists, and tapeloom returns it.\n";
        text += "Differences that come from XLA's subnormal numbers are left out; see the first \
                 table.\n\n";
        text += "| Function | Numbers | For example | JAX | Here |\n|---|---|---|---|---|\n";
        let mut by_name: BTreeMap<&str, Vec<&Other>> = BTreeMap::new();
        let flushed = |o: &Other| subnormal(&o.point) || o.here.is_subnormal();
        for other in self.exact.iter().filter(|o| !flushed(o)) {
            by_name.entry(&other.name).or_default().push(other);
        }
        for (name, others) in by_name {
            let o = others[0];
            let (count, jax, here) = (others.len(), show(o.jax), show(o.here));
            let at = point(&o.point);
            let _ =
                writeln!(text, "| `{name}` | {count} | {} at {at} | {jax} | {here} |", o.number);
        }
        text
    }
}

fn line(text: &mut String, choice: &Choice, found: &[Other]) {
    let distinct = |f: &dyn Fn(&Other) -> String| {
        let mut seen: Vec<String> = Vec::new();
        for o in found {
            let one = f(o);
            if !seen.contains(&one) {
                seen.push(one);
            }
        }
        let more = if seen.len() > 3 { ", …" } else { "" };
        seen.truncate(3);
        seen.join(", ") + more
    };
    let mut names: Vec<String> = Vec::new();
    for o in found {
        let name = format!("`{}`", o.name);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    if choice.functions.is_empty() {
        names = vec!["all".to_owned()];
    }
    let mut orders: Vec<Order> = found.iter().map(|o| o.order).collect();
    orders.sort_unstable();
    orders.dedup();
    let what: Vec<&str> = orders
        .iter()
        .map(|o| match o {
            Value => "value",
            First => "gradient",
            Second => "Hessian",
        })
        .collect();
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} | {} | {} |",
        names.join(", "),
        what.join(", "),
        choice.place,
        distinct(&|o| show(o.jax)),
        distinct(&|o| show(o.here)),
        choice.why
    );
}

fn show(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    let plain = format!("{x:.4}");
    let exact = format!("{x}");
    if x == 0.0 || exact.len() <= 6 || x.is_infinite() {
        exact
    } else if (1e-3..1e4).contains(&x.abs()) {
        plain
    } else {
        format!("{x:.2e}")
    }
}

fn point(x: &[f64]) -> String {
    let all: Vec<String> = x.iter().map(|x| show(*x)).collect();
    if all.len() == 1 { all[0].clone() } else { format!("({})", all.join(", ")) }
}

/// Compares a marked part of `conventions.md` with the expected text `text`, or writes `text` there if `BLESS` is set.
#[track_caller]
pub fn check_block(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../book/src/conventions.md");
    let page = std::fs::read_to_string(&file).unwrap();
    let (open, close) = (format!("<!-- printed: {name} -->\n"), "<!-- end -->".to_owned());
    let (before, rest) = page.split_once(&open).expect("the mark where the text begins");
    let (found, after) = rest.split_once(&close).expect("the mark where the text ends");
    if found == text {
        return;
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, format!("{before}{open}{text}{close}{after}")).unwrap();
        return;
    }
    let differing = found.lines().zip(text.lines()).find(|(a, b)| a != b);
    panic!(
        "book/src/conventions.md differs from the tables; {differing:?}; rewrite it with `BLESS=1 \
         cargo test -p tapeloom-tests --test laws edges::`"
    );
}
