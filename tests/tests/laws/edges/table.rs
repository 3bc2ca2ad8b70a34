//! The recorded table of edges, and functions that compute the same values, gradients and Hessians with this library.

use super::functions::Form;
use serde_json::Value;
use std::path::Path;
use tapeloom::prelude::*;

/// The numbers of one point: the values, the gradient, then the Hessian by rows.
pub type Answer = Vec<f64>;

/// The recorded numbers of one function: values and derivatives at edges (ties, zeros, infinities, nan).
pub struct Entry {
    /// The function's name, as in `FUNCTIONS`.
    pub name: String,
    /// The highest order of the recorded derivatives: 0 or 2.
    pub order: u64,
    /// The arguments at each recorded point.
    pub points: Vec<Vec<f64>>,
    /// The recorded answers of JAX, one per point.
    pub jax: Vec<Answer>,
    /// The mathematical answers, one list per point: `None` for a number that mathematics does not define, and an empty
    /// list if it defines none at the point.
    pub exact: Vec<Vec<Option<f64>>>,
}

/// The recorded table of values and derivatives at edges: ties, zeros, infinities, nan.
pub struct Table {
    /// The versions of the libraries that recorded the table, in words.
    pub source: String,
    /// The weights of the elements of a row result: the weighted sum is differentiated.
    pub weights: Vec<f64>,
    /// The recorded numbers, one entry per function.
    pub entries: Vec<Entry>,
}

/// Reads the recorded table.
pub fn recorded() -> Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/edges/edges.jsonl");
    let text = std::fs::read_to_string(file).unwrap();
    let mut lines = text.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let head = lines.next().unwrap();
    let entries = lines.map(|e| {
        let points = rows(&head["points"][e["points"].as_str().unwrap()]);
        let options = |v: &Value| v.as_array().into_iter().flatten().map(number).collect();
        let exact = e["exact"].as_array().unwrap().iter().map(options).collect();
        let (name, order) = (e["name"].as_str().unwrap().to_owned(), e["order"].as_u64().unwrap());
        Entry { name, order, points, jax: rows(&e["jax"]), exact }
    });
    Table {
        entries: entries.collect(),
        weights: row(&head["weights"]),
        source: format!(
            "JAX {} and mpmath {}, version {} of the script",
            head["jax"].as_str().unwrap(),
            head["mpmath"].as_str().unwrap(),
            head["script"]
        ),
    }
}

fn number(v: &Value) -> Option<f64> {
    v.as_f64().or(v.as_str().and_then(|s| s.parse().ok()))
}

fn row(v: &Value) -> Vec<f64> {
    v.as_array().unwrap().iter().map(|x| number(x).unwrap()).collect()
}

fn rows(v: &Value) -> Vec<Vec<f64>> {
    v.as_array().unwrap().iter().map(row).collect()
}

/// The answers computed by one engine in one mode of differentiation.
pub struct Computed {
    /// The engine and the mode of differentiation.
    pub how: &'static str,
    /// The values, gradient and Hessian of each recorded point.
    pub answers: Vec<Answer>,
}

/// The engine and mode whose differences the book counts.
pub const FIRST: &str = "native, reverse";
/// The engine and mode that computes all derivatives without reverse mode.
pub const FORWARD: &str = "native, forward";

/// Computes values, gradients and Hessians of a recorded function at the recorded points: natively, with the gradient
/// in reverse mode and the Hessian forward over reverse; the same by the interpreter; and natively forward over
/// forward.
pub fn compute(entry: &Entry, form: Form, weights: &[f64]) -> Vec<Computed> {
    let count = entry.points.len();
    let (args, back, forward) = derivatives(entry, form, weights, Dtype::F64);
    let results = [
        (FIRST, jit(back.clone()).call(&args)),
        ("interpreter, reverse", jit(back).interpreted().call(&args)),
        (FORWARD, jit(forward).call(&args)),
    ];
    let computed = |(how, result): (_, Result<Vec<Tensor>, _>)| {
        let result = result.unwrap_or_else(|e| panic!("{} ({how}): {e}", entry.name));
        Computed { how, answers: by_point(&result, count) }
    };
    results.into_iter().map(computed).collect()
}

/// Computes values, gradients and Hessians of a recorded function at the recorded points, converted to `dtype`:
/// natively, the gradient in reverse mode, the Hessian forward over reverse.
pub fn compute_in(dtype: Dtype, entry: &Entry, form: Form, weights: &[f64]) -> Vec<Answer> {
    let (args, back, _) = derivatives(entry, form, weights, dtype);
    let result = jit(back).call(&args);
    by_point(&result.unwrap_or_else(|e| panic!("{}: {e}", entry.name)), entry.points.len())
}

type Arguments = (Vec<Tensor>, Vec<Vec<Tensor>>);
type Vars = (Vec<Var>, Vec<Vec<Var>>);

/// Returns the arguments, the directions of differentiation, and two functions that compute the answers, one in reverse
/// mode and one in forward mode.
fn derivatives(
    entry: &Entry,
    form: Form,
    weights: &[f64],
    dtype: Dtype,
) -> (Arguments, impl Fn(Vars) -> Vec<Var> + Clone, impl Fn(Vars) -> Vec<Var>) {
    let (count, n) = (entry.points.len(), entry.points[0].len());
    let array = |shape: &[usize], x: Vec<f64>| match dtype {
        Dtype::F32 => Tensor::new(shape, x.into_iter().map(|x| x as f32).collect()).unwrap(),
        _ => Tensor::new(shape, x).unwrap(),
    };
    let column = |i: usize| array(&[count], entry.points.iter().map(|p| p[i]).collect());
    let matrix = || array(&[count, n], entry.points.concat());
    let weights = array(&[weights.len()], weights.to_vec());
    let (x, directions): (Vec<Tensor>, Vec<Vec<Tensor>>) = match form {
        Form::One(_) => (vec![column(0)], vec![vec![array(&[count], vec![1.0; count])]]),
        Form::Two(_) => {
            let (on, off) = (array(&[count], vec![1.0; count]), array(&[count], vec![0.0; count]));
            (vec![column(0), column(1)], vec![vec![on.clone(), off.clone()], vec![off, on]])
        }
        Form::Row(_) => {
            let unit = |i: usize| {
                let flat = (0..count * n).map(|k| f64::from(u8::from(k % n == i))).collect();
                vec![array(&[count, n], flat)]
            };
            (vec![matrix()], (0..n).map(unit).collect())
        }
    };
    let f = move |x: &[Var]| match form {
        Form::One(f) | Form::Row(f) => f(x[0]),
        Form::Two(f) => f(x[0], x[1]),
    };
    let order = entry.order;
    let all = move |reverse: bool, x: Vec<Var>, d: Vec<Vec<Var>>| -> Vec<Var> {
        let mut answer = vec![f(&x)];
        if order == 0 {
            return answer;
        }
        // The differentiated function is a sum over points, which are independent.
        let total = |x: Vec<Var>| {
            let y = f(&x);
            let row = matches!(form, Form::Row(_)) && y.shape().len() == 2;
            if row { (y * constant(&weights)).sum_axis(-1) } else { y }
        };
        // Differentiate one array at a time, with the others constant: otherwise, 0 times a nan of another array would
        // make the derivative nan. The columns of a matrix are one array, differentiated along several directions.
        let place = |i: usize| if matches!(form, Form::Row(_)) { 0 } else { i };
        let with = |x: &[Var], i: usize, v: Var| {
            let mut all = x.to_vec();
            all[place(i)] = v;
            all
        };
        let direction = |i: usize| d[i][place(i)];
        let column = |g: Var, i: usize| match form {
            Form::Row(_) => g.index_axis(1, i as i64),
            Form::One(_) | Form::Two(_) => g,
        };
        let back = |x: &[Var], i: usize| grad(|v: Var| total(with(x, i, v)).sum())(x[place(i)]);
        let along =
            |x: &[Var], i: usize| jvp(|v: Var| total(with(x, i, v)))((x[place(i)], direction(i))).1;
        let slope = |x: &[Var], i: usize| if reverse { back(x, i) } else { along(x, i) };
        let shown = |g: Var, i: usize| if reverse { column(g, i) } else { g };
        let indices = 0..d.len();
        answer.extend(indices.clone().map(|i| shown(slope(&x, i), i)));
        for i in indices.clone() {
            for j in indices.clone() {
                let at = (x[place(j)], direction(j));
                let h = jvp(|v: Var| slope(&with(&x, j, v), i))(at).1;
                answer.push(shown(h, i));
            }
        }
        answer
    };
    let args = (x, directions);
    let back = {
        let all = all.clone();
        move |(x, d): Vars| all(true, x, d)
    };
    let forward = move |(x, d): Vars| all(false, x, d);
    (args, back, forward)
}

/// Splits each array along its first axis (one index per recorded point), and returns the numbers of each point.
fn by_point(parts: &[Tensor], count: usize) -> Vec<Answer> {
    let mut answers = vec![Vec::new(); count];
    for t in parts {
        let each = t.elements() / count;
        for (p, answer) in answers.iter_mut().enumerate() {
            answer.extend(t.numbers().skip(p * each).take(each));
        }
    }
    answers
}
