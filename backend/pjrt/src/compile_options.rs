//! Options of a compilation, and their protocol buffer.

use crate::error::Error;
use crate::proto::Message;

/// Options of a compilation: how many devices run the program, and which.
///
/// A program runs on `replicas * partitions` devices. Partitions run parts of one program whose arrays are sharded
/// (`sdy.sharding` in the text), replicas run the program as it is written, each with arguments of its own.
///
/// ```
/// use tapeloom_pjrt::CompileOptions;
/// let one = CompileOptions::new();
/// let four = CompileOptions::new().partitions(4);
/// assert_eq!((one.device_count(), four.device_count()), (1, 4));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CompileOptions {
    replicas: u32,
    partitions: u32,
    shardy: bool,
    device_ids: Option<Vec<i32>>,
    overrides: Vec<(String, OverrideValue)>,
}

/// The value of an option of XLA that a compilation overrides, see [`CompileOptions::xla_option`].
#[derive(Clone, Debug, PartialEq)]
pub enum OverrideValue {
    /// A text, or the name of a choice.
    Text(String),
    /// A switch.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A float of 64 bits.
    Float(f64),
}

impl Default for CompileOptions {
    fn default() -> CompileOptions {
        CompileOptions::new()
    }
}

impl CompileOptions {
    /// Makes options for one device, the first device that the client addresses.
    pub fn new() -> CompileOptions {
        CompileOptions {
            replicas: 1,
            partitions: 1,
            shardy: true,
            device_ids: None,
            overrides: Vec::new(),
        }
    }

    /// Sets the number of replicas.
    pub fn replicas(mut self, replicas: u32) -> CompileOptions {
        self.replicas = replicas;
        self
    }

    /// Sets the number of partitions.
    pub fn partitions(mut self, partitions: u32) -> CompileOptions {
        self.partitions = partitions;
        self
    }

    /// Sets whether Shardy partitions the program. Shardy reads `sdy.sharding` and is the default; the older
    /// partitioner reads `mhlo.sharding`.
    pub fn shardy(mut self, shardy: bool) -> CompileOptions {
        self.shardy = shardy;
        self
    }

    /// Sets the ids of the devices on which the program runs: for the first replica the devices of all its partitions,
    /// then those of the second replica, and so on. Without this option the plugin chooses the devices.
    pub fn device_ids(mut self, ids: impl IntoIterator<Item = i32>) -> CompileOptions {
        self.device_ids = Some(ids.into_iter().collect());
        self
    }

    /// Overrides an option of XLA by its name, such as `xla_cpu_enable_fast_math`. If there is no such option, the
    /// compilation is an error of the plugin.
    pub fn xla_option(mut self, name: impl Into<String>, value: OverrideValue) -> CompileOptions {
        self.overrides.push((name.into(), value));
        self
    }

    /// Returns the number of devices that the program runs on.
    pub fn device_count(&self) -> usize {
        self.replicas as usize * self.partitions as usize
    }

    /// Returns an error for options that plugins do not check, or answer by ending the process. `known` are the ids of
    /// the client's devices.
    pub(crate) fn check(&self, known: &[i32]) -> Result<(), Error> {
        let (replicas, partitions) = (self.replicas, self.partitions);
        if replicas == 0 || partitions == 0 {
            let message = format!(
                "expected at least one replica and one partition, found {replicas} and {partitions}"
            );
            return Err(Error::argument(message));
        }
        let Some(ids) = &self.device_ids else { return Ok(()) };
        let (needed, found) = (self.device_count(), ids.len());
        if needed != found {
            return Err(Error::argument(format!(
                "expected the ids of {needed} devices, found {found}"
            )));
        }
        if let Some(id) = ids.iter().find(|id| !known.contains(id)) {
            return Err(Error::argument(format!(
                "there is no device with the id {id}; expected ids among {known:?}"
            )));
        }
        if let Some(id) =
            ids.iter().enumerate().find_map(|(at, id)| ids[..at].contains(id).then_some(id))
        {
            return Err(Error::argument(format!(
                "expected different devices, found the id {id} twice"
            )));
        }
        Ok(())
    }

    /// Returns the bytes of a `CompileOptionsProto`.
    pub(crate) fn to_proto(&self) -> Vec<u8> {
        let build = Message::default()
            // The device ordinal -1 means that there is none. Without the field, the ordinal would be 0.
            .int(1, -1)
            .int(4, self.replicas.into())
            .int(5, self.partitions.into())
            .bool(6, self.partitions > 1);
        let build = match &self.device_ids {
            Some(ids) => build.message(9, &self.assignment(ids)),
            None => build,
        };
        let build = build.bool(19, self.shardy);
        let options = Message::default().message(3, &build);
        let with_override = |options: Message, (name, value): &(String, OverrideValue)| {
            let value = match value {
                OverrideValue::Text(text) => Message::default().bytes(1, text.as_bytes()),
                OverrideValue::Bool(value) => Message::default().bool(2, *value),
                OverrideValue::Int(value) => Message::default().int(3, *value),
                OverrideValue::Float(value) => Message::default().double(4, *value),
            };
            options.message(7, &Message::default().bytes(1, name.as_bytes()).message(2, &value))
        };
        self.overrides.iter().fold(options, with_override).finish()
    }

    /// Returns a `DeviceAssignmentProto`: for each partition, the devices of its replicas.
    fn assignment(&self, ids: &[i32]) -> Message {
        let counts = Message::default().int(1, self.replicas.into()).int(2, self.partitions.into());
        let partitions = self.partitions as usize;
        (0..partitions).fold(counts, |message, partition| {
            let ids: Vec<i64> =
                ids.iter().skip(partition).step_by(partitions).map(|id| i64::from(*id)).collect();
            message.message(3, &Message::default().packed(1, &ids))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The field 1 with the number -1, encoded in ten bytes.
    const NO_ORDINAL: [u8; 11] = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];

    fn check(options: &CompileOptions, build: &[u8], rest: &[u8]) {
        let length = u8::try_from(NO_ORDINAL.len() + build.len()).unwrap();
        let expected = [&[0x1a, length][..], &NO_ORDINAL, build, rest].concat();
        assert_eq!(options.to_proto(), expected, "{options:?}");
    }

    #[test]
    fn devices_are_checked() {
        let check =
            |options: CompileOptions| options.check(&[0, 1, 7]).map_err(|error| error.to_string());
        let two = CompileOptions::new().replicas(2);
        assert_eq!(check(two.clone()), Ok(()));
        assert_eq!(check(two.clone().device_ids([7, 0])), Ok(()));
        for (options, expected) in [
            (
                CompileOptions::new().replicas(0),
                "expected at least one replica and one partition, found 0 and 1",
            ),
            (
                CompileOptions::new().partitions(0),
                "expected at least one replica and one partition, found 1 and 0",
            ),
            (two.clone().device_ids([7]), "expected the ids of 2 devices, found 1"),
            (
                two.clone().device_ids([7, -1]),
                "there is no device with the id -1; expected ids among [0, 1, 7]",
            ),
            (two.device_ids([7, 7]), "expected different devices, found the id 7 twice"),
        ] {
            assert_eq!(check(options), Err(expected.to_owned()));
        }
    }

    /// The fields are those of `compile_options.proto`: replicas 4, partitions 5, SPMD 6, devices 9, Shardy 19.
    #[test]
    fn bytes_are_those_of_compile_options_proto() {
        let one = CompileOptions::new();
        check(&one, &[0x20, 1, 0x28, 1, 0x30, 0, 0x98, 0x01, 1], &[]);
        check(&one.clone().shardy(false), &[0x20, 1, 0x28, 1, 0x30, 0, 0x98, 0x01, 0], &[]);
        let four = CompileOptions::new().partitions(4);
        check(&four, &[0x20, 1, 0x28, 4, 0x30, 1, 0x98, 0x01, 1], &[]);
        let placed = CompileOptions::new().replicas(2).partitions(2).device_ids([3, 2, 1, 0]);
        let assignment =
            [0x4a, 16, 0x08, 2, 0x10, 2, 0x1a, 4, 0x0a, 2, 3, 1, 0x1a, 4, 0x0a, 2, 2, 0];
        let build = [&[0x20, 2, 0x28, 2, 0x30, 1][..], &assignment, &[0x98, 0x01, 1]].concat();
        check(&placed, &build, &[]);
        let option = one.xla_option("x", OverrideValue::Bool(true));
        check(
            &option,
            &[0x20, 1, 0x28, 1, 0x30, 0, 0x98, 0x01, 1],
            &[0x3a, 7, 0x0a, 1, b'x', 0x12, 2, 0x10, 1],
        );
    }
}
