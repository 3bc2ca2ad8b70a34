//! Programs in StableHLO on a plugin of XLA, to compare with the interpreter.
//!
//! The environment variable `TAPELOOM_PJRT_PLUGIN` names the plugin. Tests without a plugin are skipped, and say so.

use crate::{Elements, Failure};
use tapeloom_ir::{ArrayType, Dtype, Tensor};
use tapeloom_pjrt::{
    Client, ClientOptions, CompileOptions, ElementType, OverrideValue, PLUGIN_VARIABLE, Plugin,
};

/// A client of a plugin, with one device.
#[allow(missing_debug_implementations, reason = "a client has none")]
pub struct Xla {
    client: Client,
}

impl Xla {
    /// Returns a client; `None` without a plugin, which is printed.
    ///
    /// # Panics
    /// If the plugin that is named cannot be loaded.
    #[track_caller]
    #[allow(clippy::panic, reason = "it is an assertion")]
    pub fn or_skip() -> Option<Xla> {
        if std::env::var_os(PLUGIN_VARIABLE).is_none_or(|path| path.is_empty()) {
            let line = std::panic::Location::caller();
            println!(
                "skipped, because {PLUGIN_VARIABLE} is not set: {}:{}",
                line.file(),
                line.line()
            );
            return None;
        }
        let client = Plugin::found().and_then(|plugin| Client::new(&plugin, &ClientOptions::new()));
        match client {
            Ok(client) => Some(Xla { client }),
            Err(problem) => panic!("{problem}"),
        }
    }

    /// Compiles a text, and runs it once.
    ///
    /// # Errors
    /// Those of the plugin.
    pub fn run(&self, text: &str, args: &[Tensor]) -> Result<Vec<Tensor>, Failure> {
        // By default, XLA's maximum and minimum on CPUs are not nan if one operand is.
        let exact = OverrideValue::Bool(false);
        let options = CompileOptions::new().xla_option("xla_cpu_enable_fast_min_max", exact);
        let program = self.client.compile(text, &options)?;
        let device = &self.client.devices()[0];
        let mut buffers = Vec::new();
        for x in args {
            let (element, dims) = (element(x.dtype()), x.shape());
            buffers.push(self.client.buffer_from_bytes(x.bytes(), element, dims, device)?);
        }
        let results = program.call(&buffers.iter().collect::<Vec<_>>())?;
        let mut all = Vec::new();
        for y in &results {
            let of = y.array_type();
            let dtype = Dtype::ALL.into_iter().find(|dtype| element(*dtype) == of.element());
            let ty = ArrayType::new(dtype.ok_or("a result of another type")?, of.dims());
            all.push(Tensor::from_bytes(&ty, &y.to_bytes()?)?);
        }
        Ok(all)
    }
}

fn element(dtype: Dtype) -> ElementType {
    match dtype {
        Dtype::Bool => ElementType::Pred,
        Dtype::I32 => ElementType::S32,
        Dtype::I64 => ElementType::S64,
        Dtype::U32 => ElementType::U32,
        Dtype::U64 => ElementType::U64,
        Dtype::F32 => ElementType::F32,
        Dtype::F64 => ElementType::F64,
    }
}

/// Returns whether an element is a subnormal float. XLA takes these for zero on CPUs.
pub fn has_subnormals(x: &Tensor) -> bool {
    let least = match x.dtype() {
        Dtype::F32 => f64::from(f32::MIN_POSITIVE),
        Dtype::F64 => f64::MIN_POSITIVE,
        Dtype::Bool | Dtype::I32 | Dtype::I64 | Dtype::U32 | Dtype::U64 => return false,
    };
    (0..x.elements()).map(|i| x.at(i).to_f64().abs()).any(|x| x > 0.0 && x < least)
}
