//! Arrays that stay on devices between calls.

use super::problem;
use std::fmt;
use std::sync::Arc;
use tapeloom_ir::{ArrayType, Dtype, Kind, Mesh, PartitionSpec, Parts, Problem, Tensor};
use tapeloom_pjrt::{Buffer, Client, Device, ElementType};

/// An array on devices of XLA: whole on one device, or divided among several. Clones are handles of the same array. The
/// array's memory is freed with the last handle.
///
/// An array may be returned before its elements are computed: [`DeviceArray::download`] waits until they are.
#[derive(Clone)]
pub struct DeviceArray {
    /// The array's buffers on its devices; `None` if this value is the placeholder of a missing array.
    on_devices: Option<Arc<OnDevices>>,
}

struct OnDevices {
    ty: ArrayType,
    /// The division of the array among devices. Arrays of a program with the same division share this value.
    parts: Arc<Parts>,
    /// For each device, the buffer with the device's part of the array.
    buffers: Vec<Buffer>,
}

impl DeviceArray {
    /// Returns the array of type `ty` that has these parts; `buffers` has one buffer for each device.
    pub(super) fn new(ty: ArrayType, parts: Arc<Parts>, buffers: Vec<Buffer>) -> DeviceArray {
        DeviceArray { on_devices: Some(Arc::new(OnDevices { ty, parts, buffers })) }
    }

    /// Returns a placeholder for a missing array. Each use of the placeholder is an error.
    pub fn missing() -> DeviceArray {
        DeviceArray { on_devices: None }
    }

    fn present(&self) -> Result<&Arc<OnDevices>, Problem> {
        let missing = || {
            let message = "a handle without an array, as `DeviceArray::missing` returns it";
            Problem::new(Kind::Arguments, message, "use the handles that calls and `upload` return")
        };
        self.on_devices.as_ref().ok_or_else(missing)
    }

    /// Copies a tensor to the first device of a client.
    ///
    /// # Errors
    /// Those of the plugin, for example if the device has too little memory.
    pub fn upload(client: &Client, tensor: &Tensor) -> Result<DeviceArray, Problem> {
        let Some(device) = client.addressable_devices().first() else {
            let message = format!("{client:?} has no device in this process");
            return Err(Problem::new(Kind::Target, message, ""));
        };
        let parts = Parts::one(&tensor.ty().shape).into();
        DeviceArray::upload_parts(client, tensor, &parts, std::slice::from_ref(device))
    }

    /// Copies a tensor to the devices of a mesh, divided by a partition spec.
    ///
    /// # Errors
    /// Those of [`PartitionSpec::parts`]; [`Kind::Target`] if the client has fewer devices than the mesh, and for errors of
    /// the plugin.
    pub fn upload_to(
        client: &Client,
        tensor: &Tensor,
        mesh: &Mesh,
        spec: &PartitionSpec,
    ) -> Result<DeviceArray, Problem> {
        let parts = spec.parts(&tensor.ty().shape, mesh)?;
        DeviceArray::upload_parts(client, tensor, &parts.into(), devices_of(client, mesh)?)
    }

    /// Copies each part of a tensor to its device.
    pub(super) fn upload_parts(
        client: &Client,
        tensor: &Tensor,
        parts: &Arc<Parts>,
        devices: &[Device],
    ) -> Result<DeviceArray, Problem> {
        let ty = tensor.ty();
        let (element, bytes) = (element(ty.dtype), ty.dtype.bytes());
        let is_whole = parts.shape() == &*ty.shape;
        let mut part = Vec::new();
        let mut buffers = Vec::new();
        for (i, device) in devices.iter().enumerate() {
            let data = if is_whole {
                tensor.bytes()
            } else {
                part.clear();
                parts.stretches(i, &mut |from, _, n| {
                    part.extend_from_slice(&tensor.bytes()[from * bytes..(from + n) * bytes]);
                });
                &part
            };
            let buffer = client.buffer_from_bytes(data, element, parts.shape(), device);
            buffers.push(buffer.map_err(|e| problem(&e))?);
        }
        Ok(DeviceArray::new(ty.clone(), parts.clone(), buffers))
    }

    /// Copies the array to the host (this process's memory), after it is computed. If several devices have the same
    /// part, it is copied from one of them.
    ///
    /// # Errors
    /// The execution that computes the array failed; [`Kind::TooLarge`] if the host has too little memory.
    pub fn download(&self) -> Result<Tensor, Problem> {
        let of = self.present()?;
        if of.parts.shape() == &*of.ty.shape {
            let whole = of.buffers[0].to_bytes().map_err(|e| problem(&e))?;
            return Tensor::from_bytes(&of.ty, &whole);
        }
        let bytes = of.ty.dtype.bytes();
        let mut whole: Vec<u8> = Vec::new();
        whole.try_reserve_exact(of.ty.bytes()).map_err(|_| {
            Problem::new(Kind::TooLarge, format!("the host has no memory for {}", of.ty), "")
        })?;
        whole.resize(of.ty.bytes(), 0);
        for device in of.parts.distinct() {
            let part = of.buffers[device].to_bytes().map_err(|e| problem(&e))?;
            of.parts.stretches(device, &mut |to, from, n| {
                whole[to * bytes..(to + n) * bytes]
                    .copy_from_slice(&part[from * bytes..(from + n) * bytes]);
            });
        }
        Tensor::from_bytes(&of.ty, &whole)
    }

    /// Waits until the array is computed.
    ///
    /// # Errors
    /// The execution that computes the array failed.
    pub fn wait(&self) -> Result<(), Problem> {
        self.present()?.buffers.iter().try_for_each(|part| part.wait().map_err(|e| problem(&e)))
    }

    /// Returns the shape and dtype of the array.
    ///
    /// # Errors
    /// The array is the placeholder of a missing array.
    pub fn ty(&self) -> Result<&ArrayType, Problem> {
        self.present().map(|of| &of.ty)
    }

    /// Returns how the array is divided among devices.
    ///
    /// # Errors
    /// The array is the placeholder of a missing array.
    pub fn parts(&self) -> Result<&Parts, Problem> {
        self.present().map(|of| &*of.parts)
    }

    /// Returns whether the array lies on devices of the client.
    ///
    /// # Errors
    /// The array is the placeholder of a missing array.
    pub fn is_of(&self, client: &Client) -> Result<bool, Problem> {
        self.present().map(|of| of.buffers.iter().all(|part| client.owns(part)))
    }

    /// Returns whether no other handle of the array is alive, so that a program may take over its memory.
    pub fn is_unique(&self) -> bool {
        self.on_devices.as_ref().is_some_and(|of| Arc::strong_count(of) == 1)
    }

    /// Returns the buffers of the array on these devices, if it is divided among them as `parts` says; otherwise
    /// `None`.
    pub(super) fn buffers(&self, parts: &Arc<Parts>, devices: &[Device]) -> Option<&[Buffer]> {
        let of = self.on_devices.as_ref()?;
        let same_parts = Arc::ptr_eq(parts, &of.parts) || *parts == of.parts;
        let same_devices = of.buffers.iter().map(Buffer::device).eq(devices);
        (same_parts && same_devices).then_some(&of.buffers)
    }
}

/// Prints the type and the devices of the array, but not its elements, which are not in the host's memory.
impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(of) = &self.on_devices else { return f.write_str("DeviceArray(missing)") };
        match &*of.buffers {
            [whole] => write!(f, "DeviceArray({} on {})", of.ty, whole.device()),
            parts => {
                let part = ArrayType::new(of.ty.dtype, of.parts.shape());
                write!(f, "DeviceArray({} as {part} on {} devices)", of.ty, parts.len())
            }
        }
    }
}

/// Returns the first devices of a client, one for each position of the mesh.
pub(super) fn devices_of<'a>(client: &'a Client, mesh: &Mesh) -> Result<&'a [Device], Problem> {
    let (all, here, wanted) = (client.devices(), client.addressable_devices(), mesh.devices());
    let Some(devices) = all.get(..wanted) else {
        return Err(Problem::new(
            Kind::Target,
            format!("the mesh ({mesh}) has {wanted} devices, and the client has {}", all.len()),
            format!(
                "on a CPU, make the client with `ClientOptions::new().cpu_device_count({wanted})`; otherwise use a smaller mesh"
            ),
        ));
    };
    match devices.iter().find(|device| !here.contains(device)) {
        None => Ok(devices),
        Some(away) => Err(Problem::new(
            Kind::Target,
            format!("{away} belongs to another process"),
            "run the text of the program, `stablehlo(args)`, under a launcher of several processes",
        )),
    }
}

/// Returns the element type by which a plugin knows a dtype.
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
