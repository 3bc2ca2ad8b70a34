//! Sweeps: random programs, and programs of every kind under every transform, against laws.

mod fuzz;
mod implicit;
mod loops;
mod places;
mod planned;
mod schedules;
mod state;
mod thin;
mod written_out;
