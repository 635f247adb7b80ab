// SPDX-License-Identifier: MIT
//! Reads from the replica that is predicted to answer first: liblinnos for Rust.
//!
//! An [`Array`] is shared by threads; each reads by a [`Queue`] of its own.
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

use std::ffi::{c_int, c_void, CStr, CString};
use std::io::{self, IoSliceMut};
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;
use std::{fmt, ptr};

pub use ffi::{ReplicaStats, Stats};

const EINVAL: c_int = 22;
const ETIME: c_int = 62;
const HOME_TURNS: i32 = -1;
const NEVER_HEDGE: u32 = 1;
const PARTS_MAX: usize = 1024;

/// What a call could not do: an errno value, and the thing, what is wrong with it and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// As in errno.h, above 0.
    pub code: i32,
    text: String,
}

impl Error {
    /// Of the call of this thread that has just failed with a negative errno value.
    fn of(code: c_int) -> Error {
        // SAFETY: it is a string of this thread's until its next call that fails.
        let text = unsafe { CStr::from_ptr(ffi::linnos_error()) };
        Error {
            code: -code,
            text: text.to_string_lossy().into_owned(),
        }
    }

    fn invalid(text: String) -> Error {
        Error { code: EINVAL, text }
    }

    /// The deadline came before an answer.
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

/// How an array reads; liblinnos(3) has each in full.
#[derive(Clone, Debug)]
pub struct Options {
    /// The replica that reads stay at when predictions hardly differ; `None`: in turn.
    pub home: Option<u32>,
    /// How much lower another prediction must be for a read to leave home.
    pub home_margin_percent: u32,
    /// A replica silent for so long is looked at again, by a copy of a read; 0: never.
    pub explore_ms: u32,
    /// Ask a second replica after so many us; 0: not by a fixed time.
    pub hedge_us: u32,
    /// The same after a percentile of the latencies seen, in percent (95.0); 0: not by a percentile.
    pub hedge_percentile: f64,
    /// Hedges and copies are at most so many percent of the reads (5.0, not 0.05).
    pub extra_io_percent: f64,
    /// Hedges that calm times save up at most, in each queue.
    pub extra_io_burst: u32,
    /// Through the page cache, rather than with O_DIRECT.
    pub buffered: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            home: None,
            home_margin_percent: 25,
            explore_ms: 20,
            hedge_us: 0,
            hedge_percentile: 0.0,
            extra_io_percent: 5.0,
            extra_io_burst: 100,
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
            home_margin_percent: self.home_margin_percent,
            explore_ms: self.explore_ms,
            hedge_us: self.hedge_us,
            extra_io_burst: self.extra_io_burst,
            hedge_percentile: self.hedge_percentile,
            extra_io_percent: self.extra_io_percent,
            hedge_tables: ptr::null(),
        }
    }
}

fn home_of(home: Option<u32>) -> i32 {
    home.map_or(HOME_TURNS, |home| home.try_into().unwrap_or(i32::MAX))
}

/// How one read is served.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// After so long it is over, if there is no answer.
    pub deadline: Option<Duration>,
    /// Its home replica, where the array's option would be another one.
    pub home: Option<u32>,
    /// Send it to one replica at a time.
    pub never_hedge: bool,
}

/// Replicas that hold the same bytes, and what is known of them.
pub struct Array {
    raw: *mut c_void,
}

// SAFETY: an array may be used by any number of threads at once, and be closed by any.
unsafe impl Send for Array {}
unsafe impl Sync for Array {}

impl Array {
    /// Opens block devices or files, each with a model, or none where `models` has none or is empty:
    /// reads stay at such a home unless it fails or hangs.
    pub fn open<P: AsRef<Path>>(
        paths: &[P],
        models: &[Option<&Path>],
        options: &Options,
    ) -> Result<Array, Error> {
        let paths: Vec<_> = paths.iter().map(|path| Some(path.as_ref())).collect();
        Array::open_some(&paths, models, options)
    }

    /// Likewise; `None` is a replica that is not there, and counts as dropped: at least one is.
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
        let paths = paths
            .iter()
            .map(|path| path.map(c_path).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let models = models
            .iter()
            .map(|model| model.map(c_path).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let path_pointers: Vec<_> = paths
            .iter()
            .map(|path| path.as_ref().map_or(ptr::null(), |path| path.as_ptr()))
            .collect();
        let model_pointers: Vec<_> = models
            .iter()
            .map(|model| model.as_ref().map_or(ptr::null(), |model| model.as_ptr()))
            .collect();
        let given = if models.is_empty() {
            ptr::null()
        } else {
            model_pointers.as_ptr()
        };
        let mut array = Array {
            raw: ptr::null_mut(),
        };
        // SAFETY: all that is pointed to lives until the call returns, and it keeps none of it.
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

    /// A thread begins to read.
    pub fn queue(&self) -> Result<Queue<'_>, Error> {
        let mut queue = Queue {
            raw: ptr::null_mut(),
            array: PhantomData,
        };
        // SAFETY: the array lives as long as the queue.
        done(unsafe { ffi::linnos_queue_create(&mut queue.raw, self.raw, ptr::null()) })?;
        Ok(queue)
    }

    /// Bytes that the largest replica held when the array was opened.
    pub fn size(&self) -> u64 {
        // SAFETY: it is open.
        unsafe { ffi::linnos_array_size(self.raw) }
    }

    /// Leaves a replica out from now on: what it holds is out of date.
    pub fn drop_replica(&self, replica: u32) -> Result<(), Error> {
        // SAFETY: it is open.
        done(unsafe { ffi::linnos_array_drop_replica(self.raw, replica) })
    }

    /// Takes a dropped replica back, when it holds what the others hold.
    pub fn restore(&self, replica: u32) -> Result<(), Error> {
        // SAFETY: it is open.
        done(unsafe { ffi::linnos_array_restore_replica(self.raw, replica) })
    }

    /// Exchanges a replica's model, while others read, too.
    pub fn set_model(&self, replica: u32, model: Option<&Path>) -> Result<(), Error> {
        let model = model.map(c_path).transpose()?;
        let pointer = model.as_ref().map_or(ptr::null(), |model| model.as_ptr());
        // SAFETY: it is open, and the path lives until the call returns.
        done(unsafe { ffi::linnos_set_model(self.raw, replica, pointer) })
    }

    /// What the array has done until now.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        // SAFETY: it is open, and no more is written than there is room for.
        unsafe { ffi::linnos_array_get_stats(self.raw, &mut stats, size_of::<Stats>()) };
        stats
    }

    /// What a replica has done until now.
    pub fn replica_stats(&self, replica: u32) -> Result<ReplicaStats, Error> {
        let mut stats = ReplicaStats::default();
        let bytes = size_of::<ReplicaStats>();
        // SAFETY: likewise.
        done(unsafe { ffi::linnos_array_get_replica_stats(self.raw, replica, &mut stats, bytes) })?;
        Ok(stats)
    }
}

impl Drop for Array {
    /// Waits for attempts that have lost their race.
    fn drop(&mut self) {
        // SAFETY: no queue is left, for they borrow it; NULL is nothing to close.
        unsafe { ffi::linnos_array_close(self.raw) };
    }
}

/// A thread's part of an array.
pub struct Queue<'a> {
    raw: *mut c_void,
    array: PhantomData<&'a Array>,
}

// SAFETY: it is for one thread at a time, whichever: reads want it mutable.
unsafe impl Send for Queue<'_> {}

impl Queue<'_> {
    /// Reads at an offset; fewer bytes only where the replicas end.
    pub fn pread(&mut self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.preadv(
            &mut [IoSliceMut::new(buffer)],
            offset,
            &ReadOptions::default(),
        )
    }

    /// Likewise, into several places, and as this read wants it.
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
        // SAFETY: slices to be written to have the layout of struct iovec, and when the call returns
        // nobody writes to them any more.
        let n = unsafe { ffi::linnos_preadv(self.raw, buffers.as_ptr(), n, offset, &wanted) };
        usize::try_from(n).map_err(|_| Error::of(n as c_int))
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        // SAFETY: nothing was begun in it that has not come back; NULL is nothing to close.
        unsafe { ffi::linnos_queue_close(self.raw) };
    }
}
