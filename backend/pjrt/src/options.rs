//! Options of a client, and the named values that the C API takes and returns.

use crate::error::Error;

/// A value with a name: an option of a client or an attribute of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedValue {
    /// A text.
    Text(String),
    /// A whole number.
    Int(i64),
    /// Whole numbers, for example the parts of a version.
    Ints(Vec<i64>),
    /// A float of 32 bits.
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

/// The option of plugins for CPUs that states the number of devices.
const CPU_DEVICE_COUNT: &str = "cpu_device_count";

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
        self.value(CPU_DEVICE_COUNT, NamedValue::Int(count.into()))
    }

    /// Sets an option of the plugin by its name. Plugins differ in their options.
    pub fn value(mut self, name: impl Into<String>, value: NamedValue) -> ClientOptions {
        self.values.push((name.into(), value));
        self
    }

    /// Sets how many executions may be in flight (32 without this option, and at least 1). If there are as many, the
    /// start of another execution first waits for the oldest.
    pub fn in_flight(mut self, executions: usize) -> ClientOptions {
        self.in_flight = executions.max(1);
        self
    }

    /// Returns an error if the number of devices is not an i32. Plugins of versions 0.81 and 0.106 do not check the
    /// type of this option, and end the process.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let not_int = |(name, value): &&(String, NamedValue)| {
            name == CPU_DEVICE_COUNT
                && !matches!(value, NamedValue::Int(count) if i32::try_from(*count).is_ok())
        };
        match self.values.iter().find(not_int) {
            Some((name, value)) => {
                Err(Error::argument(format!("the option {name} is an i32, found {value:?}")))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_devices_is_checked() {
        assert_eq!(ClientOptions::new().cpu_device_count(4).check(), Ok(()));
        for wrong in [NamedValue::Text("4".into()), NamedValue::Int(1 << 40)] {
            let error = ClientOptions::new().value("cpu_device_count", wrong).check().unwrap_err();
            assert!(
                error.message().starts_with("the option cpu_device_count is an i32, found "),
                "{error}"
            );
        }
    }
}
