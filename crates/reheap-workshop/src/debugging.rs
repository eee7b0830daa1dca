//! glibc's own debugging of its heap: `-a stock -t debug=…`.
//!
//! Since glibc 2.34 the checks are in a library of their own. glibc ignores the tunable for them unless that library is
//! preloaded, and does not say so. It also ignores the tunable for memory tagging where the processor cannot tag memory.
//! So this file looks for both before the program starts. Nor does glibc say so if the program has its blocks from another
//! allocator.

use reheap_allocators::probe::GLIBC_CHECKS;
use reheap_allocators::target::{Libc, Target};
use reheap_command::choice::Choice;
use reheap_command::ui::Failure;
use reheap_subject::program::{Obstacle, Program, Remark, libraries_of_this_system};
use std::path::{Path, PathBuf};

/// Why a program cannot have it.
pub struct Unavailable {
    /// Why it cannot be.
    pub reason: &'static str,
    /// What to do about it.
    pub way_out: Option<&'static str>,
}

/// The library to preload; `None` if the choice needs none.
pub fn library(choice: &Choice, program: &Program) -> Result<Option<PathBuf>, Unavailable> {
    let given = choice.tuning.as_given();
    match given.get("debug").map(String::as_str) {
        Some("check" | "full") if program.identity.interpreter.is_none() => Err(Unavailable {
            reason: "glibc's checks are in a library, and the program is static",
            way_out: None,
        }),
        Some("check" | "full") if program.target().is_some_and(has_musl) => Err(Unavailable {
            reason: "the program has musl's allocator",
            way_out: None,
        }),
        Some("check" | "full") => {
            let file = &program.route.file;
            let libraries = libraries_of_this_system();
            let closure = libraries.closure(file, Libc::Glibc);
            let found = libraries.find_preload(GLIBC_CHECKS, &closure, Libc::Glibc);
            found.map(Some).ok_or(Unavailable {
                reason: "`libc_malloc_debug.so.0`, which has glibc's checks, is not on this system",
                way_out: Some(
                    "glibc 2.34 and later have it: in the package libc6 of Debian and Ubuntu, glibc-utils of Fedora",
                ),
            })
        }
        Some("tagging") if !can_tag_memory() => Err(Unavailable {
            reason: "this processor cannot tag memory (AArch64 MTE)",
            way_out: Some("use `-t debug=full`"),
        }),
        _ => Ok(None),
    }
}

/// Why glibc's options do nothing for a program: it has its blocks from another allocator. A preload comes before
/// libraries that the program is linked with, but not before its own code.
pub fn blocks_from_elsewhere(program: &Program, preloaded: Option<&Path>) -> Option<String> {
    let own = program
        .obstacles()
        .into_iter()
        .find_map(|obstacle| match obstacle {
            Obstacle::OwnAllocator(what) => Some(what),
            _ => None,
        });
    let linked = program.remarks().iter().find_map(|remark| match remark {
        Remark::Idle { library, .. } if preloaded.is_none() => Some(format!(
            "it takes malloc from `{library}`, which it is linked with: the options of `stock` would do nothing"
        )),
        _ => None,
    });
    own.or(linked)
}

fn has_musl(target: Target) -> bool {
    target.libc() == Libc::Musl
}

/// AArch64 kernels say so in AT_HWCAP2 (arch/arm64/include/uapi/asm/hwcap.h, HWCAP2_MTE).
fn can_tag_memory() -> bool {
    const MTE: usize = 1 << 18;
    cfg!(target_arch = "aarch64") && rustix::param::linux_hwcap().1 & MTE != 0
}

impl Unavailable {
    /// The reason and the way out in one line.
    pub fn in_a_line(&self) -> String {
        match self.way_out {
            Some(way_out) => format!("{} ({way_out})", self.reason),
            None => self.reason.to_owned(),
        }
    }
}

impl From<Unavailable> for Failure {
    fn from(why: Unavailable) -> Self {
        let failure = Self::failed(format!("cannot debug glibc's heap: {}", why.reason));
        match why.way_out {
            Some(way_out) => failure.hint(way_out),
            None => failure,
        }
    }
}
