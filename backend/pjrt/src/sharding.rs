//! Shardings: how an array is divided among the devices of a program.

use crate::proto::{Fields, Malformed, Value, push_ints};
use std::fmt;

/// The division of an array among the devices of a program. It prints as in HLO.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharding {
    /// Every device has the whole array.
    Replicated,
    /// One device has the whole array: the one with this number among those of the program.
    OneDevice(usize),
    /// The array is divided into tiles.
    Tiled {
        /// For each dimension, the number of tiles into which it is divided.
        tiles: Vec<usize>,
        /// The number of devices that have a copy of the same tile.
        copies: usize,
        /// The numbers of the devices: those of the first tile in row-major order, then those of the second, and so on.
        devices: Vec<usize>,
    },
}

impl fmt::Display for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |numbers: &[usize]| {
            numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        match self {
            Sharding::Replicated => f.write_str("{replicated}"),
            Sharding::OneDevice(device) => write!(f, "{{maximal device={device}}}"),
            Sharding::Tiled { tiles, copies: 1, devices } => {
                write!(f, "{{devices=[{}]{}}}", list(tiles), list(devices))
            }
            Sharding::Tiled { tiles, copies, devices } => {
                let tiles = list(tiles);
                write!(f, "{{devices=[{tiles},{copies}]{} last_tile_dim_replicate}}", list(devices))
            }
        }
    }
}

/// The fields of an `OpSharding` (`xla_data.proto`) that are read here.
#[derive(Default)]
struct OpSharding {
    kind: i64,
    tiles: Vec<i64>,
    devices: Vec<i64>,
    replicates_last: bool,
    /// The types of the additional last dimensions of the tile array, which number copies of a tile.
    last_dims: Vec<i64>,
    iota_dims: Vec<i64>,
    iota_order: Vec<i64>,
}

const REPLICATED: i64 = 0;
const ONE_DEVICE: i64 = 1;
const TUPLE: i64 = 2;
const TILED: i64 = 3;

impl Sharding {
    /// Reads the sharding of an array; `None` if it is of another kind, for example that of a program that divides its
    /// arrays by hand.
    pub(crate) fn read(message: &[u8]) -> Result<Option<Sharding>, Malformed> {
        let mut read = OpSharding::default();
        for field in Fields::of(message) {
            match field? {
                (1, Value::Int(kind)) => read.kind = kind.cast_signed(),
                (3, value) => push_ints(&mut read.tiles, value)?,
                (4, value) => push_ints(&mut read.devices, value)?,
                (6, Value::Int(flag)) => read.replicates_last = flag != 0,
                (8, value) => push_ints(&mut read.last_dims, value)?,
                (9, value) => push_ints(&mut read.iota_dims, value)?,
                (10, value) => push_ints(&mut read.iota_order, value)?,
                _ => {}
            }
        }
        Ok(match read.kind {
            REPLICATED => Some(Sharding::Replicated),
            ONE_DEVICE => read
                .devices
                .first()
                .and_then(|device| usize::try_from(*device).ok())
                .map(Sharding::OneDevice),
            TILED => read.tiled(),
            _ => None,
        })
    }

    /// Reads the shardings of the results: the shardings in a tuple, or the one sharding if there is a single result.
    /// `None` if a sharding is of a kind that is not known here.
    pub(crate) fn read_results(message: &[u8]) -> Result<Option<Vec<Sharding>>, Malformed> {
        let mut elements = Vec::new();
        let mut tuple = false;
        for field in Fields::of(message) {
            match field? {
                (1, Value::Int(kind)) => tuple = kind.cast_signed() == TUPLE,
                (5, Value::Bytes(element)) => elements.push(element),
                _ => {}
            }
        }
        let elements = if tuple { elements } else { vec![message] };
        elements.into_iter().map(Sharding::read).collect()
    }
}

impl OpSharding {
    fn tiled(self) -> Option<Sharding> {
        let sizes = |list: &[i64]| {
            list.iter().map(|n| usize::try_from(*n).ok()).collect::<Option<Vec<usize>>>()
        };
        let mut tiles = sizes(&self.tiles)?;
        let copies = match (self.replicates_last, self.last_dims.as_slice()) {
            (false, []) => 1,
            (true, []) | (false, [REPLICATED]) => tiles.pop()?,
            // Any other type of dimension belongs to programs that divide their arrays by hand.
            _ => return None,
        };
        let devices = match sizes(&self.devices)? {
            devices if devices.is_empty() => {
                transposed(&sizes(&self.iota_dims)?, &sizes(&self.iota_order)?)?
            }
            devices => devices,
        };
        let count = tiles.iter().try_fold(copies, |all, n| all.checked_mul(*n))?;
        (count == devices.len()).then_some(Sharding::Tiled { tiles, copies, devices })
    }
}

/// The most devices that a list may have, so that a damaged program cannot make this process allocate all memory.
const MOST_DEVICES: usize = 1 << 20;

/// Returns the numbers 0, 1, .. in an array with the dimensions `dims`, transposed by `order`, in row-major order.
fn transposed(dims: &[usize], order: &[usize]) -> Option<Vec<usize>> {
    let count = dims
        .iter()
        .try_fold(1_usize, |all, n| all.checked_mul(*n))
        .filter(|n| *n <= MOST_DEVICES)?;
    let mut strides = vec![1; dims.len()];
    for dim in (1..dims.len()).rev() {
        strides[dim - 1] = strides[dim] * dims[dim];
    }
    let axes = order.iter().map(|dim| Some((*dims.get(*dim)?, strides[*dim])));
    let axes: Vec<(usize, usize)> = axes.collect::<Option<_>>()?;
    let mut numbers = vec![0];
    for (size, stride) in &axes {
        numbers =
            numbers.iter().flat_map(|start| (0..*size).map(move |i| start + i * stride)).collect();
        if numbers.len() > count {
            return None;
        }
    }
    (numbers.len() == count).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Message;

    #[track_caller]
    fn check(message: Message, expected: &str) {
        let found = Sharding::read(&message.finish()).unwrap();
        assert_eq!(found.map_or("none".to_owned(), |sharding| sharding.to_string()), expected);
    }

    fn tiled(tiles: &[i64]) -> Message {
        Message::default().int(1, 3).packed(3, tiles)
    }

    /// Shardings must print as HLO prints the same fields.
    #[test]
    fn shardings_are_read() {
        check(Message::default(), "{replicated}");
        check(Message::default().int(1, 1).packed(4, &[2]), "{maximal device=2}");
        check(tiled(&[2, 1]).packed(4, &[1, 0]), "{devices=[2,1]1,0}");
        check(tiled(&[4, 1]).packed(9, &[4]).packed(10, &[0]), "{devices=[4,1]0,1,2,3}");
        // `[2,2]<=[2,2]T(1,0)` has the devices 0, 2, 1, 3.
        check(tiled(&[2, 2]).packed(9, &[2, 2]).packed(10, &[1, 0]), "{devices=[2,2]0,2,1,3}");
        let partial = tiled(&[2, 1, 2]).packed(4, &[0, 1, 2, 3]);
        check(partial.clone().bool(6, true), "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}");
        check(partial.clone().packed(8, &[0]), "{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}");
        check(partial.packed(8, &[4]), "none");
        check(Message::default().int(1, 4), "none");
        check(tiled(&[3, 1]).packed(4, &[0, 1]), "none");
        check(tiled(&[2]).packed(9, &[2]).packed(10, &[1]), "none");
        check(tiled(&[1 << 40]).packed(9, &[1 << 40]).packed(10, &[0]), "none");
        check(tiled(&[4]).packed(9, &[2, 2]).packed(10, &[0, 0, 0]), "none");
    }

    #[test]
    fn results_are_a_tuple_or_one_array() {
        let one = tiled(&[2]).packed(4, &[0, 1]);
        let tuple = Message::default().int(1, 2).message(5, &Message::default()).message(5, &one);
        let expected =
            |message: Message| Sharding::read_results(&message.finish()).unwrap().unwrap();
        let found: Vec<String> = expected(tuple).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["{replicated}", "{devices=[2]0,1}"]);
        assert_eq!(expected(one).len(), 1);
    }
}
