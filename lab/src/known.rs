//! What one can do today without reheap: take a crate, preload a package of Debian, or patch musl's libc.a by hand.
//!
//! All are measured beside reheap, as plain as they are: none has fast memory functions or another tuning than
//! upstream's. What cannot be made here is left out, with the reason.

use crate::programs::{LeftOut, RustProgram};
use crate::registry;
use crate::sources::{debian_package, rust_libc};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::{Workspace, musl_target};

/// The variants with a preload of Debian.
pub(crate) const JEMALLOC: &str = "Debian's jemalloc";
pub(crate) const MIMALLOC: &str = "Debian's mimalloc";
pub(crate) const TCMALLOC: &str = "Debian's tcmalloc";
/// Their packages, and the libraries in them.
const DEBIAN: [(&str, &str, &str); 3] = [
    (JEMALLOC, "libjemalloc2", "libjemalloc.so.2"),
    (MIMALLOC, "libmimalloc2.0", "libmimalloc.so.2"),
    (TCMALLOC, "libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
];

/// The variants with a crate as global allocator, and the features that make them.
pub(crate) const CRATES: [(&str, &str); 2] = [
    ("musl, crate mimalloc", "mimalloc-crate"),
    ("musl, crate tikv-jemallocator", "jemalloc-crate"),
];

/// The variant of what is linked with the patched libc.a.
pub(crate) const BY_HAND: &str = "musl, libc.a patched by hand";

/// The package whose mimalloc goes into the libc.a: the same version as reheap's.
const PATCHED_IN: (&str, &str) = ("libmimalloc-sys", "0.1.49");

/// As mimalloc's own build for musl compiles it, in release mode; position independent, as Rust links executables.
const CFLAGS: &str = "-c -O3 -DNDEBUG -DMI_MALLOC_OVERRIDE=1 -DMI_LIBC_MUSL=1 -DMI_SKIP_COLLECT_ON_EXIT=1 -fPIE \
    -ftls-model=local-dynamic";

/// The members that the published recipes delete, and the two more that today's mimalloc has its own of.
const DELETED: &str = "aligned_alloc.lo calloc.lo donate.lo free.lo libc_calloc.lo lite_malloc.lo malloc.lo \
    malloc_usable_size.lo memalign.lo posix_memalign.lo realloc.lo reallocarray.lo strdup.lo strndup.lo valloc.lo";

/// The patched library in its directory.
const LIBC: &str = "libc.a";

/// What could be made of them.
#[derive(Default)]
pub(crate) struct Known {
    /// The names of variants, and what they preload.
    preloads: Vec<(&'static str, PathBuf)>,
    by_hand: Option<ByHand>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// A libc.a that mimalloc was put into by hand.
struct ByHand {
    directory: PathBuf,
}

impl Known {
    /// Fetches the packages, and patches a copy of Rust's libc.a.
    pub(crate) fn prepare(workspace: &Workspace, progress: &Progress) -> Result<Known> {
        let directory = workspace.target.join("known");
        let mut known = Known::default();
        for (name, package, library) in DEBIAN {
            match preload(&directory.join(package), package, library) {
                Ok(path) => known.preloads.push((name, path)),
                Err(error) => known.left_out.push(LeftOut::new(name, &error)),
            }
        }
        match ByHand::patch(workspace, progress, directory.join("by-hand")) {
            Ok(by_hand) => known.by_hand = Some(by_hand),
            Err(error) => known.left_out.push(LeftOut::new(BY_HAND, &error)),
        }
        Ok(known)
    }

    /// The names of variants and their commands: this one with each package preloaded.
    pub(crate) fn preloaded(&self, command: &str) -> Vec<(&'static str, String)> {
        let variant = |(name, path): &(_, PathBuf)| {
            (
                *name,
                format!("env LD_PRELOAD={} {command}", path.display()),
            )
        };
        self.preloads.iter().map(variant).collect()
    }

    /// The same for a program in Rust, also linked with the patched libc.a.
    pub(crate) fn linked(
        &self,
        workspace: &Workspace,
        progress: &Progress,
        program: &RustProgram,
    ) -> Result<Vec<(&'static str, String)>> {
        let mut variants = Vec::new();
        if !self.preloads.is_empty() {
            let dynamic = program.build_stock(workspace, progress)?;
            variants = self.preloaded(&dynamic.display().to_string());
        }
        if let Some(by_hand) = &self.by_hand {
            let linked = by_hand.link(workspace, progress, program)?;
            variants.push((BY_HAND, linked.display().to_string()));
        }
        Ok(variants)
    }

    /// The patched libc.a, if there is one.
    pub(crate) fn patched(&self) -> Option<PathBuf> {
        let by_hand = self.by_hand.as_ref()?;
        Some(by_hand.directory.join(LIBC))
    }
}

/// The library of a package of Debian.
fn preload(directory: &Path, package: &str, library: &str) -> Result<PathBuf> {
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let path = directory.join("usr/lib").join(triple).join(library);
    if !path.exists() {
        files::make_directory(directory)?;
        debian_package(directory, package)?;
    }
    ensure!(path.exists(), "`{}` is not in {package}", path.display());
    Ok(path)
}

impl ByHand {
    /// Compiles mimalloc to one object and puts it into a copy of Rust's libc.a, in place of musl's allocator.
    fn patch(workspace: &Workspace, progress: &Progress, directory: PathBuf) -> Result<ByHand> {
        files::make_directory(&directory)?;
        let (package, version) = PATCHED_IN;
        let (_, sources) = registry::fetched(&directory, package, version)?;
        let mimalloc = sources.join("c_src/mimalloc/v3");
        let object = directory.join("mimalloc.o");
        let mut cc = workspace.reheap();
        cc.args(["cc", "-a", "stock", "--"]).args(CFLAGS.split(' '));
        cc.arg("-I").arg(mimalloc.join("include"));
        cc.arg(mimalloc.join("src/static.c")).arg("-o").arg(&object);
        progress.quietly("compiling mimalloc for a libc.a", &mut cc)?;
        let patched = directory.join(LIBC);
        files::copy(&rust_libc()?, &patched)?;
        // Some names are there twice, and each time only the first goes.
        for _ in 0..2 {
            let mut ar = Command::new("ar");
            ar.arg("d").arg(&patched).args(DELETED.split(' '));
            progress.quietly("deleting musl's allocator", &mut ar)?;
        }
        let mut ar = Command::new("ar");
        ar.arg("r").arg(&patched).arg(&object);
        progress.quietly("adding mimalloc", &mut ar)?;
        let linker = directory.join("cc");
        let script = format!("#!/bin/sh\nexec cc '-L{}' \"$@\"\n", directory.display());
        write_script(&linker, &script)?;
        Ok(ByHand { directory })
    }

    /// Links the program as a Cargo would that finds this libc.a in its toolchain, and puts the executable aside. It
    /// is built by `cargo reheap build` without an allocator, so that nothing is compiled twice.
    fn link(
        &self,
        workspace: &Workspace,
        progress: &Progress,
        program: &RustProgram,
    ) -> Result<PathBuf> {
        let triple = musl_target()?.triple().to_owned();
        let variable = format!(
            "CARGO_TARGET_{}_LINKER",
            triple.to_uppercase().replace('-', "_")
        );
        let mut command = workspace.cargo_reheap();
        command.args(["build", "-a", "stock", "--target", &triple]);
        command.args(program.cargo_flags(workspace));
        command.env(variable, self.directory.join("cc"));
        let what = format!("linking {} with the patched libc.a", program.package);
        progress.step(&what, &mut command)?;
        let linked = program.put_aside(&workspace.target, "by-hand")?;
        prove(workspace, progress, &linked)?;
        Ok(linked)
    }
}

/// The command that links C with the patched libc.a: `reheap cc` with nothing of its own in it.
pub(crate) fn linker(reheap_cc: &str, patched: &Path) -> String {
    format!("{reheap_cc} -a stock --libc {} --", patched.display())
}

/// Makes sure that an executable got its mimalloc: a linker that found another libc.a says nothing.
pub(crate) fn prove(workspace: &Workspace, progress: &Progress, linked: &Path) -> Result<()> {
    let mut inspect = workspace.reheap();
    inspect
        .args(["inspect", "--expect", "mimalloc3"])
        .arg(linked);
    progress.quietly("looking for the patched libc.a", &mut inspect)
}

/// Writes a script that can be executed.
pub(crate) fn write_script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .with_context(|| format!("cannot write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preload_is_put_before_the_command_and_nothing_else_is_run() {
        let known = Known {
            preloads: vec![(JEMALLOC, "/lib/libjemalloc.so.2".into())],
            ..Known::default()
        };
        assert_eq!(
            known.preloaded("churn --threads {threads}"),
            [(
                JEMALLOC,
                "env LD_PRELOAD=/lib/libjemalloc.so.2 churn --threads {threads}".to_owned()
            )]
        );
        assert!(Known::default().preloaded("churn").is_empty());
    }
}
