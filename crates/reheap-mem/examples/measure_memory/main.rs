//! How long the memory functions take: reheap's, musl's and glibc's, in one process.
//!
//! One row of CSV for each function, size and placement, with the nanoseconds of one call. What the machine does beside
//! can only make a call slower, so the fastest of many batches is what the function costs; the batches of the variants
//! take turns, so that none of them has the quiet seconds for itself.
//!
//! ```text
//! cargo run --release -p reheap-mem --example measure_memory -- --musl <libc.a> [function…] > memory-functions.csv
//! ```
//!
//! On a processor with AVX-512, `--avx2` shows what one without it gets; glibc is told the same by
//! `GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW`.
#![allow(clippy::print_stdout, reason = "a program whose output is its table")]

#[path = "../../tests/it/common/assembled.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod assembled;
mod functions;
mod placement;

use functions::{Function, Variants};
use placement::{Placement, Room};
use std::time::{Duration, Instant};

/// How long a batch of calls takes at least, so that reading the clock does not count.
const BATCH: Duration = Duration::from_micros(12);
const BATCHES: usize = 60;

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    #[cfg(target_arch = "x86_64")]
    let mut chosen = assembled::Chosen::alone();
    #[cfg(target_arch = "x86_64")]
    if arguments.next_if_eq("--avx2").is_some() {
        let found = chosen.found();
        chosen.set(assembled::Level {
            wide: 1,
            search: 1,
            ..found
        });
    }
    let usage = "usage: measure_memory [--avx2] --musl <libc.a> [function…]";
    assert_eq!(arguments.next().as_deref(), Some("--musl"), "{usage}");
    let variants = Variants::load(arguments.next().expect(usage).as_ref());
    let wanted: Vec<String> = arguments.collect();
    let mut room = Room::new();
    println!("function,size,placement,reheap_ns,musl_ns,glibc_ns,batches");
    for function in functions::ALL {
        if !wanted.is_empty() && !wanted.iter().any(|name| name == function.name) {
            continue;
        }
        let plain = sizes(function).map(|size| (size, Placement::Spread));
        let mixed = [64, 256, 1024].map(|size| (size, Placement::Mixed));
        for (size, placement) in plain.chain(mixed) {
            measure(function, size, placement, &variants, &mut room);
        }
    }
}

/// 1 to 64 each, then four for every doubling.
fn sizes(function: &Function) -> impl Iterator<Item = usize> {
    let larger =
        (6..26).flat_map(|bits| (1..=4).map(move |part| (1 << bits) + (part << (bits - 2))));
    let largest = function.largest_size;
    (1..=64).chain(larger).filter(move |&size| size <= largest)
}

fn measure(
    function: &Function,
    size: usize,
    placement: Placement,
    variants: &Variants,
    room: &mut Room,
) {
    let calls = room.prepare(function, size, placement);
    let candidates = variants.of(function);
    let mut fastest = [f64::INFINITY; 3];
    // A large block is one call, and slow enough that few are measured.
    let mut batches = BATCHES;
    let mut repeat = [1; 3];
    for (variant, repeat) in candidates.iter().zip(&mut repeat) {
        let Some(variant) = variant else { continue };
        loop {
            let took = variant.run(&calls, *repeat);
            if took >= BATCH {
                batches =
                    batches.min(((400_000_000 / took.as_nanos()) as usize).clamp(15, BATCHES));
                break;
            }
            *repeat *= 2;
        }
    }
    for _ in 0..batches {
        for ((variant, fastest), &repeat) in candidates.iter().zip(&mut fastest).zip(&repeat) {
            if let Some(variant) = variant {
                let seconds = variant.run(&calls, repeat).as_secs_f64() / f64::from(repeat);
                *fastest = fastest.min(seconds);
            }
        }
    }
    let columns = fastest.map(|seconds| {
        if seconds.is_finite() {
            format!("{:.3}", seconds * 1e9 / calls.len() as f64)
        } else {
            String::new() // a function that this library does not have
        }
    });
    println!(
        "{},{size},{placement},{},{batches}",
        function.name,
        columns.join(",")
    );
}

impl functions::Candidate {
    /// Times all calls, so many times over. All variants go through this one loop: of two copies of it, one would lie
    /// better in the cache, and a cycle counts.
    #[inline(never)]
    fn run(&self, calls: &[functions::Call], repeat: u32) -> Duration {
        let start = Instant::now();
        for _ in 0..repeat {
            for call in calls {
                self.call(*call);
            }
        }
        start.elapsed()
    }
}
