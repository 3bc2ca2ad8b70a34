//! Prints a kernel as a Rust function, with its parameters and its body.

use super::Source;
use super::buffer_names;
use super::expression::{rust_type, typed_literal, zero};
use super::names::{has_word, of_path, words};
use super::printer::Printer;
use super::source_comments::SourceLines;
use crate::loop_ir::{BufferId, Kernel, KernelId, Place};
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;
use std::fmt::Write;
use tapeloom_ir::{ArrayType, Dtype, Problem, Tensor};
use tapeloom_routines::Argsort;

/// A list of parameters or elements is broken into several lines if its line would be longer than this, in characters.
const WIDTH: usize = 100;

/// A parameter of a function: its name and its type.
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) ty: String,
}

/// A parameter of a callee, in the order in which calls pass them.
pub(super) enum Slot {
    /// The input with this number.
    Input(usize),
    /// The output with this number. A donated input, whose memory the output takes over, has no parameter of its own.
    Output(usize),
}

/// Returns the parameters of a callee, except its tapes: first the inputs whose memory no output takes over, then the
/// outputs.
pub(super) fn slots(kernel: &Kernel) -> Vec<(Slot, BufferId)> {
    let mut inputs: Vec<(usize, BufferId)> = Vec::new();
    let mut outputs: Vec<(usize, BufferId)> = Vec::new();
    for (id, buffer) in &kernel.buffers {
        match buffer.place {
            Place::Input(n) => inputs.push((n, id)),
            Place::Output(n) | Place::Donated { output: n, .. } => outputs.push((n, id)),
            Place::Workspace(_) | Place::Private(_) | Place::Unplaced | Place::Record { .. } => {}
        }
    }
    inputs.sort_unstable();
    outputs.sort_unstable();
    let inputs = inputs.into_iter().map(|(n, id)| (Slot::Input(n), id));
    inputs.chain(outputs.into_iter().map(|(n, id)| (Slot::Output(n), id))).collect()
}

/// Prefixes the names of parameters that the body does not use with `_`, so that the compiler does not warn about them.
fn mark_unused(parameters: &mut [Parameter], body: &str) {
    let words: BTreeSet<&str> = words(body).collect();
    for parameter in parameters {
        if !words.contains(parameter.name.as_str()) {
            parameter.name.insert(0, '_');
        }
    }
}

/// Writes the header of a function to `text`.
fn header(text: &mut String, start: &str, parameters: &[Parameter]) {
    *text += if parameters.len() > 7 { "#[allow(clippy::too_many_arguments)]\n" } else { "" };
    let all: Vec<String> =
        parameters.iter().map(|Parameter { name, ty }| format!("{name}: {ty}")).collect();
    let line = format!("{start}({}) {{", all.join(", "));
    if line.len() <= WIDTH {
        *text += &line;
        text.push('\n');
        return;
    }
    *text += &format!("{start}(\n");
    for parameter in all {
        *text += &format!("    {parameter},\n");
    }
    *text += ") {\n";
}

/// Returns the text of the entry kernel as a public function.
pub(super) fn entry(source: &mut Source<'_>) -> Result<String, Problem> {
    let program = source.program;
    let kernel = &program.entry;
    let mut names = source.names.clone();
    names.enter();
    let mut places: SecondaryMap<BufferId, Option<String>> = SecondaryMap::new();
    let mut parameters = Vec::new();
    let mut text = format!("/// `{}`, printed by tapeloom", source.name);
    text += match source.lines {
        Some(line) => format!(" from {}:{}.\n///\n", line.file(), line.line()),
        None => ".\n///\n".to_owned(),
    }
    .as_str();
    text += "/// | parameter | is | of type |\n/// |---|---|---|\n";
    let inputs = slots_of(kernel, Place::input);
    for (n, (path, ty)) in source.arguments.iter().enumerate() {
        let name = names.fresh(&of_path(path, "x", ""));
        let _ = writeln!(text, "/// | `{name}` | `{path}` | {ty} |");
        let of = rust_type(ty.dtype);
        let ty = match ty.shape.elements() {
            1 => of.to_owned(),
            n => format!("&[{of}; {n}]"),
        };
        if let Some((_, id)) = inputs.iter().find(|(m, _)| *m == n) {
            places[*id] = Some(name.clone());
        }
        parameters.push(Parameter { name, ty });
    }
    let outputs = slots_of(kernel, Place::output);
    for (n, (path, ty)) in source.results.iter().enumerate() {
        let name = names.fresh(&of_path(path, "y", "y_"));
        let _ = writeln!(text, "/// | `{name}` | `{path}` | {ty} |");
        let of = rust_type(ty.dtype);
        let (ty, place) = match ty.shape.elements() {
            1 => (format!("&mut {of}"), format!("*{name}")),
            n => (format!("&mut [{of}; {n}]"), name.clone()),
        };
        if let Some((_, id)) = outputs.iter().find(|(m, _)| *m == n) {
            places[*id] = Some(place);
        }
        parameters.push(Parameter { name, ty });
    }
    let before = source.arguments.len();
    let mut captured = Vec::new();
    for (n, x) in source.captured.iter().enumerate() {
        let Some((_, id)) = inputs.iter().find(|(m, _)| *m == n + before) else { continue };
        let name = names.fresh(&format!("captured_{}", n + 1)).to_ascii_uppercase();
        places[*id] = Some(name.clone());
        captured.push((name, x));
    }
    let tapes = source.tapes.of_entry.clone();
    let mut printer = Printer::new(source, kernel, names, places);
    for tape in tapes {
        printer.own_tape(tape);
    }
    printer.body()?;
    let body = printer.finish();
    mark_unused(&mut parameters, &body);
    for (name, x) in captured {
        if has_word(&body, &name) {
            source.constants.push(constant(&name, x));
        }
    }
    header(&mut text, &format!("pub fn {}", source.name), &parameters);
    Ok(text + &body + "}\n")
}

/// Returns the buffers of a kernel that are arguments or results, each with its number. `number` selects which of the
/// two.
fn slots_of(kernel: &Kernel, number: fn(Place) -> Option<usize>) -> Vec<(usize, BufferId)> {
    kernel.buffers.iter().filter_map(|(id, b)| Some((number(b.place)?, id))).collect()
}

/// Returns the text of a callee as a private function.
pub(super) fn callee(source: &mut Source<'_>, id: KernelId) -> Result<String, Problem> {
    let program = source.program;
    let kernel = &program.callees[id];
    let name = source.kernel_names[id].clone();
    let mut names = source.names.clone();
    names.enter();
    let mut places: SecondaryMap<BufferId, Option<String>> = SecondaryMap::new();
    let mut parameters = Vec::new();
    let contents = buffer_names::contents(kernel);
    for (slot, buffer) in slots(kernel) {
        let ty = &kernel.buffers[buffer].ty;
        let (of, is_one) = (rust_type(ty.dtype), ty.shape.elements() == 1);
        let (name, ty, place) = match slot {
            Slot::Input(n) => {
                let name = names.fresh(&format!("x{n}"));
                let ty = if is_one { of.to_owned() } else { format!("&[{of}]") };
                (name.clone(), ty, name)
            }
            Slot::Output(n) => {
                let wish = contents[buffer].map_or(format!("y{n}"), |name| format!("{name}_{n}"));
                let name = names.fresh(&wish);
                let ty = if is_one { format!("&mut {of}") } else { format!("&mut [{of}]") };
                let place = if is_one { format!("*{name}") } else { name.clone() };
                (name, ty, place)
            }
        };
        parameters.push(Parameter { name, ty });
        places[buffer] = Some(place);
    }
    for tape in &source.tapes.of_callees[id] {
        let tape = &source.tapes.all[*tape];
        let (name, ty) = (tape.name.clone(), format!("&mut {}", tape.type_name));
        parameters.push(Parameter { name, ty });
    }
    let mut text = format!("/// The function `{}`.\n", kernel.name);
    for line in SourceLines::of(&kernel.origins()).comment() {
        let _ = writeln!(text, "/// {line}");
    }
    let body = if let Some(sort) = source.sorts[id] {
        argsort(sort, &parameters)
    } else {
        let mut printer = Printer::new(source, kernel, names, places);
        printer.body()?;
        printer.finish()
    };
    mark_unused(&mut parameters, &body);
    header(&mut text, &format!("fn {name}"), &parameters);
    Ok(text + &body + "}\n")
}

/// Returns the body of a function that sorts. Its two parameters are the elements, and the array for the sorted
/// indices.
fn argsort(sort: Argsort, parameters: &[Parameter]) -> String {
    let Argsort { key, rows, n, columns, first, descending } = sort;
    let [x, places] = [0, 1].map(|i| parameters.get(i).map_or("", |p| p.name.as_str()));
    let is_float = key.word().starts_with('f');
    let compare = match (is_float, descending) {
        (false, false) => "x.cmp(&y)",
        (false, true) => "y.cmp(&x)",
        (true, false) => "x.partial_cmp(&y).unwrap_or(x.is_nan().cmp(&y.is_nan()))",
        (true, true) => "y.partial_cmp(&x).unwrap_or(y.is_nan().cmp(&x.is_nan()))",
    };
    let order = if descending { "the largest first" } else { "the smallest first" };
    let nan = if is_float { "; nan counts as the largest" } else { "" };
    // An array with one element is printed as a number, which cannot be sorted as a slice.
    let is_number = |n: usize| rows * n * columns == 1;
    if is_number(n) && is_number(first) {
        return format!(
            "    // The only element has the index 0.\n    let _ = {x};\n    *{places} = 0;\n"
        );
    }
    let place = match is_number(first) {
        true => format!("*{places}"),
        false => format!("{places}[(row * {first} + k) * {columns} + column]"),
    };
    if (rows, columns) == (1, 1) && first > 1 {
        return format!(
            "    // The indices of elements, {order}{nan}. Equal elements stay in their order.
    let mut order: Vec<usize> = (0..{n}).collect();
    order.sort_by(|&i, &j| {{
        let (x, y) = ({x}[i], {x}[j]);
        {compare}
    }});
    for (place, i) in {places}.iter_mut().zip(order) {{
        *place = i as i64;
    }}
"
        );
    }
    format!(
        "    // The indices of elements along an axis, {order}{nan}. Equal elements stay in their order.
    for row in 0..{rows} {{
        for column in 0..{columns} {{
            let mut order: Vec<usize> = (0..{n}).collect();
            order.sort_by(|&i, &j| {{
                let at = |k: usize| {x}[(row * {n} + k) * {columns} + column];
                let (x, y) = (at(i), at(j));
                {compare}
            }});
            for k in 0..{first} {{
                {place} = order[k] as i64;
            }}
        }}
    }}
"
    )
}

/// Returns the declaration of a constant that holds a captured tensor.
fn constant(name: &str, x: &Tensor) -> String {
    let ArrayType { dtype, .. } = x.ty();
    let of = rust_type(*dtype);
    let elements = x.elements();
    let doc = format!("/// A captured tensor, {}.\n", x.ty());
    if elements == 1 {
        let value = x.literals().next().map_or_else(|| zero(*dtype), typed_literal);
        return format!("{doc}const {name}: {of} = {value};\n");
    }
    let mut text = format!("{doc}static {name}: [{of}; {elements}] = [\n");
    let mut line = String::new();
    for literal in x.literals() {
        let value = super::expression::Expression::literal(literal);
        let value = value.text();
        if line.len() + value.len() + 6 > WIDTH {
            text += &format!("   {line}\n");
            line.clear();
        }
        line += &format!(" {value},");
    }
    if !line.is_empty() {
        text += &format!("   {line}\n");
    }
    text + "];\n"
}

/// Returns the expression that initializes a local array with zeros: an array, or a vector if it is large.
pub(super) fn zeros(dtype: Dtype, elements: usize) -> String {
    let zero = typed_literal(tapeloom_ir::Literal::zero(dtype));
    if elements <= SMALL {
        format!("[{zero}; {elements}]")
    } else {
        format!("vec![{zero}; {elements}]")
    }
}

/// The largest number of elements of a local array on the stack. Larger arrays are vectors.
const SMALL: usize = 16;
