//! Tests of the modules of `array`.

mod argreduce;
mod argsort;
mod broadcast;
mod concatenate;
mod cumulate;
mod diagonal;
mod dot;
mod dropped;
mod dynamic_slice;
mod dynamic_update_slice;
mod gather;
mod iota;
mod pad;
mod permute;
mod recurrence;
mod reshape;
mod rev;
mod scatter;
mod slice;
mod stop_gradient;
mod window;
