//! Writes shardings, which say how arrays are divided among the devices of a mesh, in the dialect of Shardy.
//!
//! ```text
//! sdy.mesh @mesh = <["data"=2, "model"=2]>
//! %1 = sdy.sharding_constraint %0 <@mesh, [{"data"}, {}, {?}]> : tensor<4x4x4xf64>
//! ```
//!
//! An axis of an array is divided along the mesh axes in its braces, in this order. A question mark lets the engine
//! choose the division of the axis.

use super::writer::{Value, Writer};
use tapeloom_ir::{Mesh, PartitionSpec, Problem};

/// Returns the first lines of a module for the devices of a mesh. If `hosts`, the module calls Rust functions, and the
/// lines also declare the mesh of the first device, on which these calls happen.
pub(super) fn module_start(name: &str, mesh: &Mesh, hosts: bool) -> String {
    let axes: Vec<String> = mesh.axes().map(|(name, size)| format!("\"{name}\"={size}")).collect();
    let devices = mesh.devices();
    format!(
        "module @{name} attributes {{mhlo.num_partitions = {devices} : i32, mhlo.num_replicas = 1 : i32}} {{\n  \
         sdy.mesh @mesh = <[{}]>\n",
        axes.join(", ")
    ) + if hosts { "  sdy.mesh @first = <[], device_ids=[0]>\n" } else { "" }
}

/// Returns the attribute that puts all operands and results of an operation on the first device; `results` is the
/// number of the operation's results.
pub(super) fn on_first_device(results: usize) -> String {
    let all = vec!["<@first, []>"; results];
    format!("sdy.sharding = #sdy.sharding_per_value<[{}]>", all.join(", "))
}

/// Appends a constraint that each device has a copy of the whole array. Returns the constrained array.
pub(super) fn replicated(w: &mut Writer, x: &Value) -> Value {
    let axes = vec!["{}"; x.ty.shape.len()];
    append(w, x, &format!("<@mesh, [{}]>", axes.join(", ")))
}

/// Returns a partition spec as text, such as `<@mesh, [{"data"}, {}]>`, for an array of this shape.
pub(super) fn text(spec: &PartitionSpec, shape: &[usize], mesh: &Mesh) -> Result<String, Problem> {
    spec.parts(shape, mesh)?;
    let axes = spec.axes(shape.len()).into_iter().map(|names| match names {
        Some(names) => {
            let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
            format!("{{{}}}", names.join(", "))
        }
        None => "{?}".to_owned(),
    });
    Ok(format!("<@mesh, [{}]>", axes.collect::<Vec<_>>().join(", ")))
}

/// Appends a constraint that divides an array among devices. Returns the constrained array.
pub(super) fn constrain(
    w: &mut Writer,
    x: &Value,
    spec: &PartitionSpec,
    mesh: &Mesh,
) -> Result<Value, Problem> {
    let spec = text(spec, &x.ty.shape, mesh)?;
    Ok(append(w, x, &spec))
}

/// Returns the indices of a gather or scatter with a constraint that does not divide their last axis among devices.
/// Along this axis are the coordinates of a position.
///
/// If the last axis is divided, XLA's partitioner makes a program that XLA refuses, or a scatter with wrong results
/// (versions of the C API up to 0.115).
pub(super) fn whole_positions(w: &mut Writer, indices: &Value) -> Value {
    let places = indices.ty.shape.len() - 1;
    if !w.is_divided() || indices.ty.shape[places] < 2 {
        return indices.clone();
    }
    let open = "{?}, ".repeat(places);
    append(w, indices, &format!("<@mesh, [{open}{{}}]>"))
}

/// Appends a constraint on the sharding of `x`, and returns the constrained array; `spec` is the partition spec as
/// text.
fn append(w: &mut Writer, x: &Value, spec: &str) -> Value {
    let text = format!("sdy.sharding_constraint {x} {spec} : {}", super::types::tensor(&x.ty));
    w.free(&text, vec![x.ty.clone()]).remove(0)
}
