//! The printer: writes a module, or one function with its callees, as text.

use crate::lang::function::{Atom, Equation, FuncId, Function, ValueId};
use crate::lang::host::Host;
use crate::lang::module::Module;
use crate::lang::phase::Phase;
use crate::lang::types::Type;
use crate::prim::Attr;
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::{self, Display, Write};

/// Prints all functions of a module, callees first.
pub fn print_module(module: &Module) -> String {
    let all: Vec<FuncId> = module.iter().map(|(id, _)| id).collect();
    print_all(module, &all)
}

/// Prints a function after all functions that it refers to.
pub fn print_function(module: &Module, id: FuncId) -> String {
    print_functions(module, &[id])
}

/// Prints functions and all functions that they refer to, callees first.
pub fn print_functions(module: &Module, ids: &[FuncId]) -> String {
    let mut needed: BTreeSet<FuncId> = ids.iter().copied().collect();
    let mut pending = ids.to_vec();
    while let Some(f) = pending.pop() {
        for e in &module.function(f).equations {
            pending.extend(callees(e).filter(|callee| needed.insert(*callee)));
        }
    }
    // Functions refer only to functions added before them, so in the order of ids callees come first.
    print_all(module, &needed.into_iter().collect::<Vec<_>>())
}

/// Prints one equation of a function, without indentation.
pub fn print_equation(module: &Module, f: &Function, index: usize) -> String {
    print_one(module, &f.types, &f.equations[index])
}

/// Prints one equation without indentation; `types` has the types of its values.
pub(crate) fn print_one(
    module: &Module,
    types: &PrimaryMap<ValueId, Type>,
    e: &Equation,
) -> String {
    let called: Vec<FuncId> = callees(e).collect();
    let printer = Printer { module, names: unique_names(module, &called), hosts: host_names([e]) };
    printer.equation(types, e).to_string()
}

fn print_all(module: &Module, ids: &[FuncId]) -> String {
    let equations = ids.iter().flat_map(|id| &module.function(*id).equations);
    let hosts = host_names(equations);
    let printer = Printer { module, names: unique_names(module, ids), hosts };
    let mut text = String::new();
    for (i, id) in ids.iter().enumerate() {
        let gap = if i == 0 { "" } else { "\n" };
        // The result of `write!` is ignored, because writing to a string cannot fail.
        let _ = write!(text, "{gap}{}", printer.function(*id));
    }
    text
}

/// Returns the functions to which an equation refers.
fn callees(e: &Equation) -> impl Iterator<Item = FuncId> + use<> {
    e.op.regions().into_iter().map(|r| r.function)
}

/// Returns the functions' names for the text: characters that the lexer rejects become `_`, and of equal names all
/// but the first get a suffix `.2`, `.3`, ..
fn unique_names(module: &Module, ids: &[FuncId]) -> SecondaryMap<FuncId, String> {
    let mut names = SecondaryMap::new();
    let mut taken = Names::default();
    for id in ids.iter().filter(|id| module.contains(**id)) {
        names[*id] = taken.unique(&module.function(*id).name);
    }
    names
}

/// Returns the hosts' names for the text; of equal names all but the first get a suffix `.2`, `.3`, ..
fn host_names<'e>(equations: impl IntoIterator<Item = &'e Equation>) -> HashMap<Host, String> {
    let mut names = HashMap::new();
    let mut taken = Names::default();
    for host in equations.into_iter().filter_map(|e| e.op.host()) {
        names.entry(host.clone()).or_insert_with(|| taken.unique(host.name()));
    }
    names
}

/// The names used so far in a text, so that each new name is unique.
#[derive(Default)]
struct Names {
    taken: HashSet<String>,
    /// The last suffix given to each name. The search for the next suffix begins there, so that naming takes linear
    /// time even if many names are equal.
    last: HashMap<String, usize>,
}

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let plain: String = name.chars().map(letter).collect();
        let base = if plain.is_empty() { "f".to_owned() } else { plain };
        let mut name = base.clone();
        let n = self.last.entry(base.clone()).or_insert(1);
        while !self.taken.insert(name.clone()) {
            *n += 1;
            name = format!("{base}.{n}");
        }
        name
    }
}

fn letter(c: char) -> char {
    if crate::lex::in_name(c) { c } else { '_' }
}

struct Printer<'a> {
    module: &'a Module,
    names: SecondaryMap<FuncId, String>,
    hosts: HashMap<Host, String>,
}

impl Printer<'_> {
    fn function(&self, id: FuncId) -> impl Display {
        let f = self.module.function(id);
        display(move |out| {
            write!(out, "func @{}(", self.names[id])?;
            list(out, &f.params, |out, p| write!(out, "{p}: {}", f.types[*p]))?;
            if !f.linear_params.is_empty() {
                out.write_str("; ")?;
                list(out, &f.linear_params, |out, p| write!(out, "{p}: {}", f.types[*p]))?;
            }
            out.write_str(") -> (")?;
            list(out, &f.results, |out, r| write!(out, "{}", f.type_of(*r)))?;
            out.write_str(") {\n")?;
            let mut phase = Phase::FORWARD;
            for (e, own) in f.equations.iter().zip(&f.phases) {
                if *own != phase {
                    writeln!(out, "{own}:")?;
                    phase = *own;
                }
                writeln!(out, "  {}", self.equation(&f.types, e))?;
            }
            out.write_str("  return")?;
            operands(out, &f.results)?;
            out.write_str("\n}\n")
        })
    }

    fn equation(&self, types: &PrimaryMap<ValueId, Type>, e: &Equation) -> impl Display {
        display(move |out| {
            list(out, &e.outputs, |out, o| write!(out, "{o}: {}", types[*o]))?;
            if !e.outputs.is_empty() {
                out.write_str(" = ")?;
            }
            out.write_str(e.op.name())?;
            let attributes = e.op.attributes();
            if !attributes.is_empty() {
                out.write_str("{")?;
                list(out, &attributes, |out, (name, value)| {
                    write!(out, "{name}=")?;
                    self.attribute(out, value)
                })?;
                out.write_str("}")?;
            }
            operands(out, &e.operands)
        })
    }

    fn attribute(&self, out: &mut fmt::Formatter<'_>, value: &Attr) -> fmt::Result {
        match value {
            Attr::Func(f) => write!(out, "@{}", self.names[*f]),
            Attr::Funcs(all) => {
                let names: Vec<String> =
                    all.iter().map(|f| format!("@{}", self.names[*f])).collect();
                write!(out, "[{}]", names.join(","))
            }
            Attr::Host(host) => {
                write!(out, "&{}", self.hosts.get(host).map_or(host.name(), String::as_str))
            }
            other => write!(out, "{other}"),
        }
    }
}

/// Writes operands after a blank, such as ` %1, 2.0`; writes nothing if there are none.
fn operands(out: &mut fmt::Formatter<'_>, atoms: &[Atom]) -> fmt::Result {
    if !atoms.is_empty() {
        out.write_str(" ")?;
    }
    list(out, atoms, |out, a| match a {
        Atom::Value(v) => write!(out, "{v}"),
        Atom::Literal(l) => write!(out, "{l}"),
    })
}

fn list<T>(
    out: &mut fmt::Formatter<'_>,
    items: &[T],
    mut item: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (i, x) in items.iter().enumerate() {
        if i > 0 {
            out.write_str(", ")?;
        }
        item(out, x)?;
    }
    Ok(())
}

/// Wraps a closure that writes into a formatter into a value that implements `Display`.
fn display(f: impl Fn(&mut fmt::Formatter<'_>) -> fmt::Result) -> impl Display {
    struct Shown<F>(F);
    impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> Display for Shown<F> {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            (self.0)(out)
        }
    }
    Shown(f)
}
