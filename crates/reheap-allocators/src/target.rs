//! The targets that reheap links for: 64-bit, little-endian; musl for executables, and musl and glibc for preloads.
//!
//! Cargo, the `cc` crate, Zig and GNU tools spell a triple in four ways. So reheap parses it once, here, and each
//! spelling has a function. To add an architecture, extend `reheap_elf::Architecture`; the compiler then names the
//! other places.

use std::fmt;
use std::str::FromStr;

pub use reheap_elf::Architecture;

/// A libc that reheap links with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    architecture: Architecture,
    libc: Libc,
}

impl Target {
    /// The target of an architecture and a libc.
    pub fn new(architecture: Architecture, libc: Libc) -> Target {
        Target { architecture, libc }
    }

    /// The musl target of an architecture.
    pub fn musl(architecture: Architecture) -> Target {
        Target::new(architecture, Libc::Musl)
    }

    /// The target of this machine with a libc; `None` on a processor that reheap does not know.
    pub fn of_this_machine(libc: Libc) -> Option<Target> {
        let architecture = Architecture::ALL
            .into_iter()
            .find(|known| known.name() == std::env::consts::ARCH)?;
        Some(Target::new(architecture, libc))
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
        match (self.architecture, self.libc) {
            (Architecture::X86_64, Libc::Musl) => "x86_64-unknown-linux-musl",
            (Architecture::X86_64, Libc::Glibc) => "x86_64-unknown-linux-gnu",
            (Architecture::Aarch64, Libc::Musl) => "aarch64-unknown-linux-musl",
            (Architecture::Aarch64, Libc::Glibc) => "aarch64-unknown-linux-gnu",
        }
    }

    /// As in the environment variables of the `cc` crate: `x86_64_unknown_linux_musl`.
    pub fn env_suffix(&self) -> String {
        self.triple().replace('-', "_")
    }

    /// The beginning of Cargo's variables for one target: `CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL`.
    pub fn cargo_env_prefix(&self) -> String {
        format!("CARGO_TARGET_{}", self.env_suffix().to_uppercase())
    }

    /// As the names of GNU cross compilers begin: `x86_64-linux-musl`.
    pub fn gnu_triple(&self) -> String {
        let environment = match self.libc {
            Libc::Musl => "musl",
            Libc::Glibc => "gnu",
        };
        format!("{}-linux-{environment}", self.architecture)
    }

    /// As `zig cc -target` spells it: `x86_64-linux-musl`, and `x86_64-linux-gnu.2.17` for glibc.
    ///
    /// Zig links for any version of glibc, and one library for the oldest that is in use serves all later ones. 2.17 is
    /// that of RHEL 7 and of the `manylinux2014` packages. It is also the first that has aarch64.
    pub fn zig_triple(&self) -> String {
        match self.libc {
            Libc::Musl => self.gnu_triple(),
            Libc::Glibc => format!("{}.{OLDEST_GLIBC}", self.gnu_triple()),
        }
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
    /// musl, but on a processor for which nobody has tried to build the allocators: 32-bit, big-endian or other.
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
    Architecture::ALL
        .map(|architecture| format!("`{}`", Target::musl(architecture)))
        .join(" and ")
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
        assert_eq!(
            target.cargo_env_prefix(),
            "CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL"
        );
        assert_eq!(target.gnu_triple(), "x86_64-linux-musl");
        assert_eq!(target.zig_triple(), "x86_64-linux-musl");
        let target = Target::new(Architecture::Aarch64, Libc::Glibc);
        assert_eq!(target.gnu_triple(), "aarch64-linux-gnu");
        assert_eq!(target.zig_triple(), "aarch64-linux-gnu.2.17");
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
    fn a_32_bit_musl_target_is_refused_as_not_supported_yet() {
        for triple in [
            "i686-unknown-linux-musl",
            "armv7-unknown-linux-musleabihf",
            "powerpc64-unknown-linux-musl",
        ] {
            let error = triple.parse::<Target>().unwrap_err();
            assert_eq!(
                error,
                TargetError::UnsupportedArchitecture {
                    triple: triple.into()
                }
            );
            assert!(error.to_string().contains("not supported yet"), "{error}");
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
