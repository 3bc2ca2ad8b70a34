//! Completion of executions, and the queue of executions in flight.

use crate::calls::RawEvent;
use crate::error::Error;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The completion of an execution on all of its devices. Clones stand for the same execution.
#[derive(Clone)]
pub struct Completion {
    events: Arc<[RawEvent]>,
}

impl Completion {
    pub(crate) fn new(events: Vec<RawEvent>) -> Completion {
        Completion { events: events.into() }
    }

    /// Waits until all devices have completed. The error is that of the first device that failed.
    pub fn wait(&self) -> Result<(), Error> {
        let mut first = Ok(());
        for event in &*self.events {
            // Wait for all events before returning an error, so that nothing runs anymore when the caller sees it.
            first = first.and(event.wait());
        }
        first
    }

    /// Returns whether all devices have completed, with or without an error.
    pub fn is_ready(&self) -> Result<bool, Error> {
        for event in &*self.events {
            if !event.is_ready()? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Completion({} devices)", self.events.len())
    }
}

/// The executions of a client that have not been waited for, the oldest first.
///
/// An execution is started and returns before it has run. Without a bound, a loop that never reads a result would start
/// executions faster than devices complete them, and the results of all executions would take memory.
pub(crate) struct InFlight {
    limit: usize,
    queue: Mutex<Queue>,
    /// Held while a program for several devices starts. If two programs with collective operations started at the same
    /// time, each program could get some of the threads of the devices, and the two would wait for each other forever.
    starting: Mutex<()>,
}

struct Queue {
    executions: VecDeque<Completion>,
    /// The first error of an execution that left the queue.
    failed: Result<(), Error>,
}

impl InFlight {
    /// Makes an empty queue for at most `limit` executions.
    pub(crate) fn new(limit: usize) -> InFlight {
        let queue = Queue { executions: VecDeque::new(), failed: Ok(()) };
        InFlight { limit, queue: Mutex::new(queue), starting: Mutex::new(()) }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the oldest executions until one more is within the limit. Threads that start executions at once may
    /// exceed the limit by one each.
    pub(crate) fn make_room(&self) {
        while self.retire_oldest(self.limit) {}
    }

    /// If at least `count` executions are in the queue, waits for the oldest, removes it and stores its error. Returns
    /// whether there were at least `count`.
    fn retire_oldest(&self, count: usize) -> bool {
        let oldest = {
            let queue = self.queue();
            queue.executions.front().filter(|_| queue.executions.len() >= count).cloned()
        };
        let Some(oldest) = oldest else { return false };
        let ended = oldest.wait();
        // The execution stayed in the queue during the wait, so that other threads could wait for it, too. Only one
        // thread removes it.
        let mut queue = self.queue();
        if queue.executions.front().is_some_and(|front| Arc::ptr_eq(&front.events, &oldest.events))
        {
            queue.executions.pop_front();
            let failed = std::mem::replace(&mut queue.failed, Ok(()));
            queue.failed = failed.and(ended);
        }
        true
    }

    /// Returns the lock under which programs for several devices start.
    pub(crate) fn starting(&self) -> MutexGuard<'_, ()> {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an execution.
    pub(crate) fn push(&self, execution: Completion) {
        self.queue().executions.push_back(execution);
    }

    /// Returns the number of executions in the queue.
    pub(crate) fn len(&self) -> usize {
        self.queue().executions.len()
    }

    /// Waits for all executions and returns the first error since the last call.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        while self.retire_oldest(1) {}
        std::mem::replace(&mut self.queue().failed, Ok(()))
    }
}
