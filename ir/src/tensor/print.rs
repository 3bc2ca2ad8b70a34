//! Display of tensors, in the style of numpy.
//!
//! Rows are in brackets, one below the other; columns are aligned. All numbers of a tensor are shown with equally many
//! decimals: those that its longest number needs, at most eight. Exponents are shown if magnitudes differ much. `nan`
//! and `inf` are words. If an array has more than 1,000 elements, long axes are abbreviated to three elements at either
//! end; `{:#}` shows all. Precision, width and sign of the format apply to each element, and `{:e}` shows exponents.
//! `Debug` prints dtype and shape first.
//!
//! ```
//! use tapeloom_ir::Tensor;
//! let t = Tensor::from([[1.0, -2.25], [f64::NAN, 1.0 / 3.0]]);
//! assert_eq!(t.to_string(), "\
//! [[ 1.00000000, -2.25000000],
//!  [        nan,  0.33333333]]");
//! assert_eq!(format!("{t:.2}"), "[[ 1.00, -2.25],\n [  nan,  0.33]]");
//! assert_eq!(format!("{:6.1}", Tensor::from([1.0, 2.0])), "[   1.0,    2.0]");
//! assert_eq!(format!("{:.1e}", Tensor::from([1.0, 250.0])), "[1.0e+00, 2.5e+02]");
//! assert_eq!(format!("{:?}", Tensor::from([1, 20])), "i32[2] [ 1, 20]");
//! let long: Tensor = (0..2000).collect();
//! assert_eq!(long.to_string(), "[   0,    1,    2, ..., 1997, 1998, 1999]");
//! ```
//!
//! Model: `numpy.array2string` with commas and `floatmode="maxprec_equal"`, so that the output can be pasted
//! into `Tensor::from`.

use super::Tensor;
use crate::lang::literal::Literal;
use crate::lang::types::Dtype;
use std::fmt::{self, Formatter};

/// The largest number of elements of an array that is shown in full; of larger arrays, axes of more than 2 `EDGE`
/// elements are abbreviated.
const THRESHOLD: usize = 1000;
/// The number of elements shown at the beginning and at the end of an abbreviated axis.
const EDGE: usize = 3;
/// The largest length of an output line, in characters; longer rows are broken into several lines.
const LINE: usize = 75;
/// The largest number of digits after the decimal point, unless the format gives a precision.
const DECIMALS: usize = 8;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        show(self, f, false)
    }
}

impl fmt::LowerExp for Tensor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        show(self, f, true)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let gap = if self.shape().len() > 1 { "\n" } else { " " };
        write!(f, "{}{gap}", self.ty())?;
        show(self, f, false)
    }
}

/// The indices of one axis that are shown. One `None` stands for all omitted indices.
type Shown = Vec<Option<usize>>;

/// One row of the output: the elements along the innermost axis, or the dots in place of omitted rows.
struct Row {
    /// The row-major positions, in the tensor, of the row's elements. One `None` stands for all omitted elements.
    items: Shown,
    /// The number of blanks before the row, and the number of opening brackets after these blanks.
    indent: usize,
    open: usize,
    /// The number of closing brackets printed after the row's elements.
    close: usize,
    /// The number of line breaks between this row and the next one; 0 after the last row.
    breaks: usize,
}

fn show(t: &Tensor, f: &mut Formatter<'_>, powers: bool) -> fmt::Result {
    if t.elements() == 0 {
        return f.write_str("[]");
    }
    let rows = rows(t, t.elements() > THRESHOLD && !f.alternate());
    let shown = rows.iter().flat_map(|r| r.items.iter().flatten()).map(|p| t.at(*p));
    let style = Style { precision: f.precision(), plus: f.sign_plus(), powers };
    let texts = style.texts(t.dtype(), &shown.collect::<Vec<_>>(), t.shape().is_empty());
    let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    let width = longest.max(f.width().unwrap_or(0));
    let mut texts = texts.iter();
    for row in &rows {
        write!(f, "{:indent$}{}", "", "[".repeat(row.open), indent = row.indent)?;
        let margin = row.indent + row.open;
        let mut column = margin;
        for (i, item) in row.items.iter().enumerate() {
            let text = if item.is_some() { texts.next().map_or("", String::as_str) } else { "..." };
            let width = if item.is_some() { width } else { text.len() };
            if i > 0 && column + 2 + width + row.close.max(1) > LINE {
                write!(f, ",\n{:margin$}", "")?;
                column = margin;
            } else if i > 0 {
                f.write_str(", ")?;
                column += 2;
            }
            write!(f, "{text:>width$}")?;
            column += width;
        }
        f.write_str(&"]".repeat(row.close))?;
        if row.breaks > 0 {
            write!(f, ",{}", "\n".repeat(row.breaks))?;
        }
    }
    Ok(())
}

/// Returns the rows of the output; if `elide`, long axes are abbreviated. Iterates over the outer axes without
/// recursion, so that any rank works.
fn rows(t: &Tensor, elide: bool) -> Vec<Row> {
    let strides = t.ty().shape.strides();
    let axes: Vec<Shown> = t.shape().iter().map(|n| shown(*n, elide)).collect();
    let rank = axes.len();
    let Some((inner, outer)) = axes.split_last() else {
        return vec![Row { items: vec![Some(0)], indent: 0, open: 0, close: 0, breaks: 0 }];
    };
    let mut at = vec![0; outer.len()];
    let (mut indent, mut open) = (0, rank);
    let mut rows = Vec::new();
    loop {
        let index: Option<Vec<usize>> = outer.iter().zip(&at).map(|(s, i)| s[*i]).collect();
        let (items, depth) = match index {
            Some(index) => {
                let start: usize = index.iter().zip(&strides).map(|(i, s)| i * s).sum();
                (inner.iter().map(|i| i.map(|i| start + i)).collect(), rank)
            }
            // The rows at this index are omitted. The axis that was advanced last has reached its omitted indices, and
            // the axes inside it are at 0.
            None => (vec![None], indent),
        };
        let mut next = depth - usize::from(depth == rank);
        let more = loop {
            if next == 0 {
                break false;
            }
            next -= 1;
            at[next] += 1;
            if at[next] < outer[next].len() {
                break true;
            }
            at[next] = 0;
        };
        if !more {
            rows.push(Row { items, indent, open, close: depth, breaks: 0 });
            return rows;
        }
        let breaks = rank - 1 - next;
        rows.push(Row { items, indent, open, close: depth - 1 - next, breaks });
        indent = next + 1;
        open = if outer[next][at[next]].is_some() { rank - indent } else { 0 };
    }
}

/// Returns the indices of an axis that are shown: all, or, if `elide` and the axis has more than 2 `EDGE` elements,
/// the first and the last `EDGE`.
fn shown(extent: usize, elide: bool) -> Shown {
    if elide && extent > 2 * EDGE {
        let (head, tail) = ((0..EDGE).map(Some), (extent - EDGE..extent).map(Some));
        return head.chain([None]).chain(tail).collect();
    }
    (0..extent).map(Some).collect()
}

/// The options of the format string that apply to each element.
struct Style {
    precision: Option<usize>,
    plus: bool,
    powers: bool,
}

impl Style {
    /// Returns the text of each element, not yet padded to equal width.
    fn texts(&self, dtype: Dtype, elements: &[Literal], alone: bool) -> Vec<String> {
        let plain = |l: &Literal| match dtype {
            Dtype::Bool => (l.bits != 0).to_string(),
            Dtype::I32 => self.signed((l.bits as u32 as i32).to_string()),
            Dtype::I64 => self.signed((l.bits as i64).to_string()),
            Dtype::U32 | Dtype::U64 => self.signed(l.bits.to_string()),
            Dtype::F32 => self.signed(shortest(l.to_f64() as f32)),
            Dtype::F64 => self.signed(shortest(l.to_f64())),
        };
        match dtype {
            // A single number is shown with all its digits, not with at most `DECIMALS`.
            Dtype::F32 | Dtype::F64 if !alone || self.precision.is_some() || self.powers => {
                self.floats(dtype, elements)
            }
            Dtype::F32
            | Dtype::F64
            | Dtype::Bool
            | Dtype::I32
            | Dtype::I64
            | Dtype::U32
            | Dtype::U64 => elements.iter().map(plain).collect(),
        }
    }

    /// Returns the text of each float, all with the same number of decimals.
    fn floats(&self, dtype: Dtype, elements: &[Literal]) -> Vec<String> {
        let powers = self.powers || self.precision.is_none() && far_apart(dtype, elements);
        let number = |l: &Literal, decimals: Option<usize>| match dtype {
            Dtype::F32 => digits(l.to_f64() as f32, powers, decimals),
            _ => digits(l.to_f64(), powers, decimals),
        };
        let finite = elements.iter().filter(|l| l.to_f64().is_finite());
        let needed = |l: &Literal| {
            let (mantissa, _) = split(number(l, None));
            if decimals(&mantissa) <= DECIMALS {
                return decimals(&mantissa);
            }
            let (rounded, _) = split(number(l, Some(DECIMALS)));
            decimals(rounded.trim_end_matches('0'))
        };
        let common =
            self.precision.unwrap_or_else(|| finite.clone().map(needed).max().unwrap_or(0).max(1));
        let exponents = finite.filter_map(|l| split(number(l, None)).1);
        let longest = exponents.map(|e| e.unsigned_abs()).max().unwrap_or(0);
        // The width of an exponent: its sign, and as many digits as the longest exponent has, at least two.
        let exponent_width = 1 + longest.to_string().len().max(2);
        let text = |l: &Literal| {
            if !l.to_f64().is_finite() {
                return self.signed(shortest(l.to_f64()));
            }
            // Take the shortest text that parses as this float, and pad it with zeros: further digits of the float
            // would be noise.
            let (mut mantissa, mut exponent) = split(number(l, None));
            if self.precision.is_some() || decimals(&mantissa) > common {
                (mantissa, exponent) = split(number(l, Some(common)));
            } else {
                let point = if mantissa.contains('.') { "" } else { "." };
                mantissa += &format!("{point}{}", "0".repeat(common - decimals(&mantissa)));
            }
            let exponent = exponent.map_or(String::new(), |e| format!("e{e:+0exponent_width$}"));
            self.signed(mantissa + &exponent)
        };
        elements.iter().map(text).collect()
    }

    fn signed(&self, text: String) -> String {
        let plus = self.plus && !text.starts_with(['-', 'n']);
        if plus { format!("+{text}") } else { text }
    }
}

/// Returns the shortest text that reads back as the same float; `nan` for a nan.
fn shortest(x: impl Into<f64> + fmt::Debug + Copy) -> String {
    let wide: f64 = x.into();
    if wide.is_nan() { "nan".to_owned() } else { format!("{x:?}") }
}

/// Returns the text of a finite float with `decimals` decimals, or the shortest one that reads back as the same
/// float.
fn digits(x: impl fmt::Display + fmt::LowerExp, powers: bool, decimals: Option<usize>) -> String {
    match (powers, decimals) {
        (false, None) => format!("{x}"),
        (false, Some(n)) => format!("{x:.n$}"),
        (true, None) => format!("{x:e}"),
        (true, Some(n)) => format!("{x:.n$e}"),
    }
}

/// Splits the text of a number into mantissa and exponent; `None` if it has no exponent.
fn split(text: String) -> (String, Option<i32>) {
    match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa.to_owned(), exponent.parse().ok()),
        None => (text, None),
    }
}

fn decimals(mantissa: &str) -> usize {
    mantissa.split_once('.').map_or(0, |(_, d)| d.len())
}

/// Returns whether exponents are needed, because numbers of the array are very large, very small or differ much in
/// size.
fn far_apart(dtype: Dtype, elements: &[Literal]) -> bool {
    let sizes = || elements.iter().map(|l| l.to_f64().abs()).filter(|x| x.is_finite() && *x > 0.0);
    let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    // From this size on, a number is printed with an exponent. In f32, such a number has more digits before the decimal
    // point than are significant (six).
    let large = if dtype == Dtype::F32 { 1e6 } else { 1e8 };
    most >= large || (most > 0.0 && (least < 1e-4 || most / least > 1000.0))
}
