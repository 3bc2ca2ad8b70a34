//! A stream engine: moves tiles between scratchpad and memory, one request after the other.
//!
//! A tile of s entries of the tape is ceil(8 s / `request`) requests, and one of what lies elsewhere as many as it
//! touches lines. One starts every `pace` ticks while at
//! most `outstanding` are under way. A tile has arrived when its last request has.

use super::machine::Machine;
use super::scratchpad::{Moved, Transfer};
use std::collections::VecDeque;

#[derive(Default)]
pub(super) struct Engine {
    /// What is being moved, whether it is of the tape, and requests of it that did not start.
    moved: Moved,
    taped: bool,
    left: VecDeque<u64>,
    /// When the next request may start.
    next: u64,
    /// When those under way end, in order.
    under_way: VecDeque<u64>,
    /// Halves whose requests all started, and when the last one ends.
    arriving: VecDeque<(u64, Moved)>,
}

impl Engine {
    /// Starts what can start at this tick; `request` says when one ends, given its address and whether it is of the
    /// tape. How many were started.
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
            // Of what every entry came with a tile before nothing is asked for.
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

    /// What has arrived.
    pub(super) fn arrived(&mut self, now: u64) -> Option<Moved> {
        let (_, moved) = self.arriving.pop_front_if(|(end, _)| *end <= now)?;
        Some(moved)
    }

    /// The next tick at which something happens by itself.
    pub(super) fn wakes(&self, m: &Machine, queue: &VecDeque<Transfer>) -> Option<u64> {
        let start = (!self.left.is_empty() || !queue.is_empty()).then(|| {
            let room = (self.under_way.len() as u64) < m.outstanding;
            let room = if room { 0 } else { self.under_way.front().map_or(0, |end| *end) };
            self.next.max(room)
        });
        let arrival = self.arriving.front().map(|(end, _)| *end);
        [start, arrival].into_iter().flatten().min()
    }
}
