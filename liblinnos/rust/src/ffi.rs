// SPDX-License-Identifier: MIT
//! The part of liblinnos.h and linnos_choose.h that the crate uses.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::io::IoSliceMut;

#[repr(C)]
pub struct Options {
    pub size: usize,
    pub flags: u32,
    pub home: i32,
    pub margin_percent: u32,
    pub probe_after_ms: u32,
    pub hedge_us: u32,
    pub duplicates_burst: u32,
    pub hedge_percentile: f64,
    pub max_duplicates: f64,
}

#[repr(C)]
pub struct ReadOptions {
    pub size: usize,
    pub flags: u32,
    pub home: i32,
    pub deadline_ns: u64,
    pub sqe_flags: u32,
    pub ioprio: u32,
}

/// Statistics of an array since it was opened. liblinnos(3) defines each number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Stats {
    pub reads: u64,
    pub bytes: u64,
    pub redirected: u64,
    pub probes: u64,
    pub hedges: u64,
    pub hedges_won: u64,
    pub hedges_denied: u64,
    pub failovers: u64,
    pub errors: u64,
    pub failed: u64,
    pub in_flight: u64,
    pub saved_us_estimate: i64,
    pub hedges_saved_us: u64,
    pub queried: u64,
    pub without_ring: u64,
    pub not_choosing: u64,
    pub control: u64,
    pub late: u64,
    pub cancelled: u64,
}

/// Statistics of a replica. liblinnos(3) defines each number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ReplicaStats {
    pub state: u32,
    pub chooses: u32,
    pub served: u64,
    pub errors: u64,
    pub answered: u64,
    pub in_flight: u64,
    pub predicted_us: u64,
    pub took_us: u64,
    pub near: u64,
    pub model_id: u32,
    pub reserved: u32,
}

extern "C" {
    pub fn linnos_array_open(
        array: *mut *mut c_void,
        n_replicas: c_uint,
        paths: *const *const c_char,
        models: *const *const c_char,
        options: *const Options,
    ) -> c_int;
    pub fn linnos_array_close(array: *mut c_void) -> c_int;
    pub fn linnos_error() -> *const c_char;
    pub fn linnos_array_size(array: *const c_void) -> u64;
    pub fn linnos_array_drop_replica(array: *mut c_void, replica: c_uint) -> c_int;
    pub fn linnos_array_restore_replica(array: *mut c_void, replica: c_uint) -> c_int;
    pub fn linnos_set_model(array: *mut c_void, replica: c_uint, model: *const c_char) -> c_int;
    pub fn linnos_array_get_stats(array: *mut c_void, stats: *mut Stats, bytes: usize);
    pub fn linnos_array_get_replica_stats(
        array: *mut c_void,
        replica: c_uint,
        stats: *mut ReplicaStats,
        bytes: usize,
    ) -> c_int;
    pub fn linnos_queue_create(
        queue: *mut *mut c_void,
        array: *mut c_void,
        options: *const c_void,
    ) -> c_int;
    pub fn linnos_queue_close(queue: *mut c_void) -> c_int;
    pub fn linnos_preadv(
        queue: *mut c_void,
        iov: *const IoSliceMut<'_>,
        n_iov: c_int,
        offset: i64,
        options: *const ReadOptions,
    ) -> isize;
}
