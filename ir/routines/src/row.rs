//! Runs of a plan on arrays that generated code gives as pointers.

#![allow(unsafe_code)]

use crate::{Plan, WrongBuffers};
use std::slice;

impl Plan {
    /// Runs the routine as [`run`](Plan::run) does, on arrays given by pointers: pointers to the operands, then to the
    /// results and, if `scratch` is not 0, to `scratch` bytes of scratch memory. If the routine needs more scratch
    /// memory, this allocates it.
    ///
    /// # Errors
    /// [`WrongBuffers`] if an array is not aligned to its elements.
    ///
    /// # Safety
    /// `row` must point to an array of these pointers, and each of them to the elements of all batch members. The
    /// results and the scratch memory must overlap no other array, and nothing else may access them during the call.
    pub unsafe fn run_at(
        &self,
        members: usize,
        row: *const *mut u8,
        scratch: usize,
    ) -> Result<(), WrongBuffers> {
        // No routine has more than four operands or five results, so arrays of these lengths suffice.
        let (mut operands, mut results): ([&[u8]; 4], [&mut [u8]; 5]) = Default::default();
        let (reads, writes) = (self.operand_bytes().len(), self.result_bytes().len());
        for (i, bytes) in self.operand_bytes().enumerate() {
            // SAFETY: the caller guarantees that `row` has, for every operand, a pointer to the elements of all
            // members.
            operands[i] = unsafe { slice::from_raw_parts(*row.add(i), members * bytes) };
        }
        for (i, bytes) in self.result_bytes().enumerate() {
            // SAFETY: the caller guarantees that `row` has, for every result, a pointer to the elements of all members,
            // and that results overlap no other array.
            results[i] = unsafe { slice::from_raw_parts_mut(*row.add(reads + i), members * bytes) };
        }
        let (mut given, mut own): (&mut [u8], Vec<u8>) = Default::default();
        if scratch > 0 {
            // SAFETY: the caller guarantees that the last pointer is that to `scratch` bytes of scratch memory, which
            // overlap no other array.
            given = unsafe { slice::from_raw_parts_mut(*row.add(reads + writes), scratch) };
        }
        if scratch < self.scratch_bytes() {
            own.resize(self.scratch_bytes(), 0);
            given = &mut own;
        }
        self.run(members, &operands[..reads], &mut results[..writes], given)
    }
}
