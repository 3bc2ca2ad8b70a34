//! The settings of a `Jit` that divide its arrays among devices.

#![cfg_attr(
    not(feature = "stablehlo"),
    allow(dead_code, reason = "without StableHLO there is one device")
)]

use crate::tree::Form;
#[cfg(feature = "stablehlo")]
use std::sync::Arc;
#[cfg(feature = "stablehlo")]
use tapeloom_backend::stablehlo::Shardings;
use tapeloom_ir::{ArrayType, Kind, Mesh, PartitionSpec, Problem};

/// The mesh of a `Jit`, and the partition specs of its arguments and results, each with the path to which it applies.
#[derive(Clone, Default)]
pub(super) struct Division {
    pub(super) mesh: Option<Mesh>,
    pub(super) arguments: Option<Vec<(String, PartitionSpec)>>,
    pub(super) results: Option<Vec<(String, PartitionSpec)>>,
}

/// The first word of the paths of arguments.
pub(super) const ARGUMENT: &str = "argument";

/// The first word of the paths of results.
pub(super) const RESULT: &str = "result";

impl Division {
    /// Returns the mesh, and the partition specs of arguments of this form and these types; `None` without a mesh.
    ///
    /// # Errors
    /// [`Kind::Arguments`] if there are specs and no mesh; if an argument has no spec although others have, or a spec no
    /// argument; [`Kind::Shape`] and [`Kind::Arguments`] for a spec that does not fit its argument or the mesh.
    pub(super) fn of_arguments(
        &self,
        form: &Form,
        types: &[ArrayType],
    ) -> Result<Option<(&Mesh, Vec<PartitionSpec>)>, Problem> {
        let Some(mesh) = &self.mesh else {
            return match (&self.arguments, &self.results) {
                (None, None) => Ok(None),
                _ => Err(Problem::new(
                    Kind::Arguments,
                    "there are partition specs, and no mesh whose axes they name",
                    "give the mesh: `.mesh(Mesh::new([(\"data\", 4)])?)`",
                )),
            };
        };
        Ok(Some((mesh, of_leaves(self.arguments.as_ref(), mesh, form, types, ARGUMENT)?)))
    }

    /// Returns how a program with arguments and results of these forms and types is divided; `None` without a mesh.
    ///
    /// # Errors
    /// As [`Division::of_arguments`], also for results.
    #[cfg(feature = "stablehlo")]
    pub(super) fn of_program(
        &self,
        arguments: (&Form, &[ArrayType]),
        results: (&Form, &[ArrayType]),
    ) -> Result<Option<Arc<Shardings>>, Problem> {
        let Some((mesh, arguments)) = self.of_arguments(arguments.0, arguments.1)? else {
            return Ok(None);
        };
        let results = of_leaves(self.results.as_ref(), mesh, results.0, results.1, RESULT)?;
        Ok(Some(Arc::new(Shardings { mesh: mesh.clone(), arguments, results })))
    }
}

/// Returns the specs of the leaves of a tree. A spec at a node of the tree applies to all leaves below it. If no specs were
/// given, every device has a copy of each array.
fn of_leaves(
    given: Option<&Vec<(String, PartitionSpec)>>,
    mesh: &Mesh,
    form: &Form,
    types: &[ArrayType],
    root: &str,
) -> Result<Vec<PartitionSpec>, Problem> {
    let Some(given) = given else {
        return Ok(vec![PartitionSpec::replicated(); types.len()]);
    };
    let paths = form.paths(root);
    let covers = |node: &str, leaf: &str| {
        leaf.strip_prefix(node).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    if let Some((node, _)) =
        given.iter().find(|(node, _)| !paths.iter().any(|leaf| covers(node, leaf)))
    {
        return Err(Problem::new(
            Kind::Arguments,
            format!(
                "there is a partition spec for `{node}`, and no such array; the arrays are {}",
                listed(&paths)
            ),
            "give a tree of specs like that of the arrays; a spec in place of a part of the tree is for all of its arrays",
        ));
    }
    let spec = |(leaf, ty): (&String, &ArrayType)| {
        let Some((_, spec)) = given.iter().find(|(node, _)| covers(node, leaf)) else {
            return Err(Problem::new(
                Kind::Arguments,
                format!("there is no partition spec for `{leaf}`"),
                "`PartitionSpec::replicated()` gives each device a copy",
            ));
        };
        let fits = spec.parts(&ty.shape, mesh);
        fits.map_err(|p| Problem { message: format!("`{leaf}`, {ty}: {}", p.message), ..p })?;
        if spec.axes(ty.shape.len()).contains(&None) {
            return Err(Problem::new(
                Kind::Arguments,
                format!("`{leaf}`, {ty}: the partition spec {spec} leaves a division open"),
                "name the mesh axis, or write `_`: arguments and results need a known division",
            ));
        }
        Ok(spec.clone())
    };
    paths.iter().zip(types).map(spec).collect()
}

/// Returns the first few paths as a list, for messages.
fn listed(paths: &[String]) -> String {
    let shown: Vec<String> = paths.iter().take(8).map(|path| format!("`{path}`")).collect();
    let more = if paths.len() > 8 { ", .." } else { "" };
    format!("{}{more}", shown.join(", "))
}
