//! Programs on a plugin of XLA, to compare with the interpreter.
//!
//! The environment variable `TAPELOOM_PJRT_PLUGIN` names the plugin. Tests without a plugin are skipped, and say so.

use crate::Elements;
use std::panic::Location;
use tapeloom::xla::{Client, ClientOptions, PLUGIN_VARIABLE, Plugin};
use tapeloom_backend::stablehlo::Shardings;
use tapeloom_ir::prim::Sharded;
use tapeloom_ir::{
    Builder, Dtype, FuncId, Mesh, Module, PartitionSpec, Problem, Tensor, Type, rebuild,
};

/// Returns a client with one device. If the environment names no plugin, prints that the test is skipped, and returns
/// `None`.
///
/// # Panics
/// If the plugin that the environment names cannot be loaded.
#[track_caller]
pub fn client_or_skip() -> Option<Client> {
    devices_or_skip(1)
}

/// Returns a client with `count` devices. If the environment names no plugin, prints that the test is skipped, and
/// returns `None`.
///
/// # Panics
/// If the plugin that the environment names cannot be loaded.
#[track_caller]
#[allow(clippy::panic, reason = "it is an assertion")]
pub fn devices_or_skip(count: usize) -> Option<Client> {
    if std::env::var_os(PLUGIN_VARIABLE).is_none_or(|path| path.is_empty()) {
        println!("skipped, because {PLUGIN_VARIABLE} is not set: {}", Location::caller());
        return None;
    }
    let options = ClientOptions::new().cpu_device_count(count as u32);
    match Plugin::found().and_then(|plugin| Client::new(&plugin, &options)) {
        Ok(client) => Some(client),
        Err(error) => panic!("{error}"),
    }
}

/// Returns whether an element is a subnormal float. On CPUs, XLA treats subnormal floats as zero.
pub fn has_subnormals(x: &Tensor) -> bool {
    let least = match x.dtype() {
        Dtype::F32 => f64::from(f32::MIN_POSITIVE),
        Dtype::F64 => f64::MIN_POSITIVE,
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => return false,
    };
    (0..x.elements()).map(|i| x.at(i).to_f64().abs()).any(|x| x > 0.0 && x < least)
}

/// Returns a partition spec for an array of this shape. `variant` decides which axes are divided, among those that the mesh
/// divides evenly.
pub fn spec(shape: &[usize], mesh: &Mesh, variant: usize) -> PartitionSpec {
    let axes: Vec<(&str, usize)> = mesh.axes().collect();
    let mut free: Vec<(&str, usize)> = axes.clone();
    free.rotate_left(variant % axes.len().max(1));
    let word = |(i, extent): (usize, &usize)| {
        let fits = |(_, size): &(&str, usize)| extent.is_multiple_of(*size);
        match free.iter().position(fits) {
            Some(at) if (variant >> i) % 4 != 1 => free.remove(at).0.to_owned(),
            _ => "_".to_owned(),
        }
    };
    PartitionSpec::new(shape.iter().enumerate().map(word).collect::<Vec<String>>())
}

/// Divides the arguments, the results and some values of a function among the devices of a mesh. `variant` decides how.
///
/// # Errors
/// If the function cannot be built. This would be a bug in the builder or in this function.
pub fn divided(
    m: &mut Module,
    f: FuncId,
    mesh: &Mesh,
    variant: usize,
) -> Result<(FuncId, Shardings), Problem> {
    let of = m.get(f);
    let specs = |types: Vec<Type>| -> Vec<PartitionSpec> {
        let arrays = types.iter().filter_map(Type::as_array).enumerate();
        arrays.map(|(i, ty)| spec(&ty.shape, mesh, variant + i)).collect()
    };
    let (arguments, results) = (specs(of.param_types()), specs(of.result_types()));
    let divided = rebuild(&of, |draft, i, operands| {
        let mut outputs = draft.copy(&of, i, operands);
        if let [y] = outputs.as_mut_slice()
            && (variant + i).is_multiple_of(3)
            && let Some(ty) = of.types[of.equations[i].outputs[0]].as_array()
        {
            let spec = spec(&ty.shape, mesh, variant + 5 * i);
            *y = Builder::new(m, draft).emit1(Sharded { spec }, &[*y]);
        }
        Ok(outputs)
    })?;
    Ok((m.add(divided)?, Shardings { mesh: mesh.clone(), arguments, results }))
}
