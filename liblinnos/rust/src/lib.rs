// SPDX-License-Identifier: MIT
//! Read from the replica that is predicted to answer first: liblinnos for Rust.
//!
//! Threads share an [`Array`]. Each thread reads through its own [`Queue`].
//!
//! ```no_run
//! # fn main() -> Result<(), linnos::Error> {
//! use std::path::Path;
//!
//! let drives = ["/dev/nvme0n1", "/dev/nvme1n1", "/dev/nvme2n1"];
//! let models = ["nvme0n1", "nvme1n1", "nvme2n1"].map(|name| format!("models/{name}.linnos"));
//! let models: Vec<_> = models.iter().map(|model| Some(Path::new(model))).collect();
//! let array = linnos::Array::open(&drives, &models, &linnos::Options::default())?;
//! let mut queue = array.queue()?;
//! let mut block = [0; 4096];
//! let n = queue.pread(&mut block, 0)?;
//! # let _ = n; Ok(()) }
//! ```
#![warn(missing_docs)]

mod ffi;

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::io::{self, IoSliceMut};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use std::{fmt, ptr};

pub use ffi::{ReplicaStats, Stats};

const EINVAL: c_int = 22;
const ETIME: c_int = 62;
const DEFAULT_ROUND_ROBIN: i32 = -1;
const NEVER_HEDGE: u32 = 1;
const PARTS_MAX: usize = 1024;

/// The error of a call: an errno value, and a message that names the object, what is wrong with it
/// and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// A positive value as in errno.h.
    pub code: i32,
    text: String,
}

impl Error {
    /// Returns the error of this thread's call that has just failed with a negative errno value.
    fn of(code: c_int) -> Error {
        // SAFETY: the string is valid until the next call of this thread fails.
        let text = unsafe { CStr::from_ptr(ffi::linnos_error()) };
        Error {
            code: -code,
            text: text.to_string_lossy().into_owned(),
        }
    }

    fn invalid(text: String) -> Error {
        Error { code: EINVAL, text }
    }

    /// Returns true if the deadline passed before an answer arrived.
    pub fn is_late(&self) -> bool {
        self.code == ETIME
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = match error.code {
            ETIME => io::ErrorKind::TimedOut,
            code => io::Error::from_raw_os_error(code).kind(),
        };
        io::Error::new(kind, error)
    }
}

fn done(code: c_int) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        code => Err(Error::of(code)),
    }
}

fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::invalid(format!("{}: a path with a NUL in it", path.display())))
}

/// Returns the strings of paths, and pointers to them, which are null for `None`.
fn c_paths(paths: &[Option<&Path>]) -> Result<(Vec<Option<CString>>, Vec<*const c_char>), Error> {
    let strings = paths
        .iter()
        .map(|path| path.map(c_path).transpose())
        .collect::<Result<Vec<_>, _>>()?;
    let pointers = strings
        .iter()
        .map(|path| path.as_ref().map_or(ptr::null(), |path| path.as_ptr()))
        .collect();
    Ok((strings, pointers))
}

/// How an array reads. liblinnos(3) describes each option in full.
#[derive(Clone, Debug)]
pub struct Options {
    /// The default replica, which serves reads when predictions barely differ; `None` for round
    /// robin.
    pub home: Option<u32>,
    /// A read is redirected only if another prediction is lower by more than this percentage.
    pub margin_percent: u32,
    /// A replica that has completed nothing for this time is probed by a copy of a read; 0 disables
    /// probes.
    pub probe_after_ms: u32,
    /// Send a read to a second replica after this many us; 0 disables hedging after a fixed time.
    pub hedge_us: u32,
    /// As `hedge_us`, after this percentile of the latencies (95.0, not 0.95); 0 disables it.
    pub hedge_percentile: f64,
    /// Hedges and copies are at most this percentage of the reads (5.0, not 0.05); -1.0 for the
    /// default, 5.0.
    pub max_duplicates: f64,
    /// Largest number of hedges that can accumulate while none is needed, in each queue.
    pub duplicates_burst: u32,
    /// Read through the page cache, rather than with O_DIRECT.
    pub buffered: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            home: None,
            margin_percent: 25,
            probe_after_ms: 20,
            hedge_us: 0,
            hedge_percentile: 0.0,
            max_duplicates: -1.0,
            duplicates_burst: 100,
            buffered: false,
        }
    }
}

impl Options {
    fn raw(&self) -> ffi::Options {
        ffi::Options {
            size: size_of::<ffi::Options>(),
            flags: self.buffered.into(),
            home: home_of(self.home),
            margin_percent: self.margin_percent,
            probe_after_ms: self.probe_after_ms,
            hedge_us: self.hedge_us,
            duplicates_burst: self.duplicates_burst,
            hedge_percentile: self.hedge_percentile,
            max_duplicates: self.max_duplicates,
        }
    }
}

fn home_of(home: Option<u32>) -> i32 {
    home.map_or(DEFAULT_ROUND_ROBIN, |home| home.try_into().unwrap_or(i32::MAX))
}

/// How one read is served.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The read ends after this time if there is no answer.
    pub deadline: Option<Duration>,
    /// Its default replica, if it differs from that of the array's options.
    pub home: Option<u32>,
    /// Send the read to one replica at a time.
    pub never_hedge: bool,
}

/// Replicas that hold the same bytes, and their state.
pub struct Array {
    raw: *mut c_void,
}

// SAFETY: any number of threads may use an array at once, and any thread may close it.
unsafe impl Send for Array {}
unsafe impl Sync for Array {}

impl Array {
    /// Opens block devices or files, each with a model. If `models` has `None` for a replica or is
    /// empty, reads are not redirected from or to it unless the default replica fails or hangs.
    pub fn open<P: AsRef<Path>>(
        paths: &[P],
        models: &[Option<&Path>],
        options: &Options,
    ) -> Result<Array, Error> {
        let paths: Vec<_> = paths.iter().map(|path| Some(path.as_ref())).collect();
        Array::open_some(&paths, models, options)
    }

    /// As [`Array::open`], with `None` for a replica that is absent and counts as dropped. At least
    /// one must be present.
    pub fn open_some(
        paths: &[Option<&Path>],
        models: &[Option<&Path>],
        options: &Options,
    ) -> Result<Array, Error> {
        if !models.is_empty() && models.len() != paths.len() {
            let (n, m) = (paths.len(), models.len());
            return Err(Error::invalid(format!(
                "{m} models for {n} replicas; give one for each"
            )));
        }
        let (_paths, path_pointers) = c_paths(paths)?;
        let (_models, model_pointers) = c_paths(models)?;
        let given = if models.is_empty() {
            ptr::null()
        } else {
            model_pointers.as_ptr()
        };
        let mut array = Array {
            raw: ptr::null_mut(),
        };
        // SAFETY: all pointers are valid until the call returns, and it keeps none of them.
        done(unsafe {
            ffi::linnos_array_open(
                &mut array.raw,
                paths.len().try_into().unwrap_or(u32::MAX),
                path_pointers.as_ptr(),
                given,
                &options.raw(),
            )
        })?;
        Ok(array)
    }

    /// Creates a queue for one thread.
    pub fn queue(&self) -> Result<Queue<'_>, Error> {
        let mut queue = Queue {
            raw: ptr::null_mut(),
            array: PhantomData,
        };
        // SAFETY: the array lives as long as the queue.
        done(unsafe { ffi::linnos_queue_create(&mut queue.raw, self.raw, ptr::null()) })?;
        Ok(queue)
    }

    /// Returns the size in bytes of the largest replica when the array was opened.
    pub fn size(&self) -> u64 {
        // SAFETY: the array is open.
        unsafe { ffi::linnos_array_size(self.raw) }
    }

    /// Stops sending reads to a replica whose data is out of date.
    pub fn drop_replica(&self, replica: u32) -> Result<(), Error> {
        // SAFETY: the array is open.
        done(unsafe { ffi::linnos_array_drop_replica(self.raw, replica) })
    }

    /// Uses a dropped replica again, once it holds the same data as the others.
    pub fn restore(&self, replica: u32) -> Result<(), Error> {
        // SAFETY: the array is open.
        done(unsafe { ffi::linnos_array_restore_replica(self.raw, replica) })
    }

    /// Replaces a replica's model, also while other threads read.
    pub fn set_model(&self, replica: u32, model: Option<&Path>) -> Result<(), Error> {
        let (_model, pointers) = c_paths(&[model])?;
        // SAFETY: the array is open, and the path is valid until the call returns.
        done(unsafe { ffi::linnos_set_model(self.raw, replica, pointers[0]) })
    }

    /// Returns the statistics of the array.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: the array is open, and at most the given size is written.
        unsafe { ffi::linnos_array_get_stats(self.raw, &mut stats, size_of::<Stats>()) };
        stats
    }

    /// Returns the statistics of a replica.
    pub fn replica_stats(&self, replica: u32) -> Result<ReplicaStats, Error> {
        let mut stats = ReplicaStats::default();
        let bytes = size_of::<ReplicaStats>();
        // SAFETY: the array is open, and at most the given size is written.
        done(unsafe { ffi::linnos_array_get_replica_stats(self.raw, replica, &mut stats, bytes) })?;
        Ok(stats)
    }
}

impl Drop for Array {
    /// Waits for the slower attempts of hedged reads.
    fn drop(&mut self) {
        // SAFETY: no queue exists, because queues borrow the array. Closing NULL does nothing.
        unsafe { ffi::linnos_array_close(self.raw) };
    }
}

/// One thread's part of an array.
pub struct Queue<'a> {
    raw: *mut c_void,
    array: PhantomData<&'a Array>,
}

// SAFETY: any thread may use it, one at a time, because reads need a mutable reference.
unsafe impl Send for Queue<'_> {}

impl Queue<'_> {
    /// Reads at an offset. Fewer bytes are returned only at the end of the replicas.
    pub fn pread(&mut self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.preadv(
            &mut [IoSliceMut::new(buffer)],
            offset,
            &ReadOptions::default(),
        )
    }

    /// As [`Queue::pread`], into several buffers and with options for this read.
    pub fn preadv(
        &mut self,
        buffers: &mut [IoSliceMut<'_>],
        offset: u64,
        options: &ReadOptions,
    ) -> Result<usize, Error> {
        let wanted = ffi::ReadOptions {
            size: size_of::<ffi::ReadOptions>(),
            flags: if options.never_hedge { NEVER_HEDGE } else { 0 },
            home: home_of(options.home),
            deadline_ns: options.deadline.map_or(0, |time| {
                u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1)
            }),
            sqe_flags: 0,
            ioprio: 0,
        };
        let n = buffers.len().min(PARTS_MAX + 1) as c_int;
        let offset = i64::try_from(offset)
            .map_err(|_| Error::invalid(format!("read at {offset}: no such offset")))?;
        // SAFETY: `IoSliceMut` has the layout of struct iovec, and no thread writes to the buffers
        // after the call has returned.
        let n = unsafe { ffi::linnos_preadv(self.raw, buffers.as_ptr(), n, offset, &wanted) };
        usize::try_from(n).map_err(|_| Error::of(n as c_int))
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // SAFETY: all reads of the queue have completed. Closing NULL does nothing.
        unsafe { ffi::linnos_queue_close(self.raw) };
    }
}
