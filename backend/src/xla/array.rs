//! Arrays that stay on a device between calls.

use super::problem;
use std::fmt;
use std::sync::Arc;
use tapeloom_ir::{ArrayType, Dtype, Kind, Problem, Tensor};
use tapeloom_pjrt::{Buffer, Client, ElementType};

/// An array on a device of XLA. Clones are handles of the same array, whose memory is freed with the last of them.
///
/// The array may still be computed: [`DeviceArray::download`] waits for it.
#[derive(Clone)]
pub struct DeviceArray {
    /// `None` for the placeholder of a missing array.
    on_device: Option<Arc<OnDevice>>,
}

struct OnDevice {
    ty: ArrayType,
    buffer: Buffer,
}

impl DeviceArray {
    pub(super) fn new(ty: ArrayType, buffer: Buffer) -> DeviceArray {
        DeviceArray { on_device: Some(Arc::new(OnDevice { ty, buffer })) }
    }

    /// Returns a handle without an array. Each use is an error.
    pub fn missing() -> DeviceArray {
        DeviceArray { on_device: None }
    }

    fn present(&self) -> Result<&Arc<OnDevice>, Problem> {
        let missing = || Problem::internal("a device array that was never computed");
        self.on_device.as_ref().ok_or_else(missing)
    }

    /// Copies a tensor to the first device of a client.
    ///
    /// # Errors
    /// Those of the plugin, for example if the device has too little memory.
    pub fn upload(client: &Client, tensor: &Tensor) -> Result<DeviceArray, Problem> {
        let ty = tensor.ty();
        let Some(device) = client.addressable_devices().first() else {
            let message = format!("{client:?} has no device in this process");
            return Err(Problem::new(Kind::Target, message, ""));
        };
        let element = element(ty.dtype);
        let buffer = client
            .buffer_from_bytes(tensor.bytes(), element, &ty.shape, device)
            .map_err(|e| problem(&e))?;
        Ok(DeviceArray::new(ty.clone(), buffer))
    }

    /// Copies the array to the host, after it is computed.
    ///
    /// # Errors
    /// The execution that computes the array failed; [`Kind::TooLarge`] if the host has too little memory.
    pub fn download(&self) -> Result<Tensor, Problem> {
        let of = self.present()?;
        Tensor::from_bytes(&of.ty, &of.buffer.to_bytes().map_err(|e| problem(&e))?)
    }

    /// Waits until the array is computed.
    ///
    /// # Errors
    /// The execution that computes the array failed.
    pub fn wait(&self) -> Result<(), Problem> {
        self.present()?.buffer.wait().map_err(|e| problem(&e))
    }

    /// Returns shape and dtype of the array.
    ///
    /// # Errors
    /// The array is the placeholder of a missing one.
    pub fn ty(&self) -> Result<&ArrayType, Problem> {
        self.present().map(|of| &of.ty)
    }

    /// Returns whether no other handle of the array is alive, so that a program may take over its memory.
    pub fn is_unique(&self) -> bool {
        self.on_device.as_ref().is_some_and(|of| Arc::strong_count(of) == 1)
    }

    pub(super) fn buffer(&self) -> Result<&Buffer, Problem> {
        self.present().map(|of| &of.buffer)
    }
}

/// Prints type and device, not elements, which are not on the host.
impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.on_device {
            Some(of) => write!(f, "DeviceArray({} on {})", of.ty, of.buffer.device()),
            None => f.write_str("DeviceArray(missing)"),
        }
    }
}

/// Returns the plugin's name of a dtype.
pub(super) fn element(dtype: Dtype) -> ElementType {
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
