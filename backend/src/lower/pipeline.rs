//! The steps of lowering in order, from a function to a program. Callees are lowered before their callers.

use super::build::arranged_copies;
use super::candidates::{fusion_candidates, war_order};
use super::emission::buffer_assignment;
use super::emission::dynamic_tape::Tapes;
use super::fusion::tree_text::Trees;
use super::graph::units::{self, CompiledUnits, Donation, Unit};
use super::operands::{blas_select, region_operands};
use super::trees::verify_tree;
use super::{build, fusion};
use crate::loop_ir::{Kernel, KernelId, Program};
use crate::passes::{Context, plan_memory};
use crate::report::loop_tape_warnings::large_residuals;
use crate::report::memory_plan::Plan;
use crate::report::rematerialized::rematerialized;
use crate::target::Options;
use cranelift_entity::PrimaryMap;
use tapeloom_ir::{ArrayType, FuncId, Kind, Module, Problem};

/// Lowers a function to loop nests, for the default machine model, on which all thresholds were measured.
///
/// # Errors
/// [`tapeloom_ir::Kind::Target`] if a value is not an array,
/// [`tapeloom_ir::Kind::TooLarge`] if an array does not fit in memory.
pub fn lower_to_loops(module: &Module, func: FuncId) -> Result<Program, Problem> {
    Ok(plan_on(&Options::default(), module, func)?.0)
}

/// Lowers a function to loop nests and plans their memory, without any other pass. Returns the memory plan, too.
///
/// # Errors
/// As [`lower_to_loops`].
pub fn plan(module: &Module, func: FuncId) -> Result<(Program, Plan), Problem> {
    let (mut program, mut plan) = plan_on(&Options::default(), module, func)?;
    plan_memory::PASS.apply(&mut program, &mut Context::default())?;
    plan.complete(&program, &[]);
    Ok((program, plan))
}

/// Returns, as text, the loop trees of a function, after the loop trees of its callees. They show which equations share
/// a loop, and which values have memory.
///
/// ```
/// use tapeloom_backend::loop_trees;
/// use tapeloom_ir::parse_module;
/// let text = "func @f(%0: f64[40,100]) -> (f64[40]) {
///   %1: f64[40,100] = exp %0
///   %2: f64[40] = reduce_sum{axes=[1]} %1
///   return %2
/// }";
/// let module = parse_module(text).map_err(|e| format!("{e:?}"))?;
/// let (f, _) = module.iter().last().ok_or("no function")?;
/// let trees = loop_trees(&module, f)?;
/// assert_eq!(trees.matches("for i1").count(), 1, "both share a loop:\n{trees}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`lower_to_loops`].
pub fn loop_trees(module: &Module, func: FuncId) -> Result<String, Problem> {
    let mut text = String::new();
    let mut observe = |trees: &Trees<'_>| text += &trees.to_string();
    lower(&Options::default(), module, func, &mut observe)?;
    Ok(text)
}

/// Lowers a function to loop nests for the target of the options. Returns the program before all passes, and its memory
/// plan, which [`Plan::complete`] completes after the passes. If the options request a limit, loops count their
/// iterations.
pub(crate) fn plan_on(
    options: &Options,
    module: &Module,
    func: FuncId,
) -> Result<(Program, Plan), Problem> {
    lower(options, module, func, &mut |_| {})
}

/// A callback that receives the loop trees of each function.
type Observe<'a> = &'a mut dyn FnMut(&Trees<'_>);

fn lower(
    options: &Options,
    module: &Module,
    func: FuncId,
    observe: Observe<'_>,
) -> Result<(Program, Plan), Problem> {
    let mut calls = units::Calls::of(module, func)?;
    calls.machine = options.machine;
    let f = module.function(func);
    let (arguments, results) = (f.param_types(), f.result_types());
    if let Some(ty) = arguments.iter().chain(&results).find(|ty| ty.as_array().is_none()) {
        let message = format!("a program takes and returns arrays, and @{} has {ty}", f.name);
        return Err(Problem::new(Kind::Target, message, ""));
    }
    let mut callees: PrimaryMap<KernelId, Kernel> = calls.made.iter().cloned().collect();
    let mut plans: PrimaryMap<KernelId, Plan> = callees.values().map(|_| Plan::default()).collect();
    let mut tapes = Tapes::new(&callees, options.limited);
    for (unit, inline) in &calls.kept {
        let made = CompiledUnits { calls: &calls, callees: &callees, plans: &plans };
        let (mut kernel, plan) = kernel(module, unit, made, &mut tapes, observe)?;
        plans.push(plan);
        tapes.cut(&mut kernel, &module.function(unit.function).result_types());
        callees.push(Kernel { inline: *inline, ..kernel });
    }
    let donation = match options.donated.contains(&true) {
        true => Donation::of_arguments(&arguments, &results, &options.donated),
        false => Donation::None,
    };
    let unit = Unit { function: func, donation };
    let made = CompiledUnits { calls: &calls, callees: &callees, plans: &plans };
    let (entry, mut plan) = kernel(module, &unit, made, &mut tapes, observe)?;
    plan.calls = calls.rows;
    plan.tapes.clone_from(&tapes.all);
    plan.large_residuals = large_residuals(module, func);
    plan.rematerialized = rematerialized(module, func);
    let limited = tapes.limited.unwrap_or_default();
    Ok((Program { tapes: tapes.all, limited, timers: 0, callees, entry }, plan))
}

/// Lowers one function, whose callees have been lowered, to a kernel and its memory plan.
fn kernel(
    module: &Module,
    unit: &Unit,
    made: CompiledUnits<'_>,
    tapes: &mut Tapes,
    observe: Observe<'_>,
) -> Result<(Kernel, Plan), Problem> {
    let CompiledUnits { calls, callees, .. } = made;
    let mut graph = build::build(module, calls, callees, unit)?;
    let mut copied = blas_select::copied(&graph);
    copied.extend(region_operands::copied(&graph));
    copied.extend(war_order::copied(&graph, &unit.donation));
    graph.copy_operands(&copied.into_iter().collect::<Vec<_>>());
    if arranged_copies::insert(&mut graph) {
        graph = graph.without_dead_nodes();
    }
    let f = module.function(unit.function);
    let params: Vec<ArrayType> =
        f.all_params().map(|p| build::array(&f.types[p])).collect::<Result<_, _>>()?;
    let candidates = war_order::in_order(&graph, fusion_candidates::candidates(&graph));
    let emitted = fusion::emit(&graph, &unit.donation, candidates)?;
    if cfg!(debug_assertions) {
        verify_tree::check(&graph, &unit.donation, &emitted.body, &emitted.takes_over)?;
    }
    observe(&Trees { name: &f.name, graph: &graph, emitted: &emitted });
    buffer_assignment::finish(&f.name, &params, &graph, &unit.donation, emitted, made, tapes)
}
