//! What each byte of memory holds: the shadow of a run.
//!
//! Every byte that a program may write is tagged with the value whose element was stored there last
//! (a buffer and one of its versions), and every load says which value it means. So whatever goes
//! wrong with memory shows at the load that suffers: an update that takes over what is still read, a
//! buffer that begins where another one still lives, an offset in the workspace that makes two
//! overlap, an element that nobody has written. Tags do not ask what the numbers are.

use super::eval::filled;
use super::print::Held;
use super::{BufferId, Place, Program};
use cranelift_entity::SecondaryMap;
use std::fmt;
use tapeloom_ir::Problem;

/// What was stored last.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag {
    buffer: BufferId,
    version: u32,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Held(self.buffer, self.version))
    }
}

/// The tags of a run.
pub(super) struct Shadow<'a> {
    p: &'a Program,
    workspace: Vec<Option<Tag>>,
    /// Of each result.
    outputs: Vec<Vec<Option<Tag>>>,
    /// For each version of a buffer, the one that continues it and has begun to.
    ended: SecondaryMap<BufferId, Vec<Option<u32>>>,
}

impl<'a> Shadow<'a> {
    pub(super) fn of(p: &'a Program) -> Result<Shadow<'a>, Problem> {
        let mut outputs = Vec::new();
        for b in p.buffers.values() {
            if let Place::Output(n) = b.place {
                if outputs.len() <= n {
                    outputs.resize(n + 1, Vec::new());
                }
                outputs[n] = filled(None, b.ty.bytes())?;
            }
        }
        let mut ended = SecondaryMap::new();
        for id in p.buffers.keys() {
            ended[id] = vec![None; p.versions[id].len() + 1];
        }
        Ok(Shadow { p, workspace: filled(None, p.workspace)?, outputs, ended })
    }

    /// An element is read that is meant to belong to that version.
    pub(super) fn read(&self, buffer: BufferId, version: u32, i: usize) -> Result<(), Problem> {
        let Some(bytes) = self.bytes(buffer, i) else { return Ok(()) };
        let meant = Tag { buffer, version };
        if let Some(by) = self.ended(meant) {
            return Err(self.wrong(format!("{meant}[{i}] is read, but {by} has taken it over")));
        }
        for found in bytes {
            match found {
                Some(found) if self.continues(meant, *found) => {}
                Some(found) => {
                    let message = format!("{meant}[{i}] is read where {found} was written since");
                    return Err(self.wrong(message));
                }
                None => {
                    let message = format!("{meant}[{i}] is read before anything was written there");
                    return Err(self.wrong(message));
                }
            }
        }
        Ok(())
    }

    /// An element of that version is written.
    pub(super) fn write(
        &mut self,
        buffer: BufferId,
        version: u32,
        i: usize,
    ) -> Result<(), Problem> {
        let tag = Tag { buffer, version };
        if let Some(by) = self.ended(tag) {
            return Err(self.wrong(format!("{tag}[{i}] is written, but {by} has taken it over")));
        }
        if let Some(before) = self.before(tag)
            && let Some(by) = self.ended[buffer].get_mut(before.version as usize)
        {
            *by = Some(version);
        }
        let b = &self.p.buffers[buffer];
        let size = b.ty.dtype.bytes();
        let bytes = match b.place {
            Place::Input(_) => return Ok(()),
            Place::Output(n) => &mut self.outputs[n][i * size..][..size],
            Place::Workspace(offset) => &mut self.workspace[offset + i * size..][..size],
        };
        bytes.fill(Some(tag));
        Ok(())
    }

    /// The tags of an element; inputs have none, since nobody writes them.
    fn bytes(&self, buffer: BufferId, i: usize) -> Option<&[Option<Tag>]> {
        let b = &self.p.buffers[buffer];
        let size = b.ty.dtype.bytes();
        match b.place {
            Place::Input(_) => None,
            Place::Output(n) => Some(&self.outputs[n][i * size..][..size]),
            Place::Workspace(offset) => Some(&self.workspace[offset + i * size..][..size]),
        }
    }

    /// What has taken a value over.
    fn ended(&self, tag: Tag) -> Option<Tag> {
        let version = self.ended[tag.buffer].get(tag.version as usize).copied().flatten()?;
        Some(Tag { version, ..tag })
    }

    /// What a value updates in place.
    fn before(&self, tag: Tag) -> Option<Tag> {
        let version = tag.version.checked_sub(1)?;
        let version = self.p.versions[tag.buffer].get(version as usize)?.continues?;
        Some(Tag { version, ..tag })
    }

    /// Whether an element of `found` is one of `meant`.
    fn continues(&self, meant: Tag, found: Tag) -> bool {
        std::iter::successors(Some(meant), |tag| self.before(*tag)).any(|tag| tag == found)
    }

    fn wrong(&self, message: String) -> Problem {
        Problem::internal(format!("memory of kernel @{}: {message}", self.p.name))
    }
}
