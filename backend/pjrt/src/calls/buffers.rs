//! Arrays on devices: their types, copies from and to the host, and their order of dimensions.
//!
//! The invariants that SAFETY comments cite stand at the top of `mod.rs`.

#![expect(unsafe_code, reason = "calls functions of a C library")]

use super::{RawClient, RawDevice, RawEvent, list, not_null, same_client};
use crate::api::{self, Args};
use crate::element::{ArrayType, ElementType};
use crate::error::{Error, ErrorKind};
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

impl RawClient {
    /// Copies an array of the host, in row-major order, to a device.
    pub(crate) fn buffer(
        self: &Arc<Self>,
        data: &[u8],
        of: &ArrayType,
        device: &RawDevice,
    ) -> Result<RawBuffer, Error> {
        same_client(self, &device.client)?;
        let needed = of.checked_bytes()?;
        if data.len() != needed {
            return Err(Error::argument(format!(
                "{of} has {needed} bytes, found {} bytes",
                data.len()
            )));
        }
        let dims = of.dims_i64()?;
        let mut args = api::ClientBufferFromHostBufferArgs::new();
        args.client = self.pointer.as_ptr();
        args.data = data.as_ptr().cast();
        args.r#type = of.element().pjrt();
        args.dims = dims.as_ptr();
        args.num_dims = dims.len();
        args.host_buffer_semantics = api::IMMUTABLE_ONLY_DURING_CALL;
        args.device = device.pointer.as_ptr();
        // SAFETY: client and device are alive and of one plugin (invariants 1 to 3 in `mod.rs`). `data` has the bytes
        // of the type, and the plugin reads it only during the call (invariant 4).
        unsafe { call!(self.table, client_buffer_from_host_buffer, &mut args)? };
        // The event signals that the plugin has read `data`. Because of `IMMUTABLE_ONLY_DURING_CALL` the plugin has
        // read it when the call returns, so the event is only destroyed.
        drop(
            NonNull::new(args.done_with_host_buffer)
                .map(|event| RawEvent { client: self.clone(), pointer: event }),
        );
        let pointer = not_null(args.buffer, "buffer")?;
        Ok(RawBuffer { client: self.clone(), pointer })
    }
}

/// The owner of an array on a device: frees the array when it is dropped.
pub(crate) struct RawBuffer {
    pub(super) client: Arc<RawClient>,
    pub(super) pointer: NonNull<api::BufferObject>,
}

// SAFETY: a plugin's buffers may be used from every thread (see *Threads* in `mod.rs`).
unsafe impl Send for RawBuffer {}
// SAFETY: a plugin's buffers may be used from several threads at once (see *Threads* in `mod.rs`).
unsafe impl Sync for RawBuffer {}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        let mut args = api::BufferDestroyArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: the buffer is alive and is destroyed only here (invariant 1 in `mod.rs`). The plugin keeps the memory
        // until executions that read it have ended. `drop` cannot report an error.
        let _ = unsafe { call!(self.client.table, buffer_destroy, &mut args) };
    }
}

impl RawBuffer {
    /// Returns the element type and the dimensions, as the plugin states them.
    pub(crate) fn array_type(&self) -> Result<ArrayType, Error> {
        let mut element = api::BufferElementTypeArgs::new();
        element.buffer = self.pointer.as_ptr();
        let mut dims = api::BufferDimensionsArgs::new();
        dims.buffer = self.pointer.as_ptr();
        // SAFETY: the buffer is alive and came from this plugin (invariant 1 in `mod.rs`). The list of dimensions is
        // copied before the plugin's next call (invariant 5).
        let dims = unsafe {
            call!(self.client.table, buffer_element_type, &mut element)?;
            call!(self.client.table, buffer_dimensions, &mut dims)?;
            list(dims.dims, dims.num_dims)
        };
        array_type(element.r#type, dims)
    }

    /// Copies the array to `bytes` in row-major order, whatever its order on the device, and waits for the copy.
    ///
    /// The copy asks the plugin for row-major order. If the array has another order on the device, the copy asks for
    /// that order, and the elements are reordered here, because plugins of version 0.81 ignore the order in the
    /// request.
    pub(crate) fn to_host(&self, of: &ArrayType, bytes: &mut [u8]) -> Result<(), Error> {
        let needed = of.checked_bytes()?;
        if bytes.len() != needed {
            return Err(Error::argument(format!(
                "{of} has {needed} bytes, found room for {} bytes",
                bytes.len()
            )));
        }
        if bytes.is_empty() {
            // An array without elements needs no copy, but may be the result of a failed execution, whose error is
            // returned.
            return self.ready()?.wait();
        }
        let mut row_major: Vec<i64> = (0..).take(of.dims().len()).collect();
        row_major.reverse();
        match self.minor_to_major() {
            Some(order) if order != row_major => {
                let mut in_order = vec![0; needed];
                self.copy_to_host(None, &mut in_order)?;
                let reordered = reorder(&in_order, of, &order, bytes);
                reordered.ok_or_else(|| {
                    Error::interface(format!("the plugin states the order {order:?} of a {of}"))
                })
            }
            Some(_) | None => self.copy_to_host(Some(&row_major), bytes),
        }
    }

    /// Copies the array to `bytes` in the given order of dimensions, the fastest varying first; `None` stands for the
    /// order on the device.
    fn copy_to_host(&self, minor_to_major: Option<&[i64]>, bytes: &mut [u8]) -> Result<(), Error> {
        let mut layout = api::BufferMemoryLayout::new();
        layout.r#type = api::LAYOUT_TILED;
        layout.tiled = api::BufferMemoryLayoutTiled::new();
        let mut args = api::BufferToHostBufferArgs::new();
        args.src = self.pointer.as_ptr();
        if let Some(order) = minor_to_major {
            layout.tiled.minor_to_major = order.as_ptr();
            layout.tiled.minor_to_major_size = order.len();
            args.host_layout = &mut layout;
        }
        args.dst = bytes.as_mut_ptr().cast::<c_void>();
        args.dst_size = bytes.len();
        // SAFETY: the buffer is alive and came from this plugin (invariant 1 in `mod.rs`). The plugin writes at most
        // `dst_size` bytes and refuses fewer than it needs. The event of the copy is awaited before `bytes` can be used
        // again (invariant 4); `library::load` has checked that the plugin can await events.
        unsafe { call!(self.client.table, buffer_to_host_buffer, &mut args)? };
        let event = RawEvent {
            client: self.client.clone(),
            pointer: not_null(args.event, "event of a copy")?,
        };
        event.wait()
    }

    /// Returns the order of dimensions on the device, the fastest varying first; `None` if the plugin does not state it or
    /// if the array lies in tiles.
    pub(crate) fn minor_to_major(&self) -> Option<Vec<i64>> {
        let mut args = api::BufferGetMemoryLayoutArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: the buffer is alive and came from this plugin (invariant 1 in `mod.rs`).
        unsafe { call!(self.client.table, buffer_get_memory_layout, &mut args).ok()? };
        let tiled = &args.layout.tiled;
        if args.layout.r#type != api::LAYOUT_TILED || tiled.num_tiles != 0 {
            return None;
        }
        // SAFETY: the list lives as long as the buffer, and is copied before the plugin's next call (invariant 5 in
        // `mod.rs`).
        Some(unsafe { list(tiled.minor_to_major, tiled.minor_to_major_size) }.to_vec())
    }

    /// Returns the event at which the array has its values.
    pub(crate) fn ready(&self) -> Result<RawEvent, Error> {
        let mut args = api::BufferReadyEventArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: the buffer is alive and came from this plugin (invariant 1 in `mod.rs`).
        unsafe { call!(self.client.table, buffer_ready_event, &mut args)? };
        Ok(RawEvent {
            client: self.client.clone(),
            pointer: not_null(args.event, "event of a buffer")?,
        })
    }

    /// Frees the memory on the device, once executions that read it have ended.
    pub(crate) fn delete(&self) -> Result<(), Error> {
        let mut args = api::BufferDeleteArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: the buffer is alive and came from this plugin (invariant 1 in `mod.rs`). If its memory was deleted
        // before, the plugin returns an error.
        unsafe { call!(self.client.table, buffer_delete, &mut args) }
    }

    /// Returns whether the memory was deleted or donated.
    pub(crate) fn is_deleted(&self) -> Result<bool, Error> {
        let mut args = api::BufferIsDeletedArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: the buffer is alive and came from this plugin (invariant 1 in `mod.rs`).
        unsafe { call!(self.client.table, buffer_is_deleted, &mut args)? };
        Ok(args.is_deleted)
    }

    /// Returns the device on which the array lies.
    pub(crate) fn device(&self) -> Result<RawDevice, Error> {
        let mut args = api::BufferDeviceArgs::new();
        args.buffer = self.pointer.as_ptr();
        // SAFETY: the buffer is alive and came from this plugin (invariant 1 in `mod.rs`).
        unsafe { call!(self.client.table, buffer_device, &mut args)? };
        RawDevice::new(&self.client, args.device)
    }

    /// Copies the array to another device of the client.
    pub(crate) fn copy_to_device(&self, device: &RawDevice) -> Result<RawBuffer, Error> {
        same_client(&self.client, &device.client)?;
        let mut args = api::BufferCopyToDeviceArgs::new();
        args.buffer = self.pointer.as_ptr();
        args.dst_device = device.pointer.as_ptr();
        // SAFETY: buffer and device are alive (invariants 1 and 2 in `mod.rs`), and `same_client` has checked that they
        // belong to one client (invariant 3).
        unsafe { call!(self.client.table, buffer_copy_to_device, &mut args)? };
        Ok(RawBuffer {
            client: self.client.clone(),
            pointer: not_null(args.dst_buffer, "copy of a buffer")?,
        })
    }
}

/// Copies an array from an order of dimensions, the fastest varying first, to row-major order. `None` if the order is no
/// permutation of the dimensions.
fn reorder(from: &[u8], of: &ArrayType, minor_to_major: &[i64], to: &mut [u8]) -> Option<()> {
    let (dims, size) = (of.dims(), of.element().bytes());
    let mut strides = vec![None; dims.len()];
    let mut stride = size;
    for dim in minor_to_major {
        let dim = usize::try_from(*dim).ok()?;
        if strides.get_mut(dim)?.replace(stride).is_some() {
            return None;
        }
        stride = stride.checked_mul(*dims.get(dim)?)?;
    }
    let strides: Vec<usize> = strides.into_iter().collect::<Option<_>>()?;
    let mut index = vec![0; dims.len()];
    for element in to.chunks_exact_mut(size) {
        let start: usize = index.iter().zip(&strides).map(|(i, stride)| i * stride).sum();
        element.copy_from_slice(from.get(start..start + size)?);
        // Advance `index` to the next element in row-major order.
        for (i, dim) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *dim {
                break;
            }
            *i = 0;
        }
    }
    Some(())
}

/// Returns the type of an array for the plugin's number of the element type and these dimensions.
pub(super) fn array_type(element: i32, dims: &[i64]) -> Result<ArrayType, Error> {
    let unknown = || {
        Error::new(
            ErrorKind::Unsupported,
            format!("the plugin's element type {element} is not known here"),
        )
    };
    let element = ElementType::from_pjrt(element).ok_or_else(unknown)?;
    let dim = |d: &i64| {
        usize::try_from(*d)
            .map_err(|_| Error::interface(format!("the plugin has a dimension of {d}")))
    };
    let dims: Vec<usize> = dims.iter().map(dim).collect::<Result<_, _>>()?;
    Ok(ArrayType::new(element, &dims))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression against the definition: the element at `[i, j, k]` lies at the sum of indices times strides.
    #[test]
    fn arrays_of_any_order_become_row_major() {
        let of = ArrayType::new(ElementType::U16, &[2, 3, 4]);
        let row_major: Vec<u8> = (0..48).collect();
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut strides = [0; 3];
            let mut stride = 2;
            for dim in order {
                strides[dim] = stride;
                stride *= of.dims()[dim];
            }
            let mut on_device = vec![0; 48];
            let all = (0..2).flat_map(|i| (0..3).flat_map(move |j| (0..4).map(move |k| [i, j, k])));
            for (element, [i, j, k]) in row_major.chunks(2).zip(all) {
                let at = i * strides[0] + j * strides[1] + k * strides[2];
                on_device[at..at + 2].copy_from_slice(element);
            }
            let mut found = vec![0; 48];
            reorder(&on_device, &of, &order.map(|dim| dim as i64), &mut found).unwrap();
            assert_eq!(found, row_major, "{order:?}");
        }
        for wrong in [&[0, 1][..], &[0, 1, 1], &[0, 1, 3], &[0, 1, -1]] {
            assert_eq!(reorder(&row_major, &of, wrong, &mut [0; 48]), None, "{wrong:?}");
        }
    }
}
