// SPDX-License-Identifier: MIT
//! Reads, errors, statistics, and use by several threads.

use std::io::{self, IoSliceMut};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs, process, thread};

use linnos::{Array, Options, ReadOptions};

const BYTES: usize = 1 << 20;

/// Three files with the same contents, in the test's own folder.
struct Replicas {
    folder: PathBuf,
    paths: Vec<PathBuf>,
    content: Vec<u8>,
}

impl Replicas {
    fn new(test: &str) -> Replicas {
        let folder = env::temp_dir().join(format!("linnos-{}-{test}", process::id()));
        fs::create_dir(&folder).unwrap();
        let content: Vec<u8> = (0..BYTES).map(|i| (i * 31 % 251) as u8).collect();
        let paths: Vec<_> = (0..3).map(|k| folder.join(format!("replica{k}"))).collect();
        for path in &paths {
            fs::write(path, &content).unwrap();
        }
        Replicas {
            folder,
            paths,
            content,
        }
    }

    fn open(&self, options: &Options) -> Array {
        Array::open(&self.paths, &[], options).unwrap()
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

#[test]
fn pread_returns_the_bytes_at_any_offset() {
    let replicas = Replicas::new("bytes");
    let array = replicas.open(&Options::default());
    let mut queue = array.queue().unwrap();
    assert_eq!(array.size(), BYTES as u64);
    for (bytes, offset) in [(1, 0), (4096, 4096), (5000, 77), (100, BYTES - 100)] {
        let mut buffer = vec![0; bytes];
        assert_eq!(queue.pread(&mut buffer, offset as u64).unwrap(), bytes);
        assert_eq!(buffer, replicas.content[offset..offset + bytes]);
    }
    let mut buffer = [0; 100];
    assert_eq!(queue.pread(&mut buffer, BYTES as u64 - 30).unwrap(), 30);
    assert_eq!(queue.pread(&mut buffer, BYTES as u64).unwrap(), 0);
    let error = queue.pread(&mut buffer, u64::MAX).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("read at {}: no such offset", u64::MAX)
    );
}

#[test]
fn read_options_are_applied() {
    let replicas = Replicas::new("options");
    let array = replicas.open(&Options {
        hedge_us: 1,
        max_duplicates: 100.0,
        ..Options::default()
    });
    let mut queue = array.queue().unwrap();
    let (mut first, mut second) = ([0; 300], [0; 200]);
    let options = ReadOptions {
        deadline: Some(Duration::from_secs(60)),
        home: Some(2),
        never_hedge: true,
    };
    for _ in 0..20 {
        let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(queue.preadv(&mut parts, 5, &options).unwrap(), 500);
    }
    assert_eq!(first[..], replicas.content[5..305]);
    assert_eq!(second[..], replicas.content[305..505]);
    assert_eq!(array.replica_stats(2).unwrap().served, 20);
    assert_eq!(array.stats().hedges, 0);
    let error = queue.preadv(&mut [], 0, &options).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("n_iov is 0; it must be between 1 and 1024"),
        "{error}"
    );
}

#[test]
fn threads_read_with_queues_of_their_own() {
    let replicas = Replicas::new("threads");
    let array = replicas.open(&Options::default());
    thread::scope(|scope| {
        for t in 0..4 {
            let (array, content) = (&array, &replicas.content);
            scope.spawn(move || {
                let mut queue = array.queue().unwrap();
                let mut block = [0; 4096];
                for i in 0..500 {
                    let offset = (t * 7919 + i * 4096) % (BYTES - 4096);
                    assert_eq!(queue.pread(&mut block, offset as u64).unwrap(), 4096);
                    assert_eq!(block[..], content[offset..offset + 4096]);
                }
            });
        }
    });
    let stats = array.stats();
    assert_eq!((stats.reads, stats.failed, stats.in_flight), (2000, 0, 0));
}

#[test]
fn dropped_replica_gets_no_reads_until_restored() {
    let replicas = Replicas::new("drop");
    let array = replicas.open(&Options {
        home: Some(1),
        ..Options::default()
    });
    let mut queue = array.queue().unwrap();
    let mut buffer = [0; 64];
    array.drop_replica(1).unwrap();
    queue.pread(&mut buffer, 0).unwrap();
    assert_eq!(array.replica_stats(1).unwrap().served, 0);
    array.restore(1).unwrap();
    // The copy's completion is processed first.
    queue.pread(&mut buffer, 0).unwrap();
    assert_eq!(array.replica_stats(1).unwrap().served, 0);
    while array.replica_stats(1).unwrap().served == 0 {
        queue.pread(&mut buffer, 0).unwrap();
    }
    assert!(array.stats().probes > 0);
    array.set_model(1, None).unwrap();
    let error = array.set_model(1, Some(Path::new("/nowhere"))).unwrap_err();
    assert!(
        error.to_string().contains("linnapp train --kind latency"),
        "{error}"
    );
    assert_eq!(array.drop_replica(3).unwrap_err().code, 22);
}

#[test]
fn open_error_names_the_replica() {
    let open = |paths: &[Option<&Path>], models: &[Option<&Path>]| {
        Array::open_some(paths, models, &Options::default())
            .err()
            .unwrap()
    };
    let error = open(&[Some(Path::new("/nowhere"))], &[]);
    assert_eq!((error.code, error.is_late()), (2, false));
    assert_eq!(io::Error::from(error).kind(), io::ErrorKind::NotFound);
    let [a, b] = ["a", "b"].map(|name| Some(Path::new(name)));
    for (error, text) in [
        (open(&[None, None], &[]), "all 2 replicas are absent"),
        (
            open(&[Some(Path::new("a\0b"))], &[]),
            "a path with a NUL in it",
        ),
        (
            open(&[a, b], &[None]),
            "1 models for 2 replicas; give one for each",
        ),
    ] {
        assert!(error.to_string().contains(text), "{error}");
    }
}
