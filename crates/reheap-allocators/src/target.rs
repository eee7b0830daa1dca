//! The targets that reheap links for, in one table: musl for executables, and musl and glibc for preloads.
//!
//! Cargo, the `cc` crate, Zig and GNU tools spell a triple in four ways. So reheap parses it once, here, and each
//! spelling has a function. To add an architecture, extend `reheap_elf::Architecture` and the table below; then let
//! `missing_on` in the catalogue say which allocators do not build for it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

pub use reheap_elf::Architecture;

/// A libc that reheap links with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Libc {
    /// The musl libc.
    Musl,
    /// The GNU C library; for preloads only.
    Glibc,
}

impl fmt::Display for Libc {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Libc::Musl => "musl",
            Libc::Glibc => "glibc",
        })
    }
}

/// The oldest glibc that libraries for other machines run with.
pub const OLDEST_GLIBC: &str = "2.17";

/// A Rust target triple that reheap can link for.
///
/// Only musl targets are parsed from text, because users only name targets of static executables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    architecture: Architecture,
    libc: Libc,
}

/// How the targets of an architecture are spelled, and what differs between them.
struct Row {
    architecture: Architecture,
    /// rustc's triples.
    musl: &'static str,
    glibc: &'static str,
    /// The processor in the names of GNU's tools and of Zig's targets.
    gnu: &'static str,
    zig: &'static str,
    /// As `zig cc -mcpu` spells the oldest processor that rustc compiles for, where Zig's own choice is a newer one.
    zig_cpu: Option<&'static str>,
    /// What follows `musl` and `gnu` in them: Arm has an ABI for each way to pass floating-point numbers.
    abi: &'static str,
    /// What rustc links for musl without `-C target-feature=…crt-static`.
    rust_links: Default,
    /// The bits of the largest page that Linux has on it (`CONFIG_PAGE_SIZE_*`).
    page_bits: u32,
}

/// What rustc makes for a musl target if nobody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Default {
    StaticPrograms,
    DynamicPrograms,
}

const TABLE: [Row; Architecture::ALL.len()] = [
    Row {
        architecture: Architecture::X86_64,
        musl: "x86_64-unknown-linux-musl",
        glibc: "x86_64-unknown-linux-gnu",
        gnu: "x86_64",
        zig: "x86_64",
        zig_cpu: None,
        abi: "",
        rust_links: Default::StaticPrograms,
        page_bits: 12,
    },
    Row {
        architecture: Architecture::Aarch64,
        musl: "aarch64-unknown-linux-musl",
        glibc: "aarch64-unknown-linux-gnu",
        gnu: "aarch64",
        zig: "aarch64",
        zig_cpu: None,
        abi: "",
        rust_links: Default::StaticPrograms,
        page_bits: 16,
    },
    Row {
        architecture: Architecture::Riscv64,
        musl: "riscv64gc-unknown-linux-musl",
        glibc: "riscv64gc-unknown-linux-gnu",
        gnu: "riscv64",
        zig: "riscv64",
        zig_cpu: None,
        abi: "",
        rust_links: Default::DynamicPrograms,
        page_bits: 12,
    },
    Row {
        architecture: Architecture::Loongarch64,
        musl: "loongarch64-unknown-linux-musl",
        glibc: "loongarch64-unknown-linux-gnu",
        gnu: "loongarch64",
        zig: "loongarch64",
        zig_cpu: None,
        abi: "",
        rust_links: Default::DynamicPrograms,
        page_bits: 16,
    },
    Row {
        architecture: Architecture::Powerpc64le,
        musl: "powerpc64le-unknown-linux-musl",
        glibc: "powerpc64le-unknown-linux-gnu",
        gnu: "powerpc64le",
        zig: "powerpc64le",
        zig_cpu: None,
        abi: "",
        rust_links: Default::StaticPrograms,
        page_bits: 16,
    },
    Row {
        architecture: Architecture::I686,
        musl: "i686-unknown-linux-musl",
        glibc: "i686-unknown-linux-gnu",
        gnu: "i686",
        zig: "x86",
        zig_cpu: None,
        abi: "",
        rust_links: Default::StaticPrograms,
        page_bits: 12,
    },
    Row {
        architecture: Architecture::Armv7,
        musl: "armv7-unknown-linux-musleabihf",
        glibc: "armv7-unknown-linux-gnueabihf",
        gnu: "armv7",
        zig: "arm",
        // Not every ARMv7 has NEON, and Zig assumes it.
        zig_cpu: Some("generic+v7a+vfp3d16-neon-d32"),
        abi: "eabihf",
        rust_links: Default::StaticPrograms,
        page_bits: 12,
    },
];

impl Target {
    /// The target of an architecture and a libc.
    pub fn new(architecture: Architecture, libc: Libc) -> Target {
        Target { architecture, libc }
    }

    /// The musl target of an architecture.
    pub fn musl(architecture: Architecture) -> Target {
        Target::new(architecture, Libc::Musl)
    }

    /// The target of this machine with a libc; `None` on a processor that reheap does not run on.
    pub fn of_this_machine(libc: Libc) -> Option<Target> {
        let architecture = Architecture::WITH_PRELOADS
            .into_iter()
            .find(|known| known.name() == std::env::consts::ARCH)?;
        Some(Target::new(architecture, libc))
    }

    /// The musl target that somebody most likely meant by another triple: as GNU's tools or Zig spell it, or mistyped.
    pub fn meant_by(triple: &str) -> Option<Target> {
        Self::of_gnu(triple).or_else(|| Self::of_mistyped(triple))
    }

    /// The musl target that GNU's tools or Zig call so, such as `aarch64-linux-musl`.
    fn of_gnu(triple: &str) -> Option<Target> {
        let mut targets = Architecture::ALL.into_iter().map(Target::musl);
        targets.find(|target| [target.gnu_triple(), target.zig_triple()].contains(&triple.into()))
    }

    /// The musl target whose triple differs in one or two letters. `gnu` in place of `musl` is no such slip.
    fn of_mistyped(triple: &str) -> Option<Target> {
        let targets = Architecture::ALL.into_iter().map(Target::musl);
        let edits = |target: &Target| strsim::damerau_levenshtein(triple, target.triple());
        targets
            .min_by_key(edits)
            .filter(|target| edits(target) <= 2)
    }

    fn row(&self) -> &'static Row {
        let mut rows = TABLE.iter();
        let row = rows.find(|row| row.architecture == self.architecture);
        row.expect("a test finds every architecture in the table")
    }

    /// The libc.
    pub fn libc(&self) -> Libc {
        self.libc
    }

    /// The processor family.
    pub fn arch(&self) -> Architecture {
        self.architecture
    }

    /// As `rustc --target` and `rustup target add` spell it: `x86_64-unknown-linux-musl`.
    pub fn triple(&self) -> &'static str {
        match self.libc {
            Libc::Musl => self.row().musl,
            Libc::Glibc => self.row().glibc,
        }
    }

    /// As in the environment variables of the `cc` crate: `x86_64_unknown_linux_musl`.
    pub fn env_suffix(&self) -> String {
        self.triple().replace('-', "_")
    }

    /// As the names of GNU cross compilers begin: `x86_64-linux-musl`.
    pub fn gnu_triple(&self) -> String {
        self.gnu_triple_of_vendor("")
    }

    /// As the names of GNU cross compilers begin, with a vendor and a dash in it: `x86_64-alpine-linux-musl`.
    pub(crate) fn gnu_triple_of_vendor(&self, vendor: &str) -> String {
        format!("{}-{vendor}linux-{}", self.row().gnu, self.environment())
    }

    fn environment(&self) -> String {
        let libc = match self.libc {
            Libc::Musl => "musl",
            Libc::Glibc => "gnu",
        };
        format!("{libc}{}", self.row().abi)
    }

    /// As `zig cc -target` spells it: `x86_64-linux-musl`, and `x86_64-linux-gnu.2.17` for glibc.
    ///
    /// Zig links for any version of glibc, and one library for the oldest that is in use serves all later ones. 2.17 is
    /// that of RHEL 7 and of the `manylinux2014` packages. It is also the first that has aarch64.
    pub fn zig_triple(&self) -> String {
        let triple = format!("{}-linux-{}", self.row().zig, self.environment());
        match self.libc {
            Libc::Musl => triple,
            Libc::Glibc => format!("{triple}.{OLDEST_GLIBC}"),
        }
    }

    /// As `zig cc -mcpu` spells the processor, where Zig must be told.
    pub(crate) fn zig_cpu(&self) -> Option<&'static str> {
        self.row().zig_cpu
    }

    /// Whether rustc makes static programs for it without being told.
    pub fn is_static_by_default(&self) -> bool {
        self.row().rust_links == Default::StaticPrograms
    }

    /// The bits of the largest page that Linux has on this processor.
    pub(crate) fn page_bits(&self) -> u32 {
        self.row().page_bits
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.triple())
    }
}

/// Why a target triple cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The triple names a system whose programs are not linked with musl.
    #[error(
        "cannot link for `{triple}`: the target does not link with musl, and reheap builds static musl executables"
    )]
    NotMusl {
        /// The triple as it was given.
        triple: String,
    },
    /// musl, but on a processor for which nobody has tried to build the allocators: big-endian or other.
    #[error(
        "cannot link for `{triple}`: the target is not supported yet; reheap links for {}",
        supported_triples()
    )]
    UnsupportedArchitecture {
        /// The triple as it was given.
        triple: String,
    },
    /// Not a target triple at all.
    #[error(
        "cannot link for `{triple}`: it is not a target triple such as `x86_64-unknown-linux-musl`"
    )]
    NotATriple {
        /// The text as it was given.
        triple: String,
    },
}

fn supported_triples() -> String {
    let all = Architecture::ALL.map(|architecture| format!("`{}`", Target::musl(architecture)));
    let [first @ .., last] = &all;
    format!("{} and {last}", first.join(", "))
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(triple: &str) -> Result<Target, TargetError> {
        if let Some(architecture) = Architecture::ALL
            .into_iter()
            .find(|&a| Target::musl(a).triple() == triple)
        {
            return Ok(Target::musl(architecture));
        }
        let triple_text = || triple.to_owned();
        let parts: Vec<&str> = triple.split('-').collect();
        if parts.len() < 2 || parts.iter().any(|part| part.is_empty()) {
            return Err(TargetError::NotATriple {
                triple: triple_text(),
            });
        }
        // `musleabihf` and the like are musl too. `x86_64-alpine-linux-musl` is another vendor's target. rustc has no
        // start files and no libc for it, so reheap does not treat it as the supported one.
        if parts.last().is_some_and(|last| last.starts_with("musl")) {
            Err(TargetError::UnsupportedArchitecture {
                triple: triple_text(),
            })
        } else {
            Err(TargetError::NotMusl {
                triple: triple_text(),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_supported_triple_is_read_back_as_itself() {
        for architecture in Architecture::ALL {
            let target = Target::musl(architecture);
            assert_eq!(target.triple().parse(), Ok(target));
        }
    }

    #[test]
    fn each_program_gets_its_own_spelling() {
        let target = Target::musl(Architecture::X86_64);
        assert_eq!(target.triple(), "x86_64-unknown-linux-musl");
        assert_eq!(target.env_suffix(), "x86_64_unknown_linux_musl");
        assert_eq!(target.gnu_triple(), "x86_64-linux-musl");
        assert_eq!(target.zig_triple(), "x86_64-linux-musl");
        let target = Target::new(Architecture::Aarch64, Libc::Glibc);
        assert_eq!(target.gnu_triple(), "aarch64-linux-gnu");
        assert_eq!(target.zig_triple(), "aarch64-linux-gnu.2.17");
        let target = Target::musl(Architecture::Armv7);
        assert_eq!(target.gnu_triple(), "armv7-linux-musleabihf");
        assert_eq!(target.zig_triple(), "arm-linux-musleabihf");
        let target = Target::musl(Architecture::I686);
        assert_eq!(target.zig_triple(), "x86-linux-musl");
        for triple in ["i686-linux-musl", "x86-linux-musl"] {
            assert_eq!(Target::of_gnu(triple), Some(target));
        }
        assert_eq!(Target::of_gnu("i686-linux-gnu"), None);
    }

    #[test]
    fn a_mistyped_triple_is_near_what_was_meant() {
        for (triple, meant) in [
            ("x86_64-unknown-linux-mus", Some(Architecture::X86_64)),
            ("aarch64-unkown-linux-musl", Some(Architecture::Aarch64)),
            ("armv7-unknown-linux-musleabi", Some(Architecture::Armv7)),
            ("aarch64-linux-musl", Some(Architecture::Aarch64)),
            ("x86_64-unknown-linux-gnu", None),
            ("aarch64-apple-darwin", None),
            ("", None),
        ] {
            assert_eq!(
                Target::meant_by(triple),
                meant.map(Target::musl),
                "{triple}"
            );
        }
    }

    #[test]
    fn a_glibc_target_is_refused_with_what_reheap_makes() {
        let error = "x86_64-unknown-linux-gnu".parse::<Target>().unwrap_err();
        assert_eq!(
            error,
            TargetError::NotMusl {
                triple: "x86_64-unknown-linux-gnu".into()
            }
        );
        assert!(
            error.to_string().contains("static musl executables"),
            "{error}"
        );
    }

    #[test]
    fn a_musl_target_that_is_not_in_the_table_is_refused_as_not_supported_yet() {
        for triple in [
            "mips64-unknown-linux-muslabi64",
            "arm-unknown-linux-musleabihf",
            "powerpc64-unknown-linux-musl",
            "x86_64-alpine-linux-musl",
        ] {
            let error = triple.parse::<Target>().unwrap_err();
            assert_eq!(
                error,
                TargetError::UnsupportedArchitecture {
                    triple: triple.into()
                }
            );
            assert!(error.to_string().contains("not supported yet"), "{error}");
            assert!(
                error
                    .to_string()
                    .ends_with("`i686-unknown-linux-musl` and `armv7-unknown-linux-musleabihf`"),
                "{error}"
            );
        }
    }

    #[test]
    fn words_that_are_no_triple_are_called_so() {
        for word in ["", "musl", "-", "x86_64--musl"] {
            assert!(
                matches!(word.parse::<Target>(), Err(TargetError::NotATriple { .. })),
                "{word:?}"
            );
        }
    }
}
