//! A program with a `#[global_allocator]` of its own keeps it; what C functions allocate is another matter.
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to `System` as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::SeqCst);
        LIVE_BYTES.fetch_add(layout.size(), Ordering::SeqCst);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::SeqCst);
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

fn main() {
    let calls_before = CALLS.load(Ordering::SeqCst);
    let live_before = LIVE_BYTES.load(Ordering::SeqCst);
    let kept = vec![1u8; 1_000_000];
    let threads: Vec<_> = (0..16)
        .map(|i| {
            std::thread::spawn(move || {
                (0..1_000)
                    .map(|k| "x".repeat(k % 50 + i))
                    .map(|s| s.len())
                    .sum::<usize>()
            })
        })
        .collect();
    for (i, thread) in threads.into_iter().enumerate() {
        assert_eq!(
            thread.join().unwrap(),
            20 * (0..50).map(|k| k + i).sum::<usize>()
        );
    }
    assert!(CALLS.load(Ordering::SeqCst) >= calls_before + 15_000);
    assert!(LIVE_BYTES.load(Ordering::SeqCst) >= live_before + kept.len());
    println!("ok own_global_allocator");
}
