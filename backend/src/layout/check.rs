//! The verifier of tape layouts.

use super::scratchpad_partition::{Stream, stream_uses};
use super::{Holds, Layout, Region, ScratchpadModel};
use crate::loop_ir::Program;

/// Checks a layout: the fields of a record (one iteration's saved values) lie within the record and do not overlap, and
/// if a step (top-level statement) uses several streams, their scratchpad ranges do not overlap.
pub(super) fn check(
    program: &Program,
    layout: &Layout,
    model: &ScratchpadModel,
) -> Result<(), String> {
    for (id, region) in &layout.regions {
        record(program, region).map_err(|what| format!("{id}: {what}"))?;
    }
    let mut placed = Vec::new();
    for stream_use in stream_uses(program, layout) {
        let (name, at) = match stream_use.stream {
            Stream::Region(id) => (id.to_string(), layout.regions[id].scratchpad),
            Stream::Input(id) => (id.to_string(), layout.inputs[id].scratchpad),
        };
        let Some(at) = at else { continue };
        let size = layout
            .stream_entries(stream_use.stream)
            .ok_or(format!("{name} has a place and no tiles"))?;
        let end = at + size;
        if end > model.entries {
            return Err(format!("{name} ends at entry {end} of a scratchpad of {}", model.entries));
        }
        for (other, of, from, to) in &placed {
            if stream_use.conflicts_with(of) && at < *to && *from < end {
                return Err(format!("{name} and {other} are in use together, and overlap"));
            }
        }
        placed.push((name, stream_use, at, end));
    }
    Ok(())
}

/// Checks that the fields of a region (an array of records) lie in its record without overlap, and that the records
/// together hold all elements of the fields' arrays.
fn record(program: &Program, region: &Region) -> Result<(), String> {
    let Holds::Arrays { fields, records } = &region.holds else { return Ok(()) };
    let mut end = 0;
    for field in fields {
        if field.at < end {
            return Err(format!("{} begins in the field before", field.buffer));
        }
        end = field.at + field.elements * field.width;
        let elements = program.entry.buffers[field.buffer].ty.shape.elements() as u64;
        if field.elements * records != elements {
            return Err(format!("{} has {elements} elements", field.buffer));
        }
    }
    let whole = region.scratchpad.is_none() || region.width.is_multiple_of(8);
    match end <= region.width && whole {
        true => Ok(()),
        false => Err(format!("fields of {end} bytes in a record of {}", region.width)),
    }
}
