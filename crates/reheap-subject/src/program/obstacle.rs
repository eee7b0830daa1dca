//! Says what keeps a preload out of a program, what to do instead, and what to know when nothing does.
//!
//! All callers get the same verdict: `run` and its `--check`, `bench`, `recommend`, and the census of `enable`.

use super::Privilege;
use super::libraries::Libraries;
use super::linked::{self, Linked};
use reheap_allocators::target::Libc;
use reheap_elf::family;
use reheap_elf::identify::{
    Confidence, FoundAllocator, Identity, Kind, LibcName, Provider, Role, RustGlobalAllocator,
};
use std::fmt;
use std::path::Path;

/// Something that keeps a preload from working.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// No dynamic linker starts it.
    Static(LinkAgain),
    /// It unpacks another program in its own memory.
    Packed,
    /// It can start like a program, but is something else.
    NotAProgram(Kind),
    /// It runs in secure mode.
    Privileged(Privilege),
    /// reheap has no libraries for its libc.
    OtherLibc(String),
    /// It is for another processor than this one.
    OtherArchitecture(String),
    /// It has its own allocator, and keeps using it for some or all of its blocks.
    OwnAllocator(String),
    /// Another preload has its own malloc.
    OtherPreload {
        /// What names it: `LD_PRELOAD` or `/etc/ld.so.preload`.
        list: &'static str,
        /// The preload.
        library: String,
    },
    /// reheap cannot see what is in it.
    Unknown(String),
}

/// How a static program can get another allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkAgain {
    /// Rust code for musl.
    Cargo,
    /// Rust code for glibc.
    CargoForMusl,
    /// C or C++ for musl.
    Compiler,
    /// C or C++ for glibc.
    CompilerForMusl,
    /// Go code allocates from Go's own heap, whatever it is linked with.
    NotGo,
    /// The file does not tell what it was made from, or has its own allocator, which would win again.
    Unknown,
}

/// Whether a static program has an allocator that neither the libc nor reheap brought.
fn brings_its_own(identity: &Identity) -> bool {
    let is_stock = |name: &String| {
        let found = identity.allocators.iter().find(|found| found.name == *name);
        found.is_some_and(|found| found.is_stock)
    };
    let has_global = matches!(
        identity.rust_global_allocator,
        Some(RustGlobalAllocator::Custom { .. })
    );
    let has_malloc = match &identity.malloc.provider {
        Provider::Allocator { name } => identity.marker.is_none() && !is_stock(name),
        Provider::OwnCode => true,
        _ => false,
    };
    has_global || has_malloc
}

impl LinkAgain {
    /// How a program could be linked with another allocator.
    pub fn of(identity: &Identity) -> Self {
        let is_go = |found: &FoundAllocator| found.name == GO;
        let is_rust = identity.rust_global_allocator.is_some();
        match identity.libc.name {
            _ if identity.allocators.iter().any(is_go) => Self::NotGo,
            _ if brings_its_own(identity) => Self::Unknown,
            LibcName::Musl if is_rust => Self::Cargo,
            LibcName::Glibc if is_rust => Self::CargoForMusl,
            LibcName::Musl => Self::Compiler,
            LibcName::Glibc => Self::CompilerForMusl,
            LibcName::Bionic | LibcName::None | LibcName::Unknown => Self::Unknown,
        }
    }
}

impl Obstacle {
    /// Whether it may work anyway.
    pub fn is_only_risky(&self) -> bool {
        matches!(
            self,
            Self::OwnAllocator(_) | Self::OtherPreload { .. } | Self::Unknown(_)
        )
    }

    /// Whether it only says that reheap does not know.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Packed | Self::Unknown(_))
    }

    /// What to do instead, if anything.
    pub fn way_out(&self) -> Option<&'static str> {
        match self {
            Self::Static(LinkAgain::Cargo) => Some(
                "build it with another allocator (`cargo reheap build`), or put one into the file (`reheap graft`)",
            ),
            Self::Static(LinkAgain::CargoForMusl) => Some(
                "build it for musl with another allocator (`cargo reheap build`), build it without `-C target-feature=+crt-static`, or put one into the file (`reheap graft`)",
            ),
            Self::Static(LinkAgain::Compiler) => Some(
                "link it again with another allocator (`reheap cc`), or put one into the file (`reheap graft`)",
            ),
            Self::Static(LinkAgain::CompilerForMusl) => Some(
                "link it again: without `-static`, or for musl with another allocator (`reheap cc`)",
            ),
            Self::Packed => Some("unpack a copy with `upx -d <copy>` and use that"),
            Self::Privileged(_) => Some(
                "make a copy without these rights, and run that as the user or with the capabilities that it needs",
            ),
            Self::OwnAllocator(_) | Self::Unknown(_) => {
                Some("to try it anyway: reheap run --force")
            }
            Self::OtherPreload { .. } => {
                Some("remove it from LD_PRELOAD, or try it anyway: reheap run --force")
            }
            Self::Static(LinkAgain::NotGo | LinkAgain::Unknown)
            | Self::NotAProgram(_)
            | Self::OtherLibc(_)
            | Self::OtherArchitecture(_) => None,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static(LinkAgain::NotGo) => f.write_str(
                "it is static, so no dynamic linker reads LD_PRELOAD, and Go allocates from a heap of its own",
            ),
            Self::Static(_) => f.write_str("it is static, so no dynamic linker reads LD_PRELOAD"),
            Self::Packed => f.write_str("it is packed with UPX, so reheap cannot see what is in it"),
            Self::NotAProgram(kind) => write!(f, "it is not a dynamic program (kind: {kind})"),
            Self::Privileged(privilege) => write!(
                f,
                "it has more rights than its caller ({privilege}), so the dynamic linker ignores LD_PRELOAD"
            ),
            Self::OtherLibc(libc) => {
                write!(
                    f,
                    "it is linked with {libc}, and reheap has libraries for glibc and musl only"
                )
            }
            Self::OtherArchitecture(architecture) => write!(
                f,
                "it is for {architecture}, and this machine's libraries are for {}",
                std::env::consts::ARCH
            ),
            Self::OtherPreload { list, library } => write!(
                f,
                "{list} names `{library}`, which has a malloc of its own: behind the allocator it would do \
                 nothing, or stop the program as sanitizers do"
            ),
            Self::OwnAllocator(what) | Self::Unknown(what) => f.write_str(what),
        }
    }
}

/// How many libraries a remark names.
const NAMED_MAX: usize = 3;

/// What to know about a program that a preload works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// Go code next to code that calls malloc.
    OnlyC,
    /// A library of an allocator that is no longer used.
    Idle {
        /// The library's file name.
        library: String,
        /// Whose it is.
        allocator: &'static str,
        /// The functions that the program takes from it.
        asked: Vec<String>,
    },
    /// The program imports no function of the malloc family; of its libraries, only these do.
    /// Nothing calls malloc.
    TakesNoMalloc {
        /// The libraries that call malloc.
        libraries: Vec<String>,
    },
}

impl Remark {
    /// Whether less changes than a user expects who asks for another allocator.
    pub fn is_about_a_part(&self) -> bool {
        matches!(self, Self::OnlyC)
    }
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnlyC => f.write_str(
                "its Go code keeps the heap of Go's runtime: only allocations of C code change",
            ),
            Self::TakesNoMalloc { libraries } if libraries.is_empty() => f.write_str(
                "neither the program nor its libraries import malloc: it allocates nothing, or has an allocator \
                 inside that reheap cannot see",
            ),
            Self::TakesNoMalloc { libraries } => {
                let named = &libraries[..libraries.len().min(NAMED_MAX)];
                let more = match libraries.len() - named.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                write!(
                    f,
                    "the program itself imports no malloc: only allocations of its libraries change ({}{more})",
                    named.join(", ")
                )
            }
            Self::Idle {
                library,
                allocator,
                asked,
            } => {
                write!(f, "replaces `{library}`, which it is linked with")?;
                let verb = match asked.len() {
                    0 => return Ok(()),
                    1 => "answers",
                    _ => "answer",
                };
                write!(
                    f,
                    "; {} still {verb} for that {allocator}, which is empty",
                    asked.join(", ")
                )?;
                // A preload of jemalloc has the functions of jemalloc's manual, under the same names.
                let is_prefixed = asked.iter().any(|name| name.starts_with("je_"));
                if *allocator == "jemalloc" && !is_prefixed {
                    f.write_str(", unless the preload is jemalloc")?;
                }
                Ok(())
            }
        }
    }
}

/// What to expect of a preload in a dynamic program and the libraries that it is linked with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PreloadOutlook {
    /// What stands in the way of the preload.
    pub obstacle: Option<Obstacle>,
    /// What else to know.
    pub(crate) remarks: Vec<Remark>,
}

/// The heap of Go's runtime, as `identify` calls it.
const GO: &str = "go-runtime";

impl PreloadOutlook {
    /// Looks at a program and its libraries.
    pub fn of(identity: &Identity, file: &Path, libraries: &Libraries<'_>) -> Self {
        if identity.kind != Kind::Dynamic {
            return Self::default(); // something else stands in the way already
        }
        let mut outlook = Self {
            obstacle: inside(identity),
            remarks: Vec::new(),
        };
        if identity.allocators.iter().any(|found| found.name == GO) {
            outlook.remarks.push(Remark::OnlyC);
        }
        let libc = match identity.libc.name {
            LibcName::Glibc => Libc::Glibc,
            LibcName::Musl => Libc::Musl,
            _ => return outlook,
        };
        if outlook.obstacle.is_none() {
            match linked::look(file, libc, libraries) {
                Linked::No => {}
                Linked::InTheWay(obstacle) => outlook.obstacle = Some(obstacle),
                Linked::Idle {
                    library,
                    allocator,
                    asked,
                } => outlook.remarks.push(Remark::Idle {
                    library,
                    allocator,
                    asked,
                }),
            }
        }
        outlook
    }
}

/// What stands in the way in the program's own file.
fn inside(identity: &Identity) -> Option<Obstacle> {
    let own = |what: String| Some(Obstacle::OwnAllocator(what));
    let offers = |name: &&&str| identity.exports.iter().any(|own| own == *name);
    match &identity.malloc.provider {
        Provider::Allocator { name } if name == GO => {
            return own(
                "it allocates from the heap of Go's runtime, not with malloc: nothing would change"
                    .to_owned(),
            );
        }
        Provider::Allocator { name } => {
            return own(format!(
                "its malloc is {name}, which comes before any preload: nothing would change, or two allocators would \
                 free each other's blocks"
            ));
        }
        Provider::OwnCode => {
            return own(
                "it has a malloc of its own, which comes before any preload: nothing would change, or two allocators \
                 would free each other's blocks"
                    .to_owned(),
            );
        }
        provider => {
            if let Some(name) = family::CORE.iter().find(offers) {
                return own(format!(
                    "it defines `{name}` itself, which comes before any preload: nothing would change, or two \
                     allocators would free each other's blocks"
                ));
            }
            if *provider == Provider::Unknown {
                return Some(Obstacle::Unknown(format!(
                    "reheap cannot tell where its malloc comes from: {}",
                    identity.malloc.reason
                )));
            }
        }
    }
    if let Some(RustGlobalAllocator::Custom { name, .. }) = &identity.rust_global_allocator {
        let name = name.as_deref().unwrap_or("another allocator than malloc");
        return own(format!(
            "its Rust code uses {name}: only its other code would change"
        ));
    }
    let found = identity.allocators.iter().find(|found| {
        let is_used = !found.is_stock && found.role != Role::Unused && found.name != GO;
        is_used && found.confidence >= Confidence::Likely
    })?;
    own(format!(
        "it contains {}, which it may use besides malloc: only some of its allocations may change",
        found.name
    ))
}
