//! A stream engine: moves tiles between scratchpad and memory, one memory request after the other.
//!
//! A tile of s tape entries takes ceil(8 s / `request`) requests. A tile of an argument takes one request per cache
//! line that it touches. A request starts every `pace` ticks, while fewer than `outstanding` requests are in flight.
//! A tile has arrived when its last request has ended.

use super::machine::Machine;
use super::scratchpad::{StreamHalf, Transfer};
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Engine {
    /// The half of the scratchpad that the transfer in progress moves.
    moved: StreamHalf,
    /// Whether the entries that the transfer in progress moves are on the tape.
    taped: bool,
    /// The addresses of the requests of the transfer in progress that have not started.
    left: VecDeque<u64>,
    /// The tick from which the engine may start its next request.
    next: u64,
    /// The ticks in which the requests in flight end, in the order of their starts.
    under_way: VecDeque<u64>,
    /// The halves of the scratchpad whose requests have all started, each with the tick in which its last request
    /// ends.
    arriving: VecDeque<(u64, StreamHalf)>,
}

impl Engine {
    /// Starts the memory requests that can start in this tick. `request` is called with an address and whether the
    /// address is on the tape, and returns the tick in which the request ends. Returns the number of started
    /// requests.
    pub(super) fn start(
        &mut self,
        m: &Machine,
        now: u64,
        queue: &mut VecDeque<Transfer>,
        mut request: impl FnMut(u64, bool) -> u64,
    ) -> u64 {
        let mut started = 0;
        while self.under_way.front().is_some_and(|end| *end <= now) {
            self.under_way.pop_front();
        }
        while self.next <= now && (self.under_way.len() as u64) < m.outstanding {
            if self.left.is_empty() {
                let Some(Transfer { moved, taped, requests, .. }) = queue.pop_front() else {
                    break;
                };
                (self.moved, self.taped, self.left) = (moved, taped, requests);
            }
            let before = self.under_way.back().map_or(0, |end| *end);
            // A transfer without memory requests ends at once. It moves a tile (contents of a half) of an argument
            // whose cache lines were all requested for earlier tiles.
            let asked = self.left.pop_front().map_or(now, |address| request(address, self.taped));
            let end = before.max(asked);
            self.under_way.push_back(end);
            (self.next, started) = (now + m.pace, started + 1);
            if self.left.is_empty() {
                self.arriving.push_back((end, self.moved));
            }
        }
        started
    }

    /// Removes and returns the next half of the scratchpad whose transfer has ended by tick `now`.
    pub(super) fn arrived(&mut self, now: u64) -> Option<StreamHalf> {
        let (_, moved) = self.arriving.pop_front_if(|(end, _)| *end <= now)?;
        Some(moved)
    }

    /// Returns the next tick in which a request can start or a half of the scratchpad arrives; `None` if nothing is to
    /// be done.
    pub(super) fn next_event(&self, m: &Machine, queue: &VecDeque<Transfer>) -> Option<u64> {
        let start = (!self.left.is_empty() || !queue.is_empty()).then(|| {
            let room = (self.under_way.len() as u64) < m.outstanding;
            let room = if room { 0 } else { self.under_way.front().map_or(0, |end| *end) };
            self.next.max(room)
        });
        let arrival = self.arriving.front().map(|(end, _)| *end);
        [start, arrival].into_iter().flatten().min()
    }
}
