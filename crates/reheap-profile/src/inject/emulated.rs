//! Hooks in static programs for aarch64. qemu's user mode has no ptrace, so the program does itself what reheap would do in
//! it (`tests/programs/by_plan.c`): every byte and every address comes from here, as it would for ptrace.

use super::HooksLibrary;
use super::layout::{self, Layout};
use crate::emulated::{GCC, Workshop, ZIG, emulated, run_and_check};
use crate::recording::Recording;
use reheap_graft::{Processor, Protection, locate, prologue};
use reheap_proc::maps::Mapping;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What `by_plan.c` is to do.
#[derive(Default)]
struct Plan(Vec<u8>);

impl Plan {
    const MAP: u64 = 1;
    const WRITE: u64 = 2;
    const CALL: u64 = 6;
    const CODE: u64 = 7;

    fn protecting(protection: Protection) -> u64 {
        match protection {
            Protection::Read => 3,
            Protection::Write => 4,
            Protection::Execute => 5,
        }
    }

    fn step(&mut self, what: u64, address: u64, bytes: u64) {
        for word in [what, address, bytes] {
            self.0.extend(word.to_le_bytes());
        }
    }

    fn step_with(&mut self, what: u64, address: u64, bytes: &[u8]) {
        self.step(what, address, bytes.len() as u64);
        self.0.extend(bytes);
    }

    /// The steps of `at_start`, for an emulator.
    fn of(layout: &Layout, recording: &Path) -> Self {
        let mut plan = Self::default();
        plan.step(Self::MAP, layout.base, layout.bytes.len() as u64);
        plan.step_with(Self::WRITE, layout.base, &layout.bytes);
        for (range, protection) in &layout.protections {
            let bytes = range.end - range.start;
            plan.step(Self::protecting(*protection), range.start, bytes);
        }
        let path = [recording.as_os_str().as_bytes(), &[0]].concat();
        plan.step_with(Self::CALL, layout.attach, &path);
        for jump in layout.changes() {
            plan.step_with(Self::CODE, jump.address, &jump.jump);
        }
        plan
    }
}

/// Lays the hooks out for a program that is loaded where its file says.
fn laid_out(program: &Path, hooks: &Path, page_bytes: u64) -> Layout {
    let library = HooksLibrary::parse(&std::fs::read(hooks).expect("it was built"))
        .expect("the hooks can be injected");
    let bytes = std::fs::read(program).expect("it was built");
    let located = locate(&*bytes).expect("its functions are found");
    assert_eq!(located.processor, Processor::Aarch64);
    let image = Mapping {
        start: located.image.start,
        end: located.image.end,
        is_executable: true,
        offset: 0,
        inode: 0,
        path: PathBuf::new(),
        ..Mapping::default()
    };
    let token = layout::Token::default();
    let layout = layout::lay_out(&located, 0, &library, &[image], page_bytes, token);
    layout.expect("there is room")
}

fn run_with_jumps(compiler: &[&str], sources: &[&str], flags: &[&str], page_bytes: u64) -> Layout {
    let workshop = Workshop::new();
    let hooks = workshop.hooks(compiler);
    let flags = [flags, &["-static"]].concat();
    let program = workshop.program(&[&["emulated.c", "by_plan.c"], sources].concat(), &flags);
    let layout = laid_out(&program, &hooks, page_bytes);
    let recording = Recording::create(1 << 20, None).expect("there is memory");
    let plan: PathBuf = workshop.path("plan");
    let steps = Plan::of(&layout, &recording.path());
    std::fs::write(&plan, steps.0).expect("the directory is writable");
    run_and_check(&mut emulated(&program, &[("PLAN", &plan)]), &recording);
    layout
}

#[test]
fn jumps_lead_from_a_static_program_to_the_hooks_and_back() {
    const SMALL_PAGE: u64 = 4096;
    run_with_jumps(GCC, &[], &[], SMALL_PAGE);
}

/// An indirect call to a place without a landing pad would end the program, and so would a return to an address that is
/// signed twice.
#[test]
fn functions_with_landing_pads_and_signed_returns_are_hooked() {
    const LARGE_PAGE: u64 = 64 << 10;
    let flags = ["-mbranch-protection=standard"];
    let layout = run_with_jumps(ZIG, &["guarded_malloc.c"], &flags, LARGE_PAGE);
    let own = |name: &str| {
        let index = layout.hooked.iter().position(|hooked| hooked == name);
        &layout.jumps[index.expect("it is hooked")]
    };
    for name in ["malloc", "free", "calloc", "realloc"] {
        let original = &own(name).original;
        let taken = prologue::taken_bytes(Processor::Aarch64, original);
        assert_eq!((taken, original.len()), (8, 8), "{name}");
    }
}
