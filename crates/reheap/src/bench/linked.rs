//! The variants of a Rust project: compiled once for each libc, linked once more for each allocator.

use crate::bench::variants::{self, Libc, OfLibc};
use crate::cli::cargo::Session;
use crate::link;
use crate::proof;
use crate::ui::{self, Failure};
use anyhow::Context as _;
use reheap_bench::results::{Activity, LeftOut};
use std::fs;
use std::path::{Path, PathBuf};

/// An executable of a variant.
pub(crate) struct Executable {
    pub(crate) path: PathBuf,
    pub(crate) activity: Activity,
}

/// The one executable of a project, for each libc that a variant names.
pub(crate) struct Project<'a> {
    session: &'a Session,
    glibc: Option<PathBuf>,
    musl: Option<PathBuf>,
}

impl Project<'_> {
    /// Builds what the variants take.
    pub(crate) fn build<'a>(session: &'a Session, libcs: &[Libc]) -> anyhow::Result<Project<'a>> {
        let build = |libc, build: &dyn Fn() -> anyhow::Result<Vec<PathBuf>>| {
            libcs
                .contains(&libc)
                .then(|| {
                    ui::note(&format!("building for {libc}"));
                    only_one(build()?)
                })
                .transpose()
        };
        Ok(Project {
            session,
            glibc: build(Libc::Glibc, &|| session.executables_for_glibc())?,
            musl: build(Libc::Musl, &|| session.executables())?,
        })
    }

    /// The executable for a variant. For one with musl it is linked now, and read back; one with glibc is as Cargo made
    /// it, and takes its allocator when it is started.
    pub(crate) fn executable(&self, variant: &OfLibc) -> anyhow::Result<Executable> {
        let built = match variant.libc {
            Some(Libc::Glibc) => &self.glibc,
            _ => &self.musl,
        };
        let built = built
            .as_ref()
            .context("the project was not built for this libc")?;
        if variant.libc == Some(Libc::Glibc) {
            return Ok(Executable {
                path: built.clone(),
                activity: Activity::NothingClaimed,
            });
        }
        let output = self.place(built, &variants::name("musl", &variant.choice))?;
        link::link_beside(built, &self.session.plan_for(&variant.choice)?, &output)?;
        let proof = proof::of_executable(&output, &variant.choice)?;
        Ok(Executable {
            path: output,
            activity: Activity::Seen(format!("in the executable: {proof}")),
        })
    }

    /// A place of the variant's own beside Cargo's folders.
    fn place(&self, built: &Path, variant: &str) -> anyhow::Result<PathBuf> {
        let of_target = built
            .ancestors()
            .find(|folder| folder.ends_with(self.session.triple()))
            .context("Cargo built outside of the folder of its target")?;
        let folder = of_target.join("reheap-bench").join(variant);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make `{}`", folder.display()))?;
        Ok(folder.join(built.file_name().context("the executable has no name")?))
    }
}

fn only_one(mut executables: Vec<PathBuf>) -> anyhow::Result<PathBuf> {
    match (executables.pop(), executables.as_slice()) {
        (Some(only), []) => Ok(only),
        (None, _) => Err(Failure::usage("the project has no executable to measure")
            .hint("--bin NAME, --example NAME or -p PACKAGE choose one")
            .into()),
        (Some(last), others) => {
            let name = |path: &PathBuf| {
                path.file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            };
            let mut names: Vec<String> = others.iter().chain([&last]).map(name).collect();
            names.sort();
            let text = format!("which executable is to be measured: {}?", names.join(", "));
            let hint = format!("cargo reheap bench --bin {}", names[0]);
            Err(Failure::usage(text).hint(hint).into())
        }
    }
}
