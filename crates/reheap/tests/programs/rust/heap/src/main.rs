//! What Rust's standard library does with the heap, without any dependency.
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::c_void;
use std::hint::black_box;
use std::net::ToSocketAddrs as _;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

const THREADS: usize = 64;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
    fn malloc_usable_size(block: *mut c_void) -> usize;
}

/// The C function; `realloc` is taken by `std::alloc`.
mod c {
    unsafe extern "C" {
        pub fn realloc(block: *mut std::ffi::c_void, size: usize) -> *mut std::ffi::c_void;
    }
}

fn expected_byte(offset: usize, seed: usize) -> u8 {
    (offset * 31 + offset / 251 + seed) as u8
}

fn every_layout_is_served() {
    let sizes = [
        1, 7, 8, 15, 16, 17, 24, 100, 1000, 4096, 5000, 70_000, 1_500_000,
    ];
    for alignment in (0..=20).map(|power| 1usize << power) {
        for size in sizes {
            let layout = Layout::from_size_align(size, alignment).unwrap();
            let larger = size * 3;
            // SAFETY: the layouts are not empty, and each block is used within its size and freed once, with its
            // layout.
            unsafe {
                let block = alloc(layout);
                let zeroed = alloc_zeroed(layout);
                assert!(!block.is_null() && !zeroed.is_null());
                assert_eq!(block as usize % alignment, 0);
                assert_eq!(zeroed as usize % alignment, 0);
                for i in 0..size {
                    assert_eq!(*zeroed.add(i), 0);
                    *zeroed.add(i) = 0xff;
                    *block.add(i) = expected_byte(i, alignment);
                }
                let block = realloc(block, layout, larger);
                assert!(!block.is_null());
                assert_eq!(block as usize % alignment, 0, "alignment survives realloc");
                for i in 0..size {
                    assert_eq!(*block.add(i), expected_byte(i, alignment));
                }
                let larger_layout = Layout::from_size_align(larger, alignment).unwrap();
                let half = size.div_ceil(2);
                let block = realloc(block, larger_layout, half);
                for i in 0..half {
                    assert_eq!(*block.add(i), expected_byte(i, alignment));
                }
                dealloc(block, Layout::from_size_align(half, alignment).unwrap());
                dealloc(zeroed, layout);
            }
        }
    }
}

fn what_cannot_be_had_is_refused() {
    for alignment in [1, 16, 64, 4096, 1 << 20] {
        let layout =
            Layout::from_size_align(isize::MAX as usize & !((1 << 20) - 1), alignment).unwrap();
        // SAFETY: the layout is not empty; nothing is done with the result. The compiler may assume that an allocation
        // which it removes succeeds, hence the black boxes.
        unsafe {
            assert!(black_box(alloc(black_box(layout))).is_null());
            assert!(black_box(alloc_zeroed(black_box(layout))).is_null());
        }
    }
    let mut bytes = vec![1u8; 100];
    assert!(bytes.try_reserve_exact(isize::MAX as usize - 4096).is_err());
    assert_eq!(bytes, [1; 100]);
}

/// On musl `System` is malloc, so C code in the same program has the same heap.
fn c_and_rust_share_the_heap() {
    let boxed: Box<[u8]> = vec![7; 1234].into_boxed_slice();
    let raw = Box::into_raw(boxed);
    // SAFETY: `raw` came from the global allocator, which is malloc here; it is not used as a box again.
    unsafe {
        let block = raw.cast::<c_void>();
        assert!(malloc_usable_size(block) >= 1234);
        let grown = c::realloc(block, 5000).cast::<u8>();
        assert_eq!(*grown.add(1233), 7);
        free(grown.cast());
        let from_c = malloc(64).cast::<u64>();
        from_c.write(42);
        assert_eq!(*Box::from_raw(from_c), 42);
    }
}

fn collections_grow() {
    let mut numbers = Vec::new();
    for i in 0..12_000_000u64 {
        numbers.push(i);
    }
    assert!(numbers.iter().enumerate().all(|(i, &n)| i as u64 == n));
    numbers.truncate(10);
    numbers.shrink_to_fit();
    assert_eq!(numbers, (0..10).collect::<Vec<u64>>());

    let mut hashed = HashMap::new();
    let mut ordered = BTreeMap::new();
    let mut queue = VecDeque::new();
    for i in 0..100_000usize {
        let key = format!("key {}", i % 5_000);
        *hashed.entry(key.clone()).or_insert(0usize) += i;
        ordered.entry(key.clone()).or_insert_with(Vec::new).push(i);
        queue.push_back(key);
        if queue.len() > 1_000 {
            queue.pop_front();
        }
    }
    assert_eq!(hashed.len(), 5_000);
    for (key, values) in &ordered {
        assert_eq!(hashed[key], values.iter().sum::<usize>());
    }
}

fn threads_drop_what_others_made() {
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..THREADS).map(|_| mpsc::channel::<Vec<String>>()).unzip();
    let senders = Arc::new(senders);
    let threads: Vec<_> = receivers
        .into_iter()
        .enumerate()
        .map(|(own, receiver)| {
            let senders = Arc::clone(&senders);
            thread::spawn(move || {
                for round in 0..200 {
                    let texts = (0..20)
                        .map(|k| "x".repeat((own * 7 + round * 13 + k * 31) % 2_000))
                        .collect();
                    senders[(own + round) % THREADS].send(texts).unwrap();
                }
                drop(senders);
                receiver
                    .iter()
                    .take(200)
                    .map(|texts| texts.iter().map(String::len).sum::<usize>())
                    .sum::<usize>()
            })
        })
        .collect();
    drop(senders);
    let received: usize = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    let sent: usize = (0..THREADS)
        .flat_map(|own| {
            (0..200).flat_map(move |round| {
                (0..20).map(move |k| (own * 7 + round * 13 + k * 31) % 2_000)
            })
        })
        .sum();
    assert_eq!(received, sent);
}

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct AllocatesInDrop(Vec<String>);

impl Drop for AllocatesInDrop {
    fn drop(&mut self) {
        for text in &mut self.0 {
            *text = format!("{text} and more than was there before");
        }
        self.0.push("one more".repeat(1_000));
        LATE.try_with(|late| late.borrow_mut().push(Box::new([1; 500])))
            .ok();
        DROPPED.fetch_add(self.0.len(), Ordering::SeqCst);
    }
}

thread_local! {
    static IN_THREAD: RefCell<Option<AllocatesInDrop>> = const { RefCell::new(None) };
    static LATE: RefCell<Vec<Box<[u8; 500]>>> = const { RefCell::new(Vec::new()) };
}

fn thread_local_destructors_allocate() {
    let together = Arc::new(Barrier::new(THREADS));
    let threads: Vec<_> = (0..THREADS)
        .map(|i| {
            let together = Arc::clone(&together);
            thread::spawn(move || {
                IN_THREAD.set(Some(AllocatesInDrop(vec!["text".to_owned(); i])));
                together.wait(); // all of them end at once
                Box::new([i; 100])
            })
        })
        .collect();
    for (i, thread) in threads.into_iter().enumerate() {
        assert_eq!(*thread.join().unwrap(), [i; 100]);
    }
    assert_eq!(
        DROPPED.load(Ordering::SeqCst),
        (0..THREADS).map(|i| i + 1).sum()
    );
}

fn many_short_threads_come_and_go() {
    for round in 0..20 {
        let total: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|i| {
                    scope.spawn(move || {
                        (0..50)
                            .map(|k| vec![0u8; i * k + round].len())
                            .sum::<usize>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(
            total,
            (0..THREADS)
                .map(|i| (0..50).map(|k| i * k + round).sum::<usize>())
                .sum()
        );
    }
}

fn the_operating_system_side_works() {
    let output = Command::new("/bin/sh")
        .args(["-c", "echo from a child"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"from a child\n");
    // pre_exec or a changed directory make std fork instead of posix_spawn
    let output = Command::new("/bin/sh")
        .args(["-c", "pwd"])
        .current_dir("/")
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"/\n");
    let addresses: Vec<_> = ("localhost", 80).to_socket_addrs().unwrap().collect();
    assert!(addresses.iter().all(|address| address.ip().is_loopback()) && !addresses.is_empty());
    assert!(std::fs::read_dir("/").unwrap().count() > 0);
    assert!(
        !std::backtrace::Backtrace::force_capture()
            .to_string()
            .is_empty()
    );
}

#[cfg(panic = "unwind")]
fn panics_unwind_through_allocations() {
    std::panic::set_hook(Box::new(|_| {}));
    let caught: Vec<_> = (0..500usize)
        .map(|i| {
            std::panic::catch_unwind(|| {
                let held: Vec<String> = (0..i % 20).map(|k| "held".repeat(k)).collect();
                std::panic::panic_any(held.len());
            })
        })
        .collect();
    let panicked = thread::spawn(|| std::panic::panic_any(vec![1u8; 3_000])).join();
    let _ = std::panic::take_hook();
    for (i, caught) in caught.into_iter().enumerate() {
        assert_eq!(*caught.unwrap_err().downcast::<usize>().unwrap(), i % 20);
    }
    let payload = panicked.unwrap_err().downcast::<Vec<u8>>().unwrap();
    assert_eq!(*payload, [1; 3_000]);
}

#[cfg(not(panic = "unwind"))]
fn panics_unwind_through_allocations() {}

fn main() {
    every_layout_is_served();
    what_cannot_be_had_is_refused();
    c_and_rust_share_the_heap();
    collections_grow();
    threads_drop_what_others_made();
    thread_local_destructors_allocate();
    many_short_threads_come_and_go();
    the_operating_system_side_works();
    panics_unwind_through_allocations();
    println!("ok heap");
}
