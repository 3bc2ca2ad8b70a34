//! Passes on tape layouts, which are looked up by name, and pipelines of passes.

use super::check::check;
use super::scratchpad_model::ScratchpadModel;
use super::{Layout, group_records, initial_layout, layers, offsets, stream_inputs, streams};
use crate::loop_ir::Program;
use tapeloom_ir::Problem;

/// A pass on tape layouts: a function that returns a changed layout.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The name of the pass, as `Pipeline::passes` lists it.
    pub name: &'static str,
    /// The function that takes a layout and returns the changed layout.
    pub run: fn(&Program, Layout, &ScratchpadModel) -> Layout,
}

/// All passes on tape layouts, in the order in which pipelines run them.
pub const PASSES: [Pass; 5] = [
    Pass { name: "records", run: group_records::records },
    Pass { name: "inputs", run: stream_inputs::inputs },
    Pass { name: "layers", run: layers::layers },
    Pass { name: "streams", run: streams::streams },
    Pass { name: "offsets", run: offsets::offsets },
];

/// A pipeline: a list of layout passes that run one after the other, and its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pipeline {
    /// The name of the pipeline, such as `tflow`.
    pub name: &'static str,
    /// The names of the passes, in the order in which they run.
    pub passes: &'static [&'static str],
}

impl Pipeline {
    /// The pipeline without passes: each saved array stays in a region of its own (structure of arrays), accessed
    /// through the cache.
    pub const SOA: Pipeline = Pipeline { name: "soa", passes: &[] };
    /// The pipeline with only one pass, which groups arrays into records (array of structures). The records are
    /// accessed through the cache.
    pub const AOS: Pipeline = Pipeline { name: "aos", passes: &["records"] };
    /// Saved arrays are grouped into records (array of structures), which are streamed through the scratchpad.
    pub const TFLOW: Pipeline =
        Pipeline { name: "tflow", passes: &["records", "layers", "streams", "offsets"] };
    /// Records of saved arrays, and arguments that the reverse pass reads in order, are streamed through the
    /// scratchpad.
    pub const MINTAPE_TFLOW: Pipeline = Pipeline {
        name: "mintape+tflow",
        passes: &["records", "inputs", "layers", "streams", "offsets"],
    };

    /// All pipelines, in order of increasing number of passes, from none to all five.
    pub const ALL: [Pipeline; 4] =
        [Pipeline::SOA, Pipeline::AOS, Pipeline::TFLOW, Pipeline::MINTAPE_TFLOW];

    /// Returns the layout of a program's residuals after the passes of this pipeline.
    ///
    /// # Errors
    /// Errors of [`Layout::run_passes`].
    pub fn run(&self, program: &Program, model: &ScratchpadModel) -> Result<Layout, Problem> {
        let passes = PASSES.iter().filter(|pass| self.passes.contains(&pass.name));
        Layout::run_passes(program, model, passes)
    }
}

impl Layout {
    /// Runs `passes` on the initial layout of a program. The layout is verified after the last pass, in debug builds
    /// after each pass.
    ///
    /// # Errors
    /// [`tapeloom_ir::Kind::Internal`] if a pass returned an invalid layout.
    pub fn run_passes<'p>(
        program: &Program,
        model: &ScratchpadModel,
        passes: impl IntoIterator<Item = &'p Pass>,
    ) -> Result<Layout, Problem> {
        let (mut layout, mut last) = (initial_layout::layout(program, model), "no pass");
        for pass in passes {
            if cfg!(debug_assertions) {
                check(program, &layout, model).map_err(|what| broken(last, &what))?;
            }
            (layout, last) = ((pass.run)(program, layout, model), pass.name);
        }
        check(program, &layout, model).map_err(|what| broken(last, &what))?;
        Ok(layout)
    }
}

fn broken(pass: &str, what: &str) -> Problem {
    Problem::internal(format!("after `{pass}`, the layout of the tape is wrong: {what}"))
}
