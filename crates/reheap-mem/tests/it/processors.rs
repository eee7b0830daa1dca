//! Runs the functions on other processors: what an old one does not have is not executed there.
//!
//! The functions choose by CPUID, so nothing but such a processor shows that they choose right. QEMU plays it: an
//! instruction that it does not have kills the program.
#![cfg(target_arch = "x86_64")]

use crate::common::assembled::*;
use crate::common::numbered;
use std::process::Command;

/// The level that is to be found, for the test that runs on another processor.
const EXPECTED_LEVEL: &str = "REHEAP_TEST_LEVEL";
const SAMPLE: &str = "processors::a_sample_of_everything_at_the_level_that_was_found";

#[test]
fn a_sample_of_everything_at_the_level_that_was_found() {
    let chosen = Chosen::alone();
    let level = chosen.found();
    if let Ok(expected) = std::env::var(EXPECTED_LEVEL) {
        assert_eq!(level.wide.to_string(), expected);
    }
    let counts = (0..600).chain([1000, 2048, 4095, 4097, 8192, 20_000, 1 << 20, 5 << 20]);
    for count in counts {
        let source = numbered(count);
        let mut block = vec![0; count + 40];
        memcpy(&mut block[3..][..count], &source);
        assert!(block[3..][..count] == source);
        memmove(&mut block, 20, 3, count);
        assert!(block[20..][..count] == source);
        memmove(&mut block, 1, 20, count);
        assert!(block[1..][..count] == source);
        assert_eq!(memcmp(&block[1..][..count], &source), 0);
        assert_eq!(bcmp(&block[1..][..count], &source), 0);

        let string = &mut block[5..][..count + 1];
        memset(string, b'x'.into());
        string[count] = 0;
        assert_eq!(strlen(string), count);
        assert_eq!(strnlen(string, count / 2), count / 2);
        assert_eq!(memchr(string, 0), Some(count));
        assert_eq!(rawmemchr(string, 0), count);
        assert_eq!(memrchr(string, b'y'.into()), None);
        assert_eq!(strchr(string, b'y'.into()), None);
        assert_eq!(strchrnul(string, b'y'.into()), count);
        let mut copy = vec![1; count + 1];
        assert_eq!(stpcpy(&mut copy, string), count);
        assert_eq!(strcmp(&copy, string), 0);
        assert_eq!(strncmp(&copy, string, count), 0);
        assert_eq!(strncasecmp(&copy, string, count), 0);
        assert_eq!(memmem(string, b"x\0"), count.checked_sub(1));
        assert_eq!(strstr(&copy, string), Some(0));
        let mut room = vec![0; count + 1];
        strncat(&mut room, &copy, usize::MAX);
        assert_eq!(memccpy(&mut room, &copy, 0, usize::MAX), Some(count + 1));
        let mut characters = vec![0; count];
        wmemset(&mut characters, 0x1234);
        assert_eq!(wmemcmp(&characters, &characters.clone()), 0);
        assert_eq!(strspn(&copy, b"xy\0"), count);
        assert_eq!(strspn(&copy, b"uvwxyz\0"), count);
        assert_eq!(strcspn(&copy, b"yz\0"), count);
        assert_eq!(strcspn(&copy, b"uvwyz\0"), count);
        copy.make_ascii_uppercase();
        assert_eq!(strcasecmp(&copy, string), 0);
        assert_eq!(strcasestr(&copy, string), Some(0));
        assert_eq!(stpncpy(&mut copy, string), count);
        assert!(copy == *string);
    }
}

/// Runs the sample under another program.
#[track_caller]
fn sample_under(command: &str, expected_level: u8) {
    let mut words = command.split(' ');
    let program = words.next().unwrap();
    let output = Command::new(program)
        .args(words)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", SAMPLE, "--test-threads=1"])
        .env(EXPECTED_LEVEL, expected_level.to_string())
        .output()
        .unwrap_or_else(|error| {
            panic!("cannot start `{program}`: {error}; `xtask/prepare install` installs what the tests need")
        });
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && printed.contains("1 passed"),
        "{command}: {}\n{printed}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_processor_with_little_more_than_sse2_gets_nothing_else() {
    sample_under("qemu-x86_64 -cpu core2duo", 0);
    sample_under("qemu-x86_64 -cpu Nehalem", 0);
}

#[test]
fn a_processor_with_avx2_gets_it_and_nothing_newer() {
    sample_under("qemu-x86_64 -cpu Haswell", 1);
}

#[test]
fn avx2_is_left_alone_where_not_all_is_there_that_its_code_needs() {
    sample_under("qemu-x86_64 -cpu Haswell,-xsave", 0);
    sample_under("qemu-x86_64 -cpu Haswell,-avx2", 0);
    sample_under("qemu-x86_64 -cpu Haswell,-abm", 0);
}

#[test]
fn valgrind_knows_every_instruction() {
    let avx2 = std::arch::is_x86_feature_detected!("avx2");
    sample_under("valgrind --tool=none", avx2.into()); // which knows no AVX-512
}
