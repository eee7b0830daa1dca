//! Finds the program that the kernel will execute for a typed command, and what keeps a preload out of it.
//!
//! `LD_PRELOAD` fails silently. A static program has nothing that reads it, AT_SECURE drops it, and a library for the
//! other libc is "ignored" in one line among many. A script only ever starts another program. So before it starts
//! anything, reheap looks up what the kernel will load in the end (`route`), and reads the ELF file.

pub mod libraries;
mod linked;
mod malloc_imports;
mod obstacle;
mod route;
pub(crate) mod script;

use crate::open_file::OpenFile;
use anyhow::Context as _;
use libraries::Libraries;
pub use obstacle::{LinkAgain, Obstacle, PreloadOutlook, Remark};
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_command::env_vars;
use reheap_command::ui::{self, Failure};
use reheap_elf::identify::{Identity, Kind, LibcName, identify};
pub use route::{NotRunnable, Route};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A program as the kernel will load it.
#[derive(Debug)]
pub struct Program {
    /// How the kernel gets to its file.
    pub route: Route,
    /// What it is.
    pub identity: Identity,
    /// Why the kernel starts it in secure mode, if it does.
    pub privilege: Option<Privilege>,
    /// What a preload meets in it.
    outlook: PreloadOutlook,
}

/// What makes the kernel set AT_SECURE, so that the dynamic linker ignores LD_PRELOAD (ld.so(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// The file's mode gives it those of its owner.
    SetUid,
    /// The file's mode gives it those of its group.
    SetGid,
    /// The file has capabilities (capabilities(7)).
    Capabilities,
}

impl fmt::Display for Privilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SetUid => "setuid",
            Self::SetGid => "setgid",
            Self::Capabilities => "file capabilities",
        })
    }
}

impl Program {
    /// What a command will run, for reheap to run it: a failure has the exit code of a shell.
    ///
    /// # Errors
    /// Those of [`resolve`](Self::resolve).
    pub fn to_run(command: &OsStr) -> anyhow::Result<Self> {
        Self::resolve(command).map_err(|error| match error.downcast_ref::<NotRunnable>() {
            Some(not_runnable) => Failure::failed(ui::printable(not_runnable.to_string()))
                .code(not_runnable.exit_code())
                .into(),
            None => error,
        })
    }

    /// What a command will run.
    ///
    /// # Errors
    /// Those of [`Route::find`]; also if the file is damaged.
    pub fn resolve(command: &OsStr) -> anyhow::Result<Self> {
        let route = Route::find(command)?;
        let file = &route.file;
        let cannot = || format!("cannot read `{}`", file.display());
        let opened = fs::File::open(file).and_then(OpenFile::new);
        let identity = identify(&opened.with_context(cannot)?);
        let identity = identity.map_err(|error| NotRunnable::Broken {
            file: file.clone(),
            reason: error.to_string(),
        })?;
        let metadata = fs::metadata(file).with_context(cannot)?;
        Ok(Self {
            privilege: privilege(file, &metadata),
            outlook: PreloadOutlook::of(&identity, &real(file), &libraries_of_this_system()),
            route,
            identity,
        })
    }

    /// What a library for this program is built for; `None` where reheap has none.
    pub fn target(&self) -> Option<Target> {
        target_of(&self.identity, &[std::env::consts::ARCH])
    }

    /// Whether no dynamic linker starts it, and its code is there to be read.
    pub fn is_static(&self) -> bool {
        let identity = &self.identity;
        matches!(identity.kind, Kind::Static | Kind::StaticPie) && !identity.packed
    }

    /// What stands in the way of preloading, the worst first.
    pub fn obstacles(&self) -> Vec<Obstacle> {
        let here = [std::env::consts::ARCH];
        obstacles(&self.identity, self.privilege, &self.outlook, &here)
    }

    /// The address space that it needs before it does anything: its own file and those that are loaded for it.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        let (Some(target), Some(interpreter)) = (self.target(), &self.identity.interpreter) else {
            return 0;
        };
        libraries_of_this_system().mapped_bytes(
            &real(&self.route.file),
            Path::new(interpreter),
            target.libc(),
        )
    }

    /// What to know about it if nothing stands in the way.
    pub fn remarks(&self) -> &[Remark] {
        &self.outlook.remarks
    }

    /// Whether none of its own calls can reach a preload, as far as its file tells. Computed only on request, because
    /// it takes as long as everything else together.
    pub fn takes_no_malloc(&self) -> Option<Remark> {
        let libc = self.target()?.libc();
        let libraries = malloc_imports::only_of_libraries(
            &real(&self.route.file),
            libc,
            &libraries_of_this_system(),
        )?;
        Some(Remark::TakesNoMalloc { libraries })
    }
}

/// What a library for a program is built for, where these processors run it; `None` where reheap has none.
pub fn target_of(identity: &Identity, architectures: &[&str]) -> Option<Target> {
    let libc = match identity.libc.name {
        LibcName::Glibc => Libc::Glibc,
        LibcName::Musl => Libc::Musl,
        LibcName::Bionic | LibcName::None | LibcName::Unknown => return None,
    };
    let is_it = |architecture: &Architecture| architecture.name() == identity.architecture;
    let architecture = Architecture::WITH_PRELOADS.into_iter().find(is_it)?;
    let is_run = architectures.contains(&architecture.name());
    is_run.then(|| Target::new(architecture, libc))
}

/// What stands in the way of preloading a program where these processors run it, the worst first.
pub fn obstacles(
    identity: &Identity,
    privilege: Option<Privilege>,
    outlook: &PreloadOutlook,
    architectures: &[&str],
) -> Vec<Obstacle> {
    let mut obstacles = Vec::new();
    match identity.kind {
        Kind::Dynamic => {}
        _ if identity.packed => obstacles.push(Obstacle::Packed),
        Kind::Static | Kind::StaticPie => {
            obstacles.push(Obstacle::Static(LinkAgain::of(identity)));
        }
        kind => obstacles.push(Obstacle::NotAProgram(kind)),
    }
    obstacles.extend(privilege.map(Obstacle::Privileged));
    if !architectures.contains(&identity.architecture.as_str()) {
        obstacles.push(Obstacle::OtherArchitecture(identity.architecture.clone()));
    } else if target_of(identity, architectures).is_none() && identity.kind == Kind::Dynamic {
        let libc = identity.libc.name.to_string();
        obstacles.push(Obstacle::OtherLibc(libc));
    }
    obstacles.extend(outlook.obstacle.clone());
    obstacles
}

/// The libraries of this system, as a program started from here would find them.
pub fn libraries_of_this_system() -> Libraries<'static> {
    Libraries::new(|path| fs::File::open(path).ok(), env_vars::library_path())
}

/// Without links: `$ORIGIN` is the directory of the file itself (ld.so(8)).
fn real(program: &Path) -> PathBuf {
    fs::canonicalize(program).unwrap_or_else(|_| program.to_owned())
}

/// What the kernel would start this file in secure mode for.
fn privilege(file: &Path, metadata: &Metadata) -> Option<Privilege> {
    let gives_none = rustix::fs::statvfs(file).is_ok_and(|system| {
        system
            .f_flag
            .contains(rustix::fs::StatVfsMountFlags::NOSUID)
    });
    if gives_none {
        return None;
    }
    let has_capabilities = || {
        let mut value = [0_u8; 64];
        rustix::fs::getxattr(file, "security.capability", &mut value).is_ok_and(|size| size > 0)
    };
    let caller = Caller {
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
    };
    caller.gains(
        metadata.mode(),
        metadata.uid(),
        metadata.gid(),
        has_capabilities,
    )
}

/// The user and the group that start a program.
pub struct Caller {
    /// Who owns it.
    pub uid: u32,
    /// The group that it has.
    pub gid: u32,
}

impl Caller {
    /// Secure mode is for programs that get another identity than the caller's (security/commoncap.c). A setuid-root
    /// program that root runs is not in it, and root gains nothing by capabilities.
    pub fn gains(
        &self,
        mode: u32,
        owner: u32,
        group: u32,
        has_capabilities: impl FnOnce() -> bool,
    ) -> Option<Privilege> {
        const SET_UID: u32 = 0o4000;
        const SET_GID_AND_EXECUTE: u32 = 0o2010;
        if mode & SET_UID != 0 && owner != self.uid {
            Some(Privilege::SetUid)
        } else if mode & SET_GID_AND_EXECUTE == SET_GID_AND_EXECUTE && group != self.gid {
            Some(Privilege::SetGid)
        } else if self.uid != 0 && has_capabilities() {
            Some(Privilege::Capabilities)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secure_mode_is_for_who_gains_an_identity() {
        let user = Caller {
            uid: 1000,
            gid: 1000,
        };
        let root = Caller { uid: 0, gid: 0 };
        let none = || false;
        assert_eq!(user.gains(0o4755, 0, 0, none), Some(Privilege::SetUid));
        assert_eq!(user.gains(0o4755, 1000, 0, none), None);
        assert_eq!(root.gains(0o4755, 0, 0, none), None);
        assert_eq!(user.gains(0o2755, 0, 0, none), Some(Privilege::SetGid));
        // Without the group's execute bit it once meant mandatory locking.
        assert_eq!(user.gains(0o2745, 0, 0, none), None);
        assert_eq!(
            user.gains(0o755, 0, 0, || true),
            Some(Privilege::Capabilities)
        );
        assert_eq!(root.gains(0o755, 0, 0, || true), None);
    }

    #[test]
    fn the_test_itself_is_a_dynamic_program_without_obstacles() {
        let program = Program::resolve(std::env::current_exe().unwrap().as_os_str()).unwrap();
        assert_eq!(program.obstacles(), []);
        assert!(program.route.through.is_empty());
    }
}
