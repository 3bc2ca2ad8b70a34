//! Prints dynamic tapes in Rust: a struct for each tape, with a vector for each field of its records (the residuals of
//! one iteration).
//!
//! In a loop program a record is a range of bytes. A cursor points to a record. The buffers of the cursors that write a
//! record say which values lie at which offset: these are the record's fields. A cursor that reads gets a handle, whose
//! first word states the tape and the offset of a field. In nearly all programs, the handle is a constant, or only one
//! field has the types of the cursor's buffers. Otherwise the handle selects the field at run time.

use super::buffer_names;
use super::declarations::is_local;
use super::names::Names;
use crate::loop_ir::{
    Address, Arg, BufferId, CursorId, CursorTarget, Expr, Kernel, KernelId, Place, Program,
    ScalarId, Stmt, TapeId, TapeStmt, handle, opened, visit,
};
use cranelift_entity::PrimaryMap;
use std::collections::{BTreeMap, BTreeSet};
use tapeloom_ir::{ArrayType, Dtype};

/// A field of a tape's records (a record has the residuals of one iteration).
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// The offset of the field from the start of a record, in bytes.
    pub(super) offset: usize,
    pub(super) dtype: Dtype,
    /// The number of elements of the field in each record.
    pub(super) elements: usize,
    /// The name of the field in the struct.
    pub(super) name: String,
}

/// A tape of a program.
#[derive(Clone, Debug)]
pub(super) struct Tape {
    /// The name of the tape's struct.
    pub(super) type_name: String,
    /// The name of the tape's variable, in every function that uses the tape.
    pub(super) name: String,
    pub(super) fields: Vec<Field>,
}

/// The tapes of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Tapes {
    pub(super) all: PrimaryMap<TapeId, Tape>,
    /// For each kernel that is called, the tapes that it or its callees use.
    pub(super) of_callees: PrimaryMap<KernelId, BTreeSet<TapeId>>,
    pub(super) of_entry: BTreeSet<TapeId>,
}

/// A target to which a reading cursor may point: a tape, and the offset in its records of the field that a handle
/// names.
pub(super) type Target = (TapeId, usize);

impl Tapes {
    /// Returns the tapes of a program, with the fields of their records.
    pub(super) fn of(program: &Program, names: &mut Names) -> Tapes {
        let mut found: PrimaryMap<TapeId, Vec<(usize, Dtype, usize, String)>> =
            program.tapes.values().map(|_| Vec::new()).collect();
        for (_, kernel) in program.kernels() {
            let contents = buffer_names::contents(kernel);
            for (cursor, to) in targets(kernel) {
                let CursorTarget::Tape(tape) = to else { continue };
                for (buffer, offset) in in_record(kernel, cursor) {
                    let ty = &kernel.buffers[buffer].ty;
                    let elements = ty.shape.elements();
                    if !found[tape].iter().any(|(at, ..)| *at == offset) {
                        let name = contents[buffer].unwrap_or("value").to_owned();
                        found[tape].push((offset, ty.dtype, elements, name));
                    }
                }
            }
        }
        let many = found.len() > 1;
        let mut all = PrimaryMap::new();
        for (id, mut fields) in found {
            fields.sort_by_key(|(offset, ..)| *offset);
            let mut own = Names::new(["records"]);
            let fields = fields.into_iter().map(|(offset, dtype, elements, name)| Field {
                offset,
                dtype,
                elements,
                name: own.fresh(&name),
            });
            let number = if many { format!("{}", id.as_u32() + 1) } else { String::new() };
            all.push(Tape {
                type_name: format!("Tape{number}"),
                name: names.fresh(&format!("tape{number}")),
                fields: fields.collect(),
            });
        }
        let mut tapes = Tapes { all, ..Tapes::default() };
        for kernel in program.callees.values() {
            let used = tapes.used(kernel);
            tapes.of_callees.push(used);
        }
        tapes.of_entry = tapes.used(&program.entry);
        tapes
    }

    /// Removes the first word of each handle (the word that selects tape and field) if only one field is possible. A
    /// local handle then consists only of the number of the first record.
    pub(super) fn drop_words(&self, program: &mut Program) {
        for kernel in program.kernels_mut() {
            let needed = self.needed_words(kernel);
            let handles = local_handles(kernel, &needed);
            for id in &handles {
                kernel.buffers[*id].ty = ArrayType::new(Dtype::I64, [1]);
            }
            kernel.rewrite(|_, body| drop_first_words(body, &handles));
        }
    }

    /// Returns the scalars that are used. A scalar does not count if it is only used as the first word of a tape handle
    /// (the word that selects tape and field) that can be removed.
    fn needed_words(&self, kernel: &Kernel) -> BTreeSet<ScalarId> {
        let mut needed = BTreeSet::new();
        visit(&kernel.body, &mut |stmt| {
            let mut need = |arg| {
                if let Arg::Scalar(value) = arg {
                    needed.insert(value);
                }
            };
            match stmt {
                Stmt::Tape(TapeStmt::MoveCursor {
                    cursor,
                    to: CursorTarget::Handle(word),
                    index,
                }) if self.targets(kernel, *cursor, *word).len() == 1 => {
                    need(*index);
                }
                _ => stmt.args(&mut need),
            }
        });
        needed
    }

    /// Returns the tapes that a kernel or its callees use. The tapes of the callees must be known already.
    fn used(&self, kernel: &Kernel) -> BTreeSet<TapeId> {
        let mut used = BTreeSet::new();
        visit(&kernel.body, &mut |stmt| match stmt {
            Stmt::Call(call) => used.extend(self.of_callees.get(call.callee).into_iter().flatten()),
            Stmt::Tape(TapeStmt::Length { tape, .. } | TapeStmt::Cut { tape, .. }) => {
                used.insert(*tape);
            }
            Stmt::Tape(TapeStmt::MoveCursor { cursor, to, .. }) => match to {
                CursorTarget::Tape(tape) => _ = used.insert(*tape),
                CursorTarget::Handle(word) => {
                    let targets = self.targets(kernel, *cursor, *word);
                    used.extend(targets.iter().map(|(tape, _)| *tape));
                }
            },
            _ => {}
        });
        used
    }

    /// Returns the targets (tape and field) to which a reading cursor may point.
    pub(super) fn targets(&self, kernel: &Kernel, cursor: CursorId, word: Arg) -> Vec<Target> {
        let fits = |(tape, field): &Target| {
            in_record(kernel, cursor).all(|(buffer, offset)| {
                let ty = &kernel.buffers[buffer].ty;
                self.field(*tape, field + offset, ty.dtype, ty.shape.elements()).is_some()
            })
        };
        if let Arg::Literal(word) = word {
            let (tape, field) = opened(word.bits as i64);
            return tape.map(|tape| (tape, field)).filter(fits).into_iter().collect();
        }
        let fields = |(tape, of): (TapeId, &Tape)| {
            let offsets: Vec<Target> = of.fields.iter().map(|f| (tape, f.offset)).collect();
            offsets
        };
        self.all.iter().flat_map(fields).filter(fits).collect()
    }

    /// Returns the field at an offset of a tape's records, if the field has the given dtype and number of elements.
    pub(super) fn field(
        &self,
        tape: TapeId,
        offset: usize,
        dtype: Dtype,
        elements: usize,
    ) -> Option<&Field> {
        let fields = &self.all.get(tape)?.fields;
        fields.iter().find(|f| (f.offset, f.dtype, f.elements) == (offset, dtype, elements))
    }

    /// Returns the value of the first word of a handle that selects this tape and field.
    pub(super) fn word(target: Target) -> i64 {
        handle(target.0, target.1)
    }
}

/// Returns the buffers that are local handles and need only their second word: their two words are stored and loaded
/// one at a time, at constant addresses, and the first word is not needed.
fn local_handles(kernel: &Kernel, needed: &BTreeSet<ScalarId>) -> BTreeSet<BufferId> {
    // A buffer is a handle (it names a tape and a first record) if the length of a tape is stored in it.
    let (mut lengths, mut handles) = (BTreeSet::new(), BTreeSet::new());
    visit(&kernel.body, &mut |stmt| match stmt {
        Stmt::Tape(TapeStmt::Length { value, .. }) => _ = lengths.insert(*value),
        Stmt::Store { held, value: Arg::Scalar(value), .. } if lengths.contains(value) => {
            handles.insert(held.buffer);
        }
        _ => {}
    });
    handles.retain(|buffer| {
        let ty = &kernel.buffers[*buffer].ty;
        is_local(kernel, *buffer) && (ty.dtype, ty.shape.elements()) == (Dtype::I64, 2)
    });
    visit(&kernel.body, &mut |stmt| {
        let is_of_one_word = match stmt {
            Stmt::Let { value, expr: Expr::Load { address, guard: None, .. } } => {
                is_constant(address) && (address.offset == 1 || !needed.contains(value))
            }
            Stmt::Store { address, guard: None, .. } => is_constant(address),
            _ => false,
        };
        if !is_of_one_word {
            stmt.buffers(&mut |buffer| _ = handles.remove(&buffer));
        }
    });
    handles
}

fn is_constant(address: &Address) -> bool {
    address.terms.is_empty() && address.dynamic.is_none()
}

/// Removes the stores and loads of the first words of these handles. The second word moves to element 0.
fn drop_first_words(body: &mut Vec<Stmt>, handles: &BTreeSet<BufferId>) {
    body.retain_mut(|stmt| {
        let address = match stmt {
            Stmt::Let { expr: Expr::Load { held, address, .. }, .. }
            | Stmt::Store { held, address, .. }
                if handles.contains(&held.buffer) =>
            {
                address
            }
            _ => return true,
        };
        let is_second = address.offset == 1;
        address.offset = 0;
        is_second
    });
    for stmt in body {
        stmt.blocks_mut().into_iter().for_each(|inside| drop_first_words(inside, handles));
    }
}

/// Returns the targets (tapes or handles of tapes) to which cursors of a kernel are moved, each once.
fn targets(kernel: &Kernel) -> Vec<(CursorId, CursorTarget)> {
    let mut found: BTreeMap<CursorId, Vec<CursorTarget>> = BTreeMap::new();
    visit(&kernel.body, &mut |stmt| {
        if let Stmt::Tape(TapeStmt::MoveCursor { cursor, to, .. }) = stmt {
            let known = found.entry(*cursor).or_default();
            if !known.contains(to) {
                known.push(*to);
            }
        }
    });
    found
        .into_iter()
        .flat_map(|(cursor, all)| all.into_iter().map(move |to| (cursor, to)))
        .collect()
}

/// Returns the buffers of the tape record at a cursor that the kernel accesses, each with its offset in bytes.
pub(super) fn in_record(
    kernel: &Kernel,
    cursor: CursorId,
) -> impl Iterator<Item = (BufferId, usize)> + '_ {
    kernel.buffers.iter().filter_map(move |(id, buffer)| match buffer.place {
        Place::Record { cursor: of, offset } if of == cursor => Some((id, offset)),
        _ => None,
    })
}

impl Tape {
    /// Returns the text of the tape's struct with its methods. `is_cut` says whether a function shortens the tape,
    /// which needs a method.
    pub(super) fn declaration(&self, comment: &str, is_cut: bool) -> String {
        let Tape { type_name, fields, .. } = self;
        let mut text = format!("/// {comment}\n#[derive(Default)]\nstruct {type_name} {{\n");
        text += "    /// The number of records.\n    records: usize,\n";
        for Field { dtype, elements, name, .. } in fields {
            let numbers = if *elements == 1 { "number" } else { "numbers" };
            text += &format!("    /// {elements} {numbers} in each record.\n");
            text += &format!("    {name}: Vec<{dtype}>,\n");
        }
        let size = |elements: usize, records: &str| match elements {
            1 => records.to_owned(),
            n => format!("{records} * {n}"),
        };
        text += &format!("}}\n\nimpl {type_name} {{\n");
        text += "    /// Adds records of zeros, up to the one with this number.\n";
        text += "    fn reach(&mut self, record: usize) {\n";
        text += "        self.records = self.records.max(record + 1);\n";
        for Field { dtype, elements, name, .. } in fields {
            let (zero, size) = (super::expression::zero(*dtype), size(*elements, "self.records"));
            text += &format!("        self.{name}.resize({size}, {zero});\n");
        }
        text += "    }\n";
        if is_cut {
            text += "\n    /// Drops all records but the first ones.\n";
            text += "    fn cut(&mut self, records: usize) {\n        self.records = records;\n";
            for Field { elements, name, .. } in fields {
                text += &format!("        self.{name}.truncate({});\n", size(*elements, "records"));
            }
            text += "    }\n";
        }
        text + "}\n"
    }
}
