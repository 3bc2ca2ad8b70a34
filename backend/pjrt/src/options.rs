//! Options of a client, and the named values that the C API takes and returns.

/// A value with a name: an option of a client or an attribute of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedValue {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// Whole numbers, for example the parts of a version.
    Ints(Vec<i64>),
    /// A number.
    Float(f32),
    /// A switch.
    Bool(bool),
}

/// Options of a client.
///
/// ```
/// use tapeloom_pjrt::{ClientOptions, NamedValue};
/// let four_cpus = ClientOptions::new().cpu_device_count(4);
/// let half_a_gpu = ClientOptions::new().value("memory_fraction", NamedValue::Float(0.5));
/// assert_ne!(four_cpus, half_a_gpu);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOptions {
    pub(crate) values: Vec<(String, NamedValue)>,
    pub(crate) in_flight: usize,
}

/// The number of executions that may be in flight, if the options say nothing.
const IN_FLIGHT: usize = 32;

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions::new()
    }
}

impl ClientOptions {
    /// Makes options that leave every choice to the plugin.
    pub fn new() -> ClientOptions {
        ClientOptions { values: Vec::new(), in_flight: IN_FLIGHT }
    }

    /// Sets the number of devices into which a plugin for CPUs divides the host.
    pub fn cpu_device_count(self, count: u32) -> ClientOptions {
        self.value("cpu_device_count", NamedValue::Int(count.into()))
    }

    /// Sets an option of the plugin by its name. Plugins differ in their options.
    pub fn value(mut self, name: impl Into<String>, value: NamedValue) -> ClientOptions {
        self.values.push((name.into(), value));
        self
    }

    /// Sets how many executions may be in flight, 32 without this option: an execution beyond them first waits for the
    /// oldest. At least one may be.
    pub fn in_flight(mut self, executions: usize) -> ClientOptions {
        self.in_flight = executions.max(1);
        self
    }
}
