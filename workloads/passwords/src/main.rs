//! Threads that read random bytes and collect base64 strings, a million in all: passwords of 32 characters.
//!
//! The strings are kept until the end and freed by the main thread, so memory goes from one thread to another. The
//! random bytes come from the system in blocks: with a read for each password the system call would hide the allocator.

use std::fs::File;
use std::hint::black_box;
use std::io::{self, BufReader, Read};
use std::num::NonZeroU64;
use std::process::ExitCode;
use workload::{Arguments, Workload};

const RANDOM_BYTES: usize = 24; // 32 characters of six bits
const BLOCK_BYTES: usize = 1024 * RANDOM_BYTES;

const PASSWORDS: Workload = Workload {
    name: "passwords",
    about: "Makes random passwords of 32 characters on several threads and collects them.",
    operations: "passwords",
    amount: NonZeroU64::new(1_000_000).unwrap(),
    file: None,
};

fn main() -> ExitCode {
    workload::run(PASSWORDS, |arguments| {
        drop(black_box(collect(&arguments)?));
        Ok(None)
    })
}

fn collect(arguments: &Arguments) -> io::Result<Vec<String>> {
    let mut all = Vec::new();
    for mut share in arguments.on_threads(passwords)? {
        all.append(&mut share);
    }
    Ok(all)
}

fn passwords(amount: u64) -> io::Result<Vec<String>> {
    let mut random = BufReader::with_capacity(BLOCK_BYTES, File::open("/dev/urandom")?);
    (0..amount)
        .map(|_| {
            let mut bytes = vec![0; RANDOM_BYTES];
            random.read_exact(&mut bytes)?;
            Ok(base64(&bytes))
        })
        .collect()
}

/// Base64 without padding (RFC 4648, section 4), for a whole number of three-byte groups.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (groups, rest) = bytes.as_chunks::<3>();
    assert!(
        rest.is_empty(),
        "{} bytes are no whole number of groups",
        bytes.len()
    );
    let mut text = String::with_capacity(groups.len() * 4);
    for &[first, second, third] in groups {
        let bits = u32::from_be_bytes([0, first, second, third]);
        text.extend(
            [18, 12, 6, 0].map(|shift| char::from(ALPHABET[(bits >> shift & 63) as usize])),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn base64_gives_the_test_vector_of_rfc_4648() {
        assert_eq!(base64(b"foobar"), "Zm9vYmFy");
    }

    #[test]
    fn every_thread_adds_its_passwords_and_all_differ() {
        let arguments = Arguments {
            threads: 3.try_into().unwrap(),
            amount: NonZeroU64::new(1000).unwrap(),
            file: None,
        };
        let all = collect(&arguments).unwrap();
        assert_eq!(all.len(), 1000);
        assert!(all.iter().all(|password| password.len() == 32));
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 1000);
    }
}
