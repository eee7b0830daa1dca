//! Programs whose files are cut off or changed give fewer frames and names, and no failure.

use crate::workshop::{Sample, Workshop};
use proptest::prelude::*;
use reheap_profile::stacks::{Captured, Modules, Processor, Registers, Symbols, Unwinder};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Small programs with all that is read: unwind tables, symbols, DWARF, compressed and not.
static PROGRAMS: LazyLock<Vec<(Vec<u8>, Sample, PathBuf)>> = LazyLock::new(|| {
    [
        ("gcc", "frames.c", &["-O2", "-g", "-DTHROUGH_LIBC"][..]),
        ("gcc", "frames.c", &["-O2", "-gz", "-g3"]),
        ("g++", "classes.cc", &["-O2", "-g", "-gdwarf-4"]),
        ("gcc", "frames.c", &["-O2", "-g", "-Wl,--no-eh-frame-hdr"]),
        (
            "aarch64-linux-gnu-gcc",
            "frames.c",
            &["-O2", "-g", "-mbranch-protection=standard"],
        ),
    ]
    .into_iter()
    .map(|(compiler, source, flags)| {
        let workshop = Workshop::new();
        let program = workshop.compile(compiler, source, flags);
        let sample = if compiler.starts_with("aarch64") {
            workshop.run_aarch64(&program, &["3"]).remove(0)
        } else {
            workshop.run(&program, &["3"]).remove(0)
        };
        (
            std::fs::read(&program).expect("it is there"),
            sample,
            program,
        )
    })
    .collect()
});

/// Unwinds and names with other bytes in place of the program.
fn look_at(bytes: &[u8], sample: &Sample, program: &std::path::Path) -> usize {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), bytes).expect("it can be written");
    let inode = file.as_file().metadata().expect("it is open").ino();
    // The same maps, but of this file.
    let maps: Vec<u8> = String::from_utf8_lossy(&sample.maps)
        .lines()
        .map(|line| match line.find(program.to_str().expect("UTF-8")) {
            Some(path) => {
                let fields: Vec<&str> = line[..path].split_whitespace().collect();
                format!(
                    "{} {} {inode} {}\n",
                    fields[..3].join(" "),
                    fields[3],
                    file.path().display()
                )
            }
            None => format!("{line}\n"),
        })
        .collect::<String>()
        .into_bytes();
    let mut modules = Modules::new();
    let mut unwinder = Unwinder::from_maps(&mut modules, sample.machine, &maps, None);
    let captured = sample.captured();
    let stack = unwinder.unwind(&mut modules, &captured.registers, captured.stack);
    let mut symbols = Symbols::with_debug_directory("/nonexistent".into());
    let frames = stack
        .addresses
        .iter()
        .map(|address| symbols.frames(&modules, *address));
    frames
        .map(|frames| {
            frames
                .iter()
                .filter(|frame| !frame.function.starts_with("0x"))
                .count()
        })
        .sum()
}

#[test]
fn undamaged_files_are_read_as_this_test_believes() {
    for (bytes, sample, program) in PROGRAMS.iter() {
        assert!(
            look_at(bytes, sample, program) >= 4,
            "{}",
            program.display()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_file_that_is_cut_off_makes_nothing_fail(which in 0..5_usize, cut in 0.0..1.0_f64) {
        let (bytes, sample, program) = &PROGRAMS[which];
        look_at(&bytes[..(bytes.len() as f64 * cut) as usize], sample, program);
    }

    #[test]
    fn changed_bytes_make_nothing_fail(
        which in 0..5_usize,
        changes in prop::collection::vec((0.0..1.0_f64, any::<u8>()), 1..200),
    ) {
        let (bytes, sample, program) = &PROGRAMS[which];
        let mut bytes = bytes.clone();
        for (at, value) in changes {
            let at = (bytes.len() as f64 * at) as usize;
            bytes[at] = value;
        }
        look_at(&bytes, sample, program);
    }

    #[test]
    fn changed_headers_make_nothing_fail(
        which in 0..5_usize,
        changes in prop::collection::vec((0..1000_usize, any::<u8>(), any::<bool>()), 1..8),
    ) {
        let (bytes, sample, program) = &PROGRAMS[which];
        let mut bytes = bytes.clone();
        // Those of the file and of segments are at the beginning, those of sections at the end.
        for (at, value, of_sections) in changes {
            let at = if of_sections { bytes.len() - 1 - at * 2 } else { at };
            bytes[at] = value;
        }
        look_at(&bytes, sample, program);
    }

    #[test]
    fn any_registers_and_stack_have_an_end(
        which in 0..5_usize,
        registers: [u64; 3],
        within in prop::collection::vec(any::<u16>(), 0..300),
    ) {
        let (_, sample, _) = &PROGRAMS[which];
        let mut modules = Modules::new();
        let mut unwinder = Unwinder::from_maps(&mut modules, sample.machine, &sample.maps, None);
        unwinder.unwind(&mut modules, &Registers::parse(registers), &[]);
        // Code addresses near the real one, and stack addresses near the stack pointer.
        let real = sample.captured().registers;
        let stack: Vec<u8> = within
            .iter()
            .map(|value| if value % 2 == 0 { real.program_counter } else { real.stack_pointer }.wrapping_add(u64::from(value / 8)))
            .flat_map(u64::to_le_bytes)
            .collect();
        let end = unwinder.unwind(&mut modules, &real, &stack);
        prop_assert!(end.addresses.len() <= reheap_profile::stacks::FRAMES_MAX);
    }

    #[test]
    fn any_bytes_are_a_capture_or_none(bytes: Vec<u8>) {
        if let Some(captured) = Captured::parse(&bytes) {
            let mut modules = Modules::new();
            let mut unwinder = Unwinder::from_maps(&mut modules, Processor::X86_64, &bytes, None);
            unwinder.unwind(&mut modules, &captured.registers, captured.stack);
        }
    }
}
