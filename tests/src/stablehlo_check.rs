//! A check of StableHLO text, without an engine: names are defined once and before their uses, operands have the types
//! that operations state, and operations are known.
//!
//! It reads the subset of MLIR that `tapeloom_backend::stablehlo` writes: one operation a line; operations with regions are
//! opened by a line that ends in `({`, and closed by one that begins with `})`.

use crate::Failure;
use std::collections::{BTreeMap, BTreeSet};

/// The operations that a text may have.
const OPERATIONS: &str = "stablehlo.add stablehlo.subtract stablehlo.multiply stablehlo.divide stablehlo.remainder \
    stablehlo.negate stablehlo.abs stablehlo.sign stablehlo.floor stablehlo.ceil stablehlo.sqrt stablehlo.rsqrt \
    stablehlo.cbrt stablehlo.maximum stablehlo.minimum stablehlo.compare stablehlo.select stablehlo.and stablehlo.or \
    stablehlo.xor stablehlo.not stablehlo.shift_left stablehlo.shift_right_arithmetic \
    stablehlo.shift_right_logical stablehlo.is_finite stablehlo.convert stablehlo.bitcast_convert \
    stablehlo.exponential stablehlo.exponential_minus_one stablehlo.log stablehlo.log_plus_one stablehlo.power \
    stablehlo.sine stablehlo.cosine stablehlo.tan stablehlo.tanh stablehlo.atan2 stablehlo.logistic \
    stablehlo.round_nearest_afz stablehlo.round_nearest_even chlo.asin chlo.acos chlo.atan chlo.sinh chlo.cosh \
    chlo.asinh chlo.acosh chlo.atanh chlo.erf chlo.erfc chlo.erf_inv chlo.lgamma chlo.digamma chlo.polygamma chlo.zeta \
    chlo.next_after stablehlo.constant stablehlo.iota stablehlo.reshape stablehlo.transpose \
    stablehlo.broadcast_in_dim stablehlo.slice stablehlo.pad stablehlo.concatenate stablehlo.reverse \
    stablehlo.dynamic_slice stablehlo.dynamic_update_slice stablehlo.gather stablehlo.scatter stablehlo.reduce \
    stablehlo.reduce_window \
    stablehlo.sort stablehlo.dot_general stablehlo.convolution stablehlo.while stablehlo.case \
    stablehlo.optimization_barrier stablehlo.custom_call stablehlo.cholesky stablehlo.triangular_solve \
    sdy.sharding_constraint stablehlo.fft stablehlo.complex stablehlo.real stablehlo.imag func.call return stablehlo.return";

/// The values of a function that are defined before a line, with their types, by name.
#[derive(Clone, Default)]
struct Scope {
    types: BTreeMap<String, String>,
}

/// An operation whose regions are being read.
struct Opened {
    /// The scope of the lines around the operation, to return to after its regions.
    outside: Scope,
    results: Vec<String>,
    operands: Vec<String>,
}

/// Checks the text of a StableHLO module.
///
/// # Errors
/// The first line that is wrong, and why.
pub fn check(text: &str) -> Result<(), Failure> {
    let known: BTreeSet<&str> = OPERATIONS.split_whitespace().collect();
    let mut functions: BTreeMap<String, String> = BTreeMap::new();
    let mut calls: Vec<(String, String)> = Vec::new();
    let (mut scope, mut opened, mut defined) = (Scope::default(), Vec::new(), BTreeSet::new());
    let mut ended = false;
    let mut results = String::new();
    for line in text.lines() {
        let at = |why: &str| -> Failure { format!("{why} in `{}`", line.trim()).into() };
        // A line of the text may end with the location of the user's source line; remove the location first.
        let text = line.split(" loc(").next().unwrap_or_default().trim();
        if text.is_empty() || text.starts_with("module ") || text.starts_with("sdy.mesh ") {
            continue;
        }
        if let Some(rest) = text.strip_prefix("func.func ") {
            let rest = without_attributes(rest.trim_end_matches(" {"));
            let rest = rest.split_once('@').ok_or_else(|| at("a function without a name"))?.1;
            let (name, rest) = rest.split_once('(').ok_or_else(|| at("no parameters"))?;
            let (params, ends) = rest.rsplit_once(") -> (").ok_or_else(|| at("no results"))?;
            results = ends.trim_end_matches(')').to_owned();
            (scope, defined, ended) = (Scope::default(), BTreeSet::new(), false);
            let types = define_all(&mut scope, &mut defined, params).map_err(|why| at(&why))?;
            let signature = format!("({}) -> ({results})", types.join(", "));
            if functions.insert(name.to_owned(), signature).is_some() {
                return Err(at("a function that is defined twice"));
            }
            continue;
        }
        if text == "}" {
            if !ended && !functions.is_empty() && !scope.types.is_empty() {
                return Err(at("a function that does not return"));
            }
            continue;
        }
        if let Some(params) = text.strip_prefix("^bb0(") {
            let params = params.strip_suffix("):").ok_or_else(|| at("no block"))?;
            define_all(&mut scope, &mut defined, params).map_err(|why| at(&why))?;
            continue;
        }
        if text == "}, {" {
            let around: &Opened = opened.last().ok_or_else(|| at("no operation is open"))?;
            scope = around.outside.clone();
            continue;
        }
        if text.starts_with("})") {
            let Opened { outside, results, operands } =
                opened.pop().ok_or_else(|| at("no operation is open"))?;
            scope = outside;
            let (from, to) = signature(text).ok_or_else(|| at("no types"))?;
            agree(&operands, &from).map_err(|why| at(&why))?;
            define(&mut scope, &mut defined, &results, &to).map_err(|why| at(&why))?;
            continue;
        }
        let (left, right) = match text.split_once(" = ") {
            Some((left, right)) if left.starts_with('%') => (left, right),
            _ => ("", text),
        };
        let results_here = result_names(left);
        let name = right.split([' ', '(']).next().unwrap_or_default().trim_matches('"');
        if !known.contains(name) {
            return Err(at("an unknown operation"));
        }
        // Skip everything behind ` : `: types and attributes contain no names of values.
        let body = right.split(" : ").next().unwrap_or_default();
        let operands = uses(body);
        let mut found = Vec::new();
        for operand in &operands {
            let ty = scope.types.get(operand).ok_or_else(|| at("a value before its definition"))?;
            found.push(ty.clone());
        }
        if right.ends_with("({") {
            opened.push(Opened { outside: scope.clone(), results: results_here, operands: found });
            continue;
        }
        if right == "return" || right == "stablehlo.return" {
            ended = true;
            continue;
        }
        let types = right.rsplit_once(" : ").ok_or_else(|| at("no types"))?.1;
        let (from, to) = match (signature(right), name) {
            (Some(signature), _) => signature,
            (None, "return" | "stablehlo.return") => {
                ended = true;
                if name == "return" && types != results {
                    return Err(at("other results than the function states"));
                }
                (split(types), Vec::new())
            }
            (None, "stablehlo.select") => {
                let all = split(types);
                let [mask, ty] = all.as_slice() else { return Err(at("no types")) };
                (vec![mask.clone(), ty.clone(), ty.clone()], vec![ty.clone()])
            }
            (None, "stablehlo.optimization_barrier") => (split(types), split(types)),
            (None, "stablehlo.complex") => {
                let part = types.replace("complex<", "").replace(">>", ">");
                (vec![part.clone(), part], vec![types.to_owned()])
            }
            (None, "stablehlo.constant" | "stablehlo.iota") => (Vec::new(), vec![types.to_owned()]),
            (None, _) => (vec![types.to_owned(); operands.len()], vec![types.to_owned()]),
        };
        agree(&found, &from).map_err(|why| at(&why))?;
        define(&mut scope, &mut defined, &results_here, &to).map_err(|why| at(&why))?;
        if name == "func.call" {
            let callee = right.split('@').nth(1).and_then(|rest| rest.split('(').next());
            let callee = callee.ok_or_else(|| at("a call without a function"))?;
            calls
                .push((callee.to_owned(), format!("({}) -> ({})", from.join(", "), to.join(", "))));
        }
    }
    for (callee, types) in calls {
        match functions.get(&callee) {
            Some(own) if *own == types => {}
            Some(own) => {
                return Err(format!("@{callee} has the type {own}, called as {types}").into());
            }
            None => return Err(format!("there is no function @{callee}").into()),
        }
    }
    Ok(())
}

/// Defines parameters, `%0: tensor<f64>, %1: ..`; returns their types.
fn define_all(
    scope: &mut Scope,
    defined: &mut BTreeSet<String>,
    params: &str,
) -> Result<Vec<String>, String> {
    let mut types = Vec::new();
    for param in params.split(", ").filter(|param| !param.is_empty()) {
        let (name, ty) = param.split_once(": ").ok_or("a parameter without a type")?;
        define(scope, defined, &[name.to_owned()], &[ty.to_owned()])?;
        types.push(ty.to_owned());
    }
    Ok(types)
}

/// Returns the text without the attributes of parameters and results, each a space and braces.
fn without_attributes(text: &str) -> String {
    let (mut kept, mut depth) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '{' => {
                if depth == 0 {
                    kept.pop();
                }
                depth += 1;
            }
            '}' => depth -= 1,
            _ if depth == 0 => kept.push(c),
            _ => {}
        }
    }
    kept
}

fn define(
    scope: &mut Scope,
    defined: &mut BTreeSet<String>,
    names: &[String],
    types: &[String],
) -> Result<(), String> {
    if names.len() != types.len() {
        return Err(format!("{} results, and types for {}", names.len(), types.len()));
    }
    for (name, ty) in names.iter().zip(types) {
        if !defined.insert(name.clone()) {
            return Err(format!("{name} is defined twice"));
        }
        scope.types.insert(name.clone(), ty.clone());
    }
    Ok(())
}

/// Returns the results on the left side of an operation: `%5`, or `%5#0` and `%5#1` for `%5:2`.
fn result_names(left: &str) -> Vec<String> {
    match left.split_once(':') {
        None if left.is_empty() => Vec::new(),
        None => vec![left.to_owned()],
        Some((name, count)) => {
            (0..count.parse().unwrap_or(0)).map(|i: usize| format!("{name}#{i}")).collect()
        }
    }
}

/// Returns the names of values in a text, in order.
fn uses(text: &str) -> Vec<String> {
    let part = |c: char| c.is_ascii_digit() || c == '#';
    let names = text.split('%').skip(1);
    names.map(|rest| format!("%{}", rest.split(|c| !part(c)).next().unwrap_or_default())).collect()
}

/// Returns the types of operands and results, if the text ends in a function type.
fn signature(text: &str) -> Option<(Vec<String>, Vec<String>)> {
    let (before, to) = text.rsplit_once(" -> ")?;
    let from = before.rsplit_once(" : ")?.1;
    let bare = |list: &str| split(list.trim_start_matches('(').trim_end_matches(')'));
    Some((bare(from), bare(to)))
}

fn split(types: &str) -> Vec<String> {
    types.split(", ").filter(|ty| !ty.is_empty()).map(str::to_owned).collect()
}

fn agree(found: &[String], stated: &[String]) -> Result<(), String> {
    match found == stated {
        true => Ok(()),
        false => Err(format!("operands of {found:?}, stated as {stated:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    const GOOD: &str = "module @f {
  func.func public @main(%0: tensor<3xf64>) -> (tensor<3xf64>) {
    %1 = stablehlo.add %0, %0 : tensor<3xf64>
    %2 = stablehlo.constant dense<0> : tensor<i64>
    %3:2 = \"stablehlo.while\"(%2, %1) ({
    ^bb0(%4: tensor<i64>, %5: tensor<3xf64>):
      %6 = stablehlo.compare LT, %4, %4, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }, {
    ^bb0(%7: tensor<i64>, %8: tensor<3xf64>):
      %9 = func.call @g(%8) : (tensor<3xf64>) -> (tensor<3xf64>)
      stablehlo.return %7, %9 : tensor<i64>, tensor<3xf64>
    }) : (tensor<i64>, tensor<3xf64>) -> (tensor<i64>, tensor<3xf64>) loc(\"a.rs\":3:4)
    return %3#1 : tensor<3xf64>
  }
  func.func private @g(%0: tensor<3xf64>) -> (tensor<3xf64>) {
    return %0 : tensor<3xf64>
  }
}
";

    #[track_caller]
    fn refused(from: &str, to: &str, why: &str) {
        assert!(GOOD.contains(from), "{from}");
        let found = check(&GOOD.replacen(from, to, 1)).map_err(|e| e.to_string());
        assert!(found.as_ref().is_err_and(|e| e.contains(why)), "{found:?}");
    }

    #[test]
    fn mistakes_are_found() {
        assert!(check(GOOD).is_ok());
        refused("add %0, %0", "add %0, %9", "before its definition");
        refused("%2 = stablehlo.constant", "%1 = stablehlo.constant", "defined twice");
        refused("%0 : tensor<3xf64>\n    %2", "%0 : tensor<4xf64>\n    %2", "operands of");
        refused("stablehlo.add", "stablehlo.plus", "unknown operation");
        // A value that one region defines must not be visible in the other region or after the operation.
        refused("call @g(%8)", "call @g(%5)", "before its definition");
        refused("return %3#1", "return %8", "before its definition");
        refused("@g(%8)", "@h(%8)", "no function @h");
        refused("private @g(%0: tensor<3xf64>) -> (tensor<3xf64>)", "private @g() -> ()", "");
        refused("%3:2 =", "%3:3 =", "3 results");
        refused("return %3#1 : tensor<3xf64>", "return %3#0 : tensor<i64>", "other results");
    }
}
