//! A program that links a mimalloc of its own beside the one in the libc: their symbols and their threads must not
//! meet.
use mimalloc::MiMalloc;
use std::ffi::c_void;

#[global_allocator]
static GLOBAL: MiMalloc = MiMalloc;

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

fn use_both_heaps(seed: usize) -> usize {
    let mut total = 0;
    let mut from_c = Vec::new();
    for i in 0..2_000 {
        let text = "y".repeat((i * 7 + seed) % 300);
        total += text.len();
        // SAFETY: one byte of a block of at least one byte is written, and the block is freed once, below.
        unsafe {
            let block = malloc(text.len() + 1).cast::<u8>();
            assert!(!block.is_null());
            *block = 1;
            from_c.push(block);
        }
        if i % 3 == 0 {
            let block = from_c.swap_remove(i % from_c.len());
            // SAFETY: it came from malloc and is no longer in the list.
            unsafe { free(block.cast()) };
        }
    }
    for block in from_c {
        // SAFETY: as above.
        unsafe { free(block.cast()) };
    }
    total
}

fn main() {
    let threads: Vec<_> = (0..32)
        .map(|i| std::thread::spawn(move || use_both_heaps(i)))
        .collect();
    for (i, thread) in threads.into_iter().enumerate() {
        assert_eq!(
            thread.join().unwrap(),
            (0..2_000).map(|k| (k * 7 + i) % 300).sum::<usize>()
        );
    }
    println!("ok own_mimalloc");
}
