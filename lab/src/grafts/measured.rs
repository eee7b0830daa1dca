//! `cargo lab measure --graft`: some of the programs as released, grafted, and as released for glibc.

use super::Source::{GlibcWheel, Npm};
use super::{DPRINT_PLUGIN, ROWS, Release, home};
use crate::programs::{Commands, NpmPackage, Prepared};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::command::stdout_of;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// In the directory of the measurements.
pub(crate) const DIRECTORY: &str = "graft";
pub(crate) const RELEASED: &str = "released";
pub(crate) const GRAFTED: &str = "grafted";
pub(crate) const GLIBC: &str = "glibc release";

const TYPESCRIPT: NpmPackage = NpmPackage {
    name: "typescript",
    version: "5.9.3",
    sha256: "10e108c9cf7d5f2879053dff18515fb405abf2ccef63eaaf017d9c571687a1d3",
};

/// A program that is measured.
pub(super) struct Measured {
    /// That of its row.
    pub(super) name: &'static str,
    /// What it has to do, for people.
    pub(super) does: &'static str,
    /// `{program}` is the executable, `{in}` the directory of what `lab/trials/graft/large.sh` makes.
    command: &'static str,
    glibc: Option<Release>,
}

const fn measured(
    name: &'static str,
    does: &'static str,
    command: &'static str,
    (source, file, sha256): (super::Source, &'static str, &'static str),
) -> Measured {
    Measured {
        name,
        does,
        command,
        glibc: Some(Release {
            source,
            file,
            sha256: Some(sha256),
        }),
    }
}

const fn without_glibc(name: &'static str, does: &'static str, command: &'static str) -> Measured {
    Measured {
        name,
        does,
        command,
        glibc: None,
    }
}

#[rustfmt::skip] // a table
pub(super) const MEASURED: &[Measured] = &[
    measured("git-cliff", "the changelog of 2,000 commits", "{program} -r {in}/history", (GlibcWheel("git-cliff", "2.14.2"),
        "git_cliff-2.14.2.data/scripts/git-cliff", "d0b1d7316c7e0a860326620b4299341b21967adf16e1dad8354c9d7bb4888823")),
    measured("just", "formats 24,000 recipes", "{program} --justfile {in}/justfile --dump", (GlibcWheel("rust-just", "1.59.0"),
        "rust_just-1.59.0.data/scripts/just", "d21c7c1db51624275fbca0e3bc307a21d7544ca6982f7c156d98c4ce428f9240")),
    measured("tombi", "formats TOML of 8,000 tables", "sh -c 'exec {program} format --offline - < {in}/packages.toml'", (GlibcWheel("tombi", "1.9.6"),
        "tombi-1.9.6.data/scripts/tombi", "5d0d17d3721f3ef7e4fff0ca14caab97de741d7e8420a95f805b4825aa1f99c3")),
    measured("fortitude", "checks 2,500 subroutines of Fortran", "{program} check {in}/parts.f90", (GlibcWheel("fortitude-lint", "0.10.0"),
        "fortitude_lint-0.10.0.data/scripts/fortitude", "2cca2416196aee22593ef9b2e661381fd8c0a56ac334bfa73f346a6a53de748a")),
    measured("syncpack", "checks a monorepo of 1,000 packages", "env -C {in}/monorepo {program} lint", (Npm("syncpack-linux-x64", "15.3.3"),
        "package/bin/syncpack", "c578c02f2aded67415df41e50a4538cc2c02394dc48192b4592adc31af114c39")),
    measured("dprint", "formats the declarations of a browser's functions", "{program} check -c {in}/dprint.json {in}/typescript/lib.dom.d.ts", (Npm("@dprint/linux-x64-glibc", "0.57.4"),
        "package/dprint", "b74887f9292a5d3f9f1f027e0f4d6797630fb0be9e7e14f9672f72c0b1d7a672")),
    measured("typos", "looks for typing errors in 7 MB", "{program} --threads 1 {in}/typescript", (GlibcWheel("typos", "1.52.0"),
        "typos-1.52.0.data/scripts/typos", "38b0e6d0bede64fe28e9f5bbf7bb0e528ff69927dad372a2443468cb87fae64d")),
    without_glibc("nu", "groups and sums a table of 60,000 rows", "{program} -n {in}/report.nu"),
    without_glibc("shellcheck", "checks 100 functions (Haskell)", "{program} {in}/parts.sh"),
];

/// Fetches everything, makes the inputs, and grafts the chosen programs.
pub(crate) fn prepare(
    workspace: &Workspace,
    progress: &Progress,
    is_chosen: impl Fn(&str) -> bool,
) -> Result<Prepared> {
    let inputs = inputs(workspace, progress)?.display().to_string();
    let mut prepared = Prepared::of_rust(Vec::new());
    for measured in MEASURED.iter().filter(|measured| is_chosen(measured.name)) {
        match variants(workspace, progress, measured) {
            Ok(variants) => {
                let command = |program: &Path| {
                    let command = measured.command.replace("{in}", &inputs);
                    command.replace("{program}", &program.display().to_string())
                };
                let variants = variants
                    .iter()
                    .map(|(name, program)| format!("{name}={}", command(program)));
                prepared.commands.push(Commands {
                    name: measured.name,
                    environment: vec![("HOME", inputs.clone()), ("NO_COLOR", "1".to_owned())],
                    variants: variants.collect(),
                    output_varies: false,
                });
            }
            Err(error) => prepared.leave_out(measured.name, &error),
        }
    }
    Ok(prepared)
}

fn variants(
    workspace: &Workspace,
    progress: &Progress,
    measured: &Measured,
) -> Result<Vec<(&'static str, PathBuf)>> {
    let row = ROWS.iter().find(|row| row.name == measured.name);
    let row = row.context("no row has this name")?;
    let released = row.release.fetch(workspace, progress)?;
    let place = home(workspace).join("grafted");
    files::make_directory(&place)?;
    let grafted = place.join(measured.name);
    let mut graft = workspace.reheap();
    stdout_of(graft.arg("graft").arg(&released).arg("-o").arg(&grafted))?;
    let mut variants = vec![(RELEASED, released), (GRAFTED, grafted)];
    if let Some(release) = &measured.glibc {
        variants.push((GLIBC, release.fetch(workspace, progress)?));
    }
    Ok(variants)
}

/// The directory of the inputs, made unless it is there.
fn inputs(workspace: &Workspace, progress: &Progress) -> Result<PathBuf> {
    let home = home(workspace);
    let inputs = home.join("inputs");
    if inputs.exists() {
        return Ok(inputs);
    }
    let fresh = home.join("inputs.new");
    let typescript = home.join("typescript");
    files::make_empty(&fresh)?;
    files::make_empty(&typescript)?;
    TYPESCRIPT.unpack(&typescript, progress)?;
    let mut make = Command::new("sh");
    make.arg("-eu")
        .arg(workspace.root.join("lab/trials/graft/large.sh"))
        .arg(&typescript)
        .arg(DPRINT_PLUGIN.fetch(&home, progress)?)
        .current_dir(&fresh);
    stdout_of(&mut make)?;
    fs::rename(&fresh, &inputs).context("cannot rename the inputs")?;
    Ok(inputs)
}
