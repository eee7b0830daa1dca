//! A program with much C in it: zstd allocates with malloc, in threads that it makes itself.
use std::io::{Read as _, Write as _};

fn text(lines: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for i in 0..lines {
        writeln!(
            text,
            "line {i} of a text with some {} repetition",
            i * i % 977
        )
        .expect("a Vec takes all");
    }
    text
}

fn round_trip(original: &[u8], level: i32, workers: u32) {
    let mut encoder = zstd::Encoder::new(Vec::new(), level).expect("an encoder");
    encoder.multithread(workers).expect("zstdmt is on");
    encoder.write_all(original).expect("compressed");
    let compressed = encoder.finish().expect("finished");
    assert!(compressed.len() * 2 < original.len());
    let mut restored = Vec::new();
    zstd::Decoder::new(&*compressed)
        .expect("a decoder")
        .read_to_end(&mut restored)
        .expect("decompressed");
    assert!(restored == original);
}

fn main() {
    let original = text(200_000);
    for level in [1, 3, 9] {
        for workers in [0, 1, 4] {
            round_trip(&original, level, workers);
        }
    }
    let threads: Vec<_> = (0..16)
        .map(|i| std::thread::spawn(move || round_trip(&text(2_000 + i), 5, 0)))
        .collect();
    for thread in threads {
        thread.join().expect("each thread succeeds");
    }
    println!("ok compressor");
}
