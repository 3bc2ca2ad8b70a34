//! Devices, and the state of a client that its buffers and executables share.

use crate::calls::{RawClient, RawDescription, RawDevice};
use crate::completion::InFlight;
use crate::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A device of a client.
#[derive(Clone)]
pub struct Device {
    pub(crate) raw: RawDevice,
    description: Arc<RawDescription>,
}

impl Device {
    fn new(raw: RawDevice) -> Result<Device, Error> {
        let description = raw.description()?.into();
        Ok(Device { raw, description })
    }

    /// Returns the id, which is unique among the devices of all processes.
    pub fn id(&self) -> i32 {
        self.description.id
    }

    /// Returns the number of the process to which the device belongs.
    pub fn process_index(&self) -> i32 {
        self.description.process_index
    }

    /// Returns the kind, a text of the vendor, such as `cpu` or `Tesla V100-SXM2-16GB`.
    pub fn kind(&self) -> &str {
        &self.description.kind
    }

    /// Returns whether this process can give work to the device.
    pub fn is_addressable(&self) -> bool {
        self.description.addressable
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.raw == other.raw
    }
}

impl Eq for Device {}

/// The plugin's text for messages about the device.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description.debug_text)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The state of a client that its buffers and executables share.
pub(crate) struct Shared {
    pub(crate) devices: Vec<Device>,
    pub(crate) addressable: Vec<Device>,
    pub(crate) in_flight: InFlight,
    pub(crate) to_devices: AtomicU64,
    pub(crate) to_host: AtomicU64,
    pub(crate) raw: Arc<RawClient>,
}

impl Shared {
    pub(crate) fn new(raw: Arc<RawClient>, in_flight: usize) -> Result<Shared, Error> {
        let devices = raw.devices()?.into_iter().map(Device::new).collect::<Result<_, _>>()?;
        let addressable =
            raw.addressable_devices()?.into_iter().map(Device::new).collect::<Result<_, _>>()?;
        Ok(Shared {
            devices,
            addressable,
            in_flight: InFlight::new(in_flight),
            to_devices: AtomicU64::new(0),
            to_host: AtomicU64::new(0),
            raw,
        })
    }

    /// Returns the device of this client that the plugin means by `raw`; an error if the client has no
    /// such device.
    pub(crate) fn device(&self, raw: &RawDevice) -> Result<Device, Error> {
        let known = self.devices.iter().chain(&self.addressable).find(|device| device.raw == *raw);
        known.cloned().ok_or_else(|| {
            Error::interface("the plugin named a device that is not one of the client's")
        })
    }
}

/// Executions use the client, so wait for them before the client is destroyed.
impl Drop for Shared {
    fn drop(&mut self) {
        // `drop` cannot return an error. Callers that need the errors of executions call `wait` before.
        let _ = self.in_flight.wait();
    }
}
