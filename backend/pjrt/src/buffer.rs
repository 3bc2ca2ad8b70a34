//! Buffers: arrays on devices.

use crate::calls::RawBuffer;
use crate::element::{ArrayType, Element};
use crate::error::{Error, ErrorKind};
use crate::program::is_row_major;
use crate::shared::{Device, Shared};
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// An array on a device. Its values may not be computed yet when it is returned; a copy to the host waits for them.
pub struct Buffer {
    shared: Arc<Shared>,
    pub(crate) raw: RawBuffer,
    of: Arc<ArrayType>,
    /// Whether the array is certain to be in row-major order on the device.
    row_major: bool,
    device: Device,
    /// The reason why the buffer has no memory anymore; not set while it has memory.
    ended: OnceLock<End>,
}

/// The reason why a buffer has no memory anymore.
#[derive(Clone)]
enum End {
    Deleted,
    /// The buffer was donated: an execution of the program with this name took over its memory.
    Donated(Arc<str>),
}

impl Buffer {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        raw: RawBuffer,
        of: Arc<ArrayType>,
        row_major: bool,
        device: &Device,
    ) -> Buffer {
        let (shared, device) = (shared.clone(), device.clone());
        Buffer { shared, raw, of, row_major, device, ended: OnceLock::new() }
    }

    /// Returns the element type and the dimensions.
    pub fn array_type(&self) -> &ArrayType {
        &self.of
    }

    /// Returns the device on which the array lies.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Copies the array to the host, in row-major order whatever its order on the device, and waits for the copy.
    ///
    /// Errors: the buffer was deleted or donated; the execution that computes it failed; those of the plugin.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.of.checked_bytes()?];
        self.copy_to(&mut bytes)?;
        Ok(bytes)
    }

    /// Copies the array to bytes of the host, in row-major order, and waits for the copy.
    ///
    /// Errors: the number of bytes is not that of the array; those of [`Buffer::to_bytes`].
    pub fn copy_to(&self, bytes: &mut [u8]) -> Result<(), Error> {
        self.alive()?;
        self.raw.to_host(&self.of, bytes)?;
        self.shared.to_host.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Copies the array to the host, as elements in row-major order.
    ///
    /// Errors: the elements have another type; those of [`Buffer::to_bytes`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>, Error> {
        if T::TYPE != self.of.element() {
            return Err(Error::argument(format!(
                "the buffer is {}, expected elements of type {}",
                self.of,
                T::TYPE
            )));
        }
        Ok(T::from_bytes(&self.to_bytes()?))
    }

    /// Waits until the array has its values.
    ///
    /// Errors: the buffer was deleted or donated; the execution that computes it failed.
    pub fn wait(&self) -> Result<(), Error> {
        self.alive()?;
        self.raw.ready()?.wait()
    }

    /// Returns whether the array's computation has ended, with values or with an error.
    pub fn is_ready(&self) -> Result<bool, Error> {
        self.alive()?;
        self.raw.ready()?.is_ready()
    }

    /// Copies the array to another device of the client.
    ///
    /// Errors: the buffer was deleted or donated; the device is another client's; those of the plugin, for example if it
    /// copies no buffer to its own device.
    pub fn copy_to_device(&self, device: &Device) -> Result<Buffer, Error> {
        self.alive()?;
        let raw = self.raw.copy_to_device(&device.raw)?;
        Ok(Buffer::new(&self.shared, raw, self.of.clone(), false, device))
    }

    /// Frees the memory on the device, once executions that read it have ended. Later uses are errors.
    pub fn delete(&self) -> Result<(), Error> {
        self.raw.delete()?;
        self.ended.get_or_init(|| End::Deleted);
        Ok(())
    }

    /// Returns whether the buffer was deleted or donated.
    pub fn is_deleted(&self) -> Result<bool, Error> {
        Ok(self.ended.get().is_some() || self.raw.is_deleted()?)
    }

    pub(crate) fn is_of(&self, shared: &Arc<Shared>) -> bool {
        Arc::ptr_eq(&self.shared, shared)
    }

    /// Returns an error if the buffer was deleted or donated.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        let message = match self.ended.get() {
            None => return Ok(()),
            Some(End::Deleted) => format!("this buffer, {}, was deleted", self.of),
            Some(End::Donated(name)) => format!(
                "this buffer, {}, was donated to an execution of `{name}`, whose results took over \
                 its memory; expected a buffer that was not donated. Use the result, or execute \
                 with `keep` for this argument",
                self.of
            ),
        };
        Err(Error::new(ErrorKind::Deleted, message))
    }

    /// Returns the order of dimensions on the device, the fastest varying first, if it may differ from `expected`. The
    /// plugin is not asked if the array is certainly row-major and `expected` is row-major.
    pub(crate) fn other_order(&self, expected: &[i64]) -> Option<Vec<i64>> {
        if self.row_major && is_row_major(expected) {
            return None;
        }
        self.raw.minor_to_major().filter(|order| order != expected)
    }

    /// Asks the plugin whether an execution of the program with this name took over the memory. If so, later uses of
    /// the buffer are errors that name the program.
    pub(crate) fn note_donation(&self, name: &Arc<str>) -> Result<(), Error> {
        if self.raw.is_deleted()? {
            self.ended.get_or_init(|| End::Donated(name.clone()));
        }
        Ok(())
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} on {})", self.of, self.device)
    }
}
