//! Assigns memory to the operands and results of regions (calls, branches, loops, external functions).
//!
//! Operands lie in memory without gaps: each is an array, or a view of consecutive elements of an array. Other operands
//! are copied first, once. Results are written to the memory that the caller assigns. If the initial value of a result
//! is an operand, the result takes over the operand's memory, or the operand is copied to the memory of the result.

use super::strided_layout::contiguous;
use crate::lower::graph::{Graph, NodeId, Source};
use crate::lower::trees::loop_tree::{RegionStep, Span};
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::Problem;

/// Returns the operands of regions that must be copied first because their elements are not consecutive in memory, as
/// (node, operand number).
pub(crate) fn copied(graph: &Graph) -> BTreeSet<(NodeId, usize)> {
    let regions = graph.nodes.iter().filter(|(_, node)| node.kind.region().is_some());
    let slots = regions.flat_map(|(id, node)| {
        let initial_values =
            node.kind.region().map_or(&[][..], |r| &graph.regions[r].initial_values);
        // An operand that is the initial value of a result is copied to the memory of the result instead.
        let begun = move |s: &usize| initial_values.iter().any(|(slot, _)| slot == s);
        let gaps = move |s: &usize| !begun(s) && contiguous(graph, node.operands[*s]).is_none();
        (0..node.operands.len()).filter(gaps).map(move |slot| (id, slot))
    });
    slots.collect()
}

/// Returns the result nodes of every region (call, branch or loop), keyed by the node of the region's first result.
pub(crate) fn results(graph: &Graph) -> BTreeMap<NodeId, Vec<NodeId>> {
    let mut all: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for (id, node) in &graph.nodes {
        if let Some(region) = node.kind.region() {
            let own = graph.regions[region].results > 0;
            all.insert(id, own.then_some(id).into_iter().collect());
        }
        if let Some(first) = node.first_result() {
            all.entry(first).or_default().push(id);
        }
    }
    all
}

/// Returns the loop-tree statement (step) of the region node `id`, whose results are `results`.
pub(crate) fn step(graph: &Graph, id: NodeId, results: Vec<NodeId>) -> Result<RegionStep, Problem> {
    let node = &graph.nodes[id];
    let Some(region) = node.kind.region() else {
        return Err(Problem::internal(format!("{id} runs as a region, and is none")));
    };
    let initial_values = &graph.regions[region].initial_values;
    let place = |(slot, s): (usize, &Source)| {
        let elements = graph.array(*s).shape.elements();
        if let Some((_, result)) = initial_values.iter().find(|(begun, _)| *begun == slot) {
            return Ok(Span { node: results[*result], offset: 0, elements });
        }
        let (node, offset) = contiguous(graph, *s)
            .ok_or_else(|| Problem::internal(format!("an operand of {id} is not in memory")))?;
        Ok(Span { node, offset, elements })
    };
    let operands = node.operands.iter().enumerate().map(place).collect::<Result<_, _>>()?;
    Ok(RegionStep { first: id, region, operands, results })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use crate::loop_ir::{Stmt, visit};
    use crate::lower::plan;
    use crate::lower::tests::check_all;
    use tapeloom_ir::{Module, Tensor, parse_module};

    /// Returns a module with a function `@step` of two results, and a caller `@f` with the given body.
    fn module(body: &str) -> Module {
        let text = format!(
            "func @step(%0: f64[3], %1: f64[]) -> (f64[3], f64[]) {{
  %2: f64[3] = broadcast{{shape=[3], dims=[]}} %1
  %3: f64[3] = exp %0
  %4: f64[3] = mul %3, %2
  %5: f64[3] = sin %4
  %6: f64[] = reduce_sum{{axes=[0]}} %5
  return %5, %6
}}
func @f(%0: f64[3], %1: f64[2,3], %2: i64[]) -> {body}"
        );
        parse_module(&text).unwrap()
    }

    /// Returns the number of calls, and of other statements except nests, in the lowered caller.
    fn count(module: &Module) -> (usize, usize) {
        let (program, _) = plan(module, module.iter().last().unwrap().0).unwrap();
        let (mut calls, mut others) = (0, 0);
        visit(&program.entry.body, &mut |s| match s {
            Stmt::Call(_) => calls += 1,
            Stmt::Nest { .. } => {}
            _ => others += 1,
        });
        (calls, others)
    }

    fn check(body: &str, calls: usize) {
        let module = module(body);
        assert_eq!(count(&module).0, calls, "{body}");
        let x = Tensor::from([0.5, -1.0, 0.25]);
        let y = Tensor::from([[1.0, 0.5, -2.0], [0.125, 2.0, -0.5]]);
        let args = |i: i64| [x.clone(), y.clone(), Tensor::from(i)];
        let all = [0, 2, 9].map(args);
        let f = module.iter().last().unwrap().0;
        check_all(&module, f, &all.each_ref().map(<[Tensor; 3]>::as_slice), 1e-12);
    }

    #[test]
    fn results_are_read_or_not_returned_twice_and_written_over() {
        check(
            "(f64[3], f64[]) {
  %3: f64[3], %4: f64[] = call{function=@step, outline=true} %0, 2.0
  %5: f64[3], %6: f64[] = call{function=@step, outline=true} %3, %4
  return %5, %4
}",
            2,
        );
        check(
            "(f64[3], f64[3], f64[], f64[3]) {
  %3: f64[3], %4: f64[] = call{function=@step, outline=true} %0, 2.0
  %5: f64[3], %6: f64[] = call{function=@step, outline=true} %3, 2.0
  %7: f64[1] = broadcast{shape=[1], dims=[]} 10.0
  %8: f64[3] = dynamic_update_slice %3, %7, %2
  %9: f64[3] = dynamic_update_slice %5, %7, %2
  return %8, %9, %6, %9
}",
            2,
        );
        check(
            "(f64[3]) {
  %3: f64[3] = neg %0
  %4: f64[1] = broadcast{shape=[1], dims=[]} 10.0
  %5: f64[3] = dynamic_update_slice %3, %4, %2
  %6: f64[3], %7: f64[] = call{function=@step, outline=true} %3, 2.0
  %8: f64[3], %9: f64[] = call{function=@step, outline=true} %5, %7
  %10: f64[3] = add %8, %6
  return %10
}",
            2,
        );
    }

    #[test]
    fn operands_are_places_or_copied_once() {
        let body = "(f64[], f64[], f64[], f64[]) {
  %3: f64[3] = rev{axes=[0]} %0
  %4: f64[1,3] = slice{start=[1,0], limit=[2,3], strides=[1,1]} %1
  %5: f64[3] = reshape{shape=[3]} %4
  %6: f64[3], %7: f64[] = call{function=@step, outline=true} %3, 2.0
  %8: f64[3], %9: f64[] = call{function=@step, outline=true} %5, %7
  %10: f64[3], %11: f64[] = call{function=@step, outline=true} %3, %9
  %12: f64[1] = slice{start=[2], limit=[3], strides=[1]} %10
  %13: f64[] = reshape{shape=[]} %12
  %14: f64[3], %15: f64[] = call{function=@step, outline=true} %10, %13
  return %7, %9, %11, %15
}";
        check(body, 4);
        // The reversed array is copied once, by three loads and three stores, and the number 2.0 is stored
        // once.
        let (_, others) = count(&module(body));
        assert_eq!(others, 3 * 2 + 1);
    }

    /// The lowered program must have no call: calls of functions without elements, single calls and calls of small
    /// functions are inlined.
    #[test]
    fn some_calls_do_not_stay() {
        check(
            "(f64[3]) {
  %3: f64[3], %4: f64[] = call{function=@step, outline=true} %0, 2.0
  return %3
}",
            0,
        );
        let text = "func @small(%0: f64[3]) -> (f64[3]) {
  %1: f64[3] = exp %0
  %2: f64[3] = sin %1
  %3: f64[3] = neg %2
  return %3
}
func @none(%0: f64[3], %1: f64[0]) -> (f64[3], f64[0]) {
  %2: f64[3] = exp %0
  %3: f64[3] = sin %2
  %4: f64[3] = neg %3
  %5: f64[0] = exp %1
  return %4, %5
}
func @f(%0: f64[3], %1: f64[0]) -> (f64[3], f64[0]) {
  %2: f64[3] = call{function=@small, outline=true} %0
  %3: f64[3] = call{function=@small, outline=true} %2
  %4: f64[3], %5: f64[0] = call{function=@none, outline=true} %3, %1
  %6: f64[3], %7: f64[0] = call{function=@none, outline=true} %4, %5
  return %6, %7
}";
        assert_eq!(count(&parse_module(text).unwrap()).0, 0);
    }
}
