//! Protocol buffers: a writer of options, and a reader of compiled programs.
//!
//! A message is a list of fields, each a tag (the number of the field and the kind of its value) and a value: a number
//! in groups of 7 bits, the lowest first (*varint*), 4 or 8 bytes, or a length and bytes (text, messages, packed numbers).

use std::fmt;

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    bytes: Vec<u8>,
}

impl Message {
    /// Appends a number. Negative numbers take ten bytes, as the format demands.
    pub(crate) fn int(mut self, field: u32, value: i64) -> Message {
        self.tag(field, 0);
        self.varint(value.cast_unsigned());
        self
    }

    /// Appends a boolean.
    pub(crate) fn bool(self, field: u32, value: bool) -> Message {
        self.int(field, i64::from(value))
    }

    /// Appends a float of 64 bits.
    pub(crate) fn double(mut self, field: u32, value: f64) -> Message {
        self.tag(field, 1);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// Appends bytes: text or a finished message.
    pub(crate) fn bytes(mut self, field: u32, value: &[u8]) -> Message {
        self.tag(field, 2);
        self.varint(value.len() as u64);
        self.bytes.extend(value);
        self
    }

    /// Appends a message.
    pub(crate) fn message(self, field: u32, message: &Message) -> Message {
        self.bytes(field, &message.bytes)
    }

    /// Appends a list of numbers in packed form: one field whose value is all numbers one after the other.
    pub(crate) fn packed(self, field: u32, values: &[i64]) -> Message {
        let mut numbers = Message::default();
        for value in values {
            numbers.varint(value.cast_unsigned());
        }
        self.message(field, &numbers)
    }

    /// Returns the bytes of the finished message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }

    fn tag(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }
}

/// The value of a field that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Int(u64),
    Bytes(&'a [u8]),
    /// A value of 4 or 8 bytes. No reader here needs it, so it is not stored.
    Fixed,
}

/// The error that bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes are no protocol buffer")
    }
}

/// The fields of a message, in their order.
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for group in 0..10 {
            let (byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << (7 * group);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn field(&mut self) -> Result<(u64, Value<'a>), Malformed> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Int(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return Err(Malformed),
        };
        Ok((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// Appends the numbers of a repeated field to a list, whether the field is packed or not.
pub(crate) fn push_ints(list: &mut Vec<i64>, value: Value<'_>) -> Result<(), Malformed> {
    match value {
        Value::Int(value) => list.push(value.cast_signed()),
        Value::Bytes(bytes) => {
            let mut numbers = Fields::of(bytes);
            while !numbers.rest.is_empty() {
                list.push(numbers.varint()?.cast_signed());
            }
        }
        Value::Fixed => return Err(Malformed),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings from the examples in the format's documentation.
    #[test]
    fn bytes_are_those_of_the_format() {
        assert_eq!(Message::default().int(1, 150).finish(), [0x08, 0x96, 0x01]);
        let text = Message::default().bytes(2, b"testing").finish();
        assert_eq!(text, [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        let packed = Message::default().packed(6, &[3, 270, 86942]).finish();
        assert_eq!(packed, [0x32, 0x06, 0x03, 0x8e, 0x02, 0x9e, 0xa7, 0x05]);
        let minus_two = Message::default().int(1, -2).finish();
        assert_eq!(minus_two, [0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
        let inner = Message::default().int(1, 150);
        assert_eq!(Message::default().message(3, &inner).finish(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
    }

    #[test]
    fn a_message_reads_as_it_was_written() {
        let message = Message::default()
            .int(1, -7)
            .bool(20, true)
            .double(3, 0.5)
            .bytes(4, b"x")
            .packed(5, &[1, -1]);
        let bytes = message.finish();
        let fields: Vec<_> = Fields::of(&bytes).map(Result::unwrap).collect();
        assert_eq!(fields[0], (1, Value::Int((-7_i64).cast_unsigned())));
        assert_eq!(fields[1], (20, Value::Int(1)));
        assert_eq!(fields[2], (3, Value::Fixed));
        assert_eq!(fields[3], (4, Value::Bytes(b"x")));
        let mut numbers = Vec::new();
        push_ints(&mut numbers, fields[4].1).unwrap();
        push_ints(&mut numbers, Value::Int(9)).unwrap();
        assert_eq!(numbers, [1, -1, 9]);
    }

    /// Every prefix of a message that ends inside a field is an error, and no bytes make the reader panic.
    #[test]
    fn damaged_bytes_are_an_error() {
        let bytes = Message::default().bytes(2, b"testing").finish();
        for length in 1..bytes.len() {
            assert_eq!(Fields::of(&bytes[..length]).next(), Some(Err(Malformed)), "{length} bytes");
        }
        for (damaged, why) in [
            (&[0x0b, 0x00][..], "a group"),
            (&[0x08; 1][..], "no value"),
            (&[0x80; 12][..], "a number without end"),
            (
                &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
                "a length without bytes",
            ),
        ] {
            assert!(Fields::of(damaged).any(|f| f.is_err()), "{why}");
        }
    }
}
