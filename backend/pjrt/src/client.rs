//! Clients: the devices of a plugin, with the state that buffers and executables share.

use crate::buffer::Buffer;
use crate::calls::RawClient;
use crate::compile_options::CompileOptions;
use crate::element::{ArrayType, Element, ElementType};
use crate::error::Error;
use crate::executable::Executable;
use crate::options::ClientOptions;
use crate::plugin::Plugin;
use crate::shared::{Device, Shared};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A client of a plugin: it owns devices, compiles programs for them and copies arrays to them.
///
/// Clones stand for the same client, which exists until its last clone, buffer and executable are dropped. Clients, buffers
/// and executables may be used from several threads at once.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    plugin: Plugin,
}

/// The numbers of bytes that a client has copied between host and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Bytes from the host to devices.
    pub to_devices: u64,
    /// Bytes from devices to the host.
    pub to_host: u64,
}

impl Client {
    /// Creates a client.
    ///
    /// Errors: those of the plugin, for example if it does not know an option.
    pub fn new(plugin: &Plugin, options: &ClientOptions) -> Result<Client, Error> {
        options.check()?;
        let raw = RawClient::create(plugin.table, &options.values)?;
        let shared = Arc::new(Shared::new(raw, options.in_flight)?);
        Ok(Client { shared, plugin: plugin.clone() })
    }

    /// Returns the plugin.
    pub fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Returns the name of the platform, such as `cpu` or `cuda`.
    pub fn platform_name(&self) -> Result<String, Error> {
        self.shared.raw.platform_name()
    }

    /// Returns the version of the platform, as text for people.
    pub fn platform_version(&self) -> Result<String, Error> {
        self.shared.raw.platform_version()
    }

    /// Returns the number of this process among the processes that share the devices; 0 if there is only one process.
    pub fn process_index(&self) -> Result<i32, Error> {
        self.shared.raw.process_index()
    }

    /// Returns all devices, also those of other processes.
    pub fn devices(&self) -> &[Device] {
        &self.shared.devices
    }

    /// Returns the devices of this process.
    pub fn addressable_devices(&self) -> &[Device] {
        &self.shared.addressable
    }

    /// Copies bytes of the host to a device: an array in row-major order, its elements in the byte order of the machine.
    ///
    /// Errors: the number of bytes is not that of the dimensions; the elements are tokens; the device is another client's;
    /// those of the plugin.
    pub fn buffer_from_bytes(
        &self,
        bytes: &[u8],
        element: ElementType,
        dims: &[usize],
        device: &Device,
    ) -> Result<Buffer, Error> {
        let of = ArrayType::new(element, dims);
        if element == ElementType::Token {
            // Plugins of versions 0.81 and 0.106 end the process if a token is copied to a device.
            return Err(Error::argument(
                "a token has no elements, so it cannot be copied to a device",
            ));
        }
        let raw = self.shared.raw.buffer(bytes, &of, &device.raw)?;
        self.shared.to_devices.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(Buffer::new(&self.shared, raw, of.into(), true, device))
    }

    /// Copies elements of the host to a device: an array in row-major order.
    ///
    /// Errors: as [`Client::buffer_from_bytes`].
    pub fn buffer<T: Element>(
        &self,
        elements: &[T],
        dims: &[usize],
        device: &Device,
    ) -> Result<Buffer, Error> {
        self.buffer_from_bytes(&T::to_bytes(elements), T::TYPE, dims, device)
    }

    /// Compiles a program: a StableHLO module as text, whose function `main` is the program.
    ///
    /// Errors: those of the plugin, which say where the text is wrong; zero replicas or partitions; another number of
    /// device ids than devices, an id of no device, or an id that occurs twice.
    pub fn compile(&self, text: &str, options: &CompileOptions) -> Result<Executable, Error> {
        let known: Vec<i32> = self.devices().iter().map(Device::id).collect();
        options.check(&known)?;
        Executable::new(
            &self.shared,
            self.shared.raw.compile(text, &options.to_proto())?,
            options.device_count(),
        )
    }

    /// Returns whether a buffer belongs to this client, that is, lies on one of its devices.
    pub fn owns(&self, buffer: &Buffer) -> bool {
        buffer.is_of(&self.shared)
    }

    /// Waits for all executions that this client has started. Returns the first error among those since the last call,
    /// whether or not their results have reported it.
    pub fn wait(&self) -> Result<(), Error> {
        self.shared.in_flight.wait()
    }

    /// Returns the number of executions that the client has started and not yet waited for. It exceeds
    /// [`ClientOptions::in_flight`] by less than the number of threads that start executions.
    pub fn executions_in_flight(&self) -> usize {
        self.shared.in_flight.len()
    }

    /// Returns the numbers of bytes that were copied between host and devices since the client was created.
    pub fn transfers(&self) -> Transfers {
        Transfers {
            to_devices: self.shared.to_devices.load(Ordering::Relaxed),
            to_host: self.shared.to_host.load(Ordering::Relaxed),
        }
    }
}

/// Clones of one client are equal; two clients are not, even of one plugin.
impl PartialEq for Client {
    fn eq(&self, other: &Client) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl Eq for Client {}

impl Hash for Client {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.shared).hash(state);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({:?}, {} devices)", self.plugin, self.shared.devices.len())
    }
}
