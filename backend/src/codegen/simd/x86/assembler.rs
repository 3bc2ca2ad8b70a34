//! The assembler: labels, and constants after the code, which instructions address relative to the instruction pointer.

use iced_x86::{Code, Encoder, Instruction, MemoryOperand, Register};

/// A label: an offset in the code that jumps refer to, possibly not bound yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Label(usize);

/// A 32-bit distance in bytes from the end of an instruction to its target (a label or a constant), to be filled in by
/// `finish`.
struct Distance {
    at: usize,
    end: usize,
    to: Target,
}

#[derive(Clone, Copy)]
enum Target {
    Label(Label),
    Constant(usize),
}

/// Code under construction: the encoded bytes, labels, and distances to be filled in.
pub(crate) struct Assembler {
    encoder: Encoder,
    length: usize,
    labels: Vec<Option<usize>>,
    distances: Vec<Distance>,
    /// The bytes of the constants that are placed after the code.
    constants: Vec<u8>,
    failed: Option<String>,
}

/// The placeholder for the distance to a constant, in bytes; `finish` replaces the placeholder. The difference of the
/// placeholder and any instruction's address must fit in 32 bits.
const FAR: i64 = 1 << 30;

/// The alignment of the constants after the code, in bytes.
const ALIGNMENT: usize = 64;

impl Assembler {
    pub(crate) fn new() -> Assembler {
        Assembler {
            encoder: Encoder::new(64),
            length: 0,
            labels: Vec::new(),
            distances: Vec::new(),
            constants: Vec::new(),
            failed: None,
        }
    }

    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Binds a label to the current offset in the code.
    pub(crate) fn bind(&mut self, label: Label) {
        self.labels[label.0] = Some(self.length);
    }

    /// Returns the offset in bytes of a constant from the start of all constants. Equal constants are stored once.
    pub(crate) fn constant(&mut self, bytes: &[u8]) -> usize {
        let size = bytes.len();
        if let Some(i) = self.constants.chunks_exact(size).position(|c| c == bytes) {
            return i * size;
        }
        self.constants.resize(self.constants.len().next_multiple_of(size), 0);
        let at = self.constants.len();
        self.constants.extend(bytes);
        at
    }

    /// Appends an instruction. If its memory operand is `constant_operand`, the operand will address the constant at
    /// offset `constant`.
    pub(crate) fn put(&mut self, instruction: &Instruction, constant: Option<usize>) {
        match self.encoder.encode(instruction, self.length as u64) {
            Ok(size) => {
                let (at, end) = (self.length, self.length + size);
                if let Some(constant) = constant {
                    let offset = self.encoder.get_constant_offsets().displacement_offset();
                    let to = Target::Constant(constant);
                    self.distances.push(Distance { at: at + offset, end, to });
                }
                self.length = end;
            }
            Err(e) => {
                let found = || format!("{:?}: {e}", instruction.code());
                self.failed.get_or_insert_with(found);
            }
        }
    }

    /// Appends a jump or a conditional jump with a 32-bit distance.
    pub(crate) fn jump(&mut self, code: Code, to: Label) {
        match Instruction::with_branch(code, (self.length as u64).wrapping_add(FAR as u64)) {
            Ok(instruction) => {
                self.put(&instruction, None);
                let end = self.length;
                self.distances.push(Distance { at: end - 4, end, to: Target::Label(to) });
            }
            Err(e) => {
                self.failed.get_or_insert_with(|| format!("{code:?}: {e}"));
            }
        }
    }

    /// Records the reason why an instruction could not be encoded; `finish` returns it as the error.
    pub(crate) fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    /// Returns the bytes of the code and of the constants after it, with all distances filled in.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>, String> {
        if let Some(why) = self.failed {
            return Err(why);
        }
        let mut bytes = self.encoder.take_buffer();
        let constants = (bytes.len() + 1).next_multiple_of(ALIGNMENT);
        if !self.constants.is_empty() {
            // Fill the space between code and constants with `int3`, at least one, to mark the end of the code.
            bytes.resize(constants, 0xcc);
            bytes.extend(&self.constants);
        }
        for Distance { at, end, to } in &self.distances {
            let target = match to {
                Target::Label(label) => self.labels[label.0].ok_or("a label has no position")?,
                Target::Constant(at) => constants + at,
            };
            let distance = i32::try_from(target as i64 - *end as i64).map_err(|e| e.to_string())?;
            bytes[*at..*at + 4].copy_from_slice(&distance.to_le_bytes());
        }
        Ok(bytes)
    }

    /// Returns a memory operand that stands for a constant; `put` makes it address that constant.
    pub(crate) fn constant_operand(&self, broadcast: bool) -> MemoryOperand {
        let to = self.length as i64 + FAR;
        MemoryOperand::new(Register::RIP, Register::None, 1, to, 8, broadcast, Register::None)
    }
}
