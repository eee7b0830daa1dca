//! `reheap link-names`: makes short names for `reheap run` with one allocator. They are links to reheap, which looks at
//! the name that started it.

use anyhow::Context as _;
use reheap_allocators::catalogue::CATALOGUE;
use reheap_command::ui::{self, Failure};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
`mimalloc-run COMMAND…` is `reheap run -a mimalloc -- COMMAND…`, and so for each allocator.

Examples:
  reheap link-names ~/.local/bin
  mimalloc-run python3 train.py";

const SUFFIX: &str = "-run";

#[derive(Debug, clap::Args)]
pub(crate) struct LinkNamesArguments {
    /// A directory in PATH; reheap replaces nothing there but its own links
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Makes the links and prints their paths.
pub(crate) fn run(arguments: &LinkNamesArguments) -> anyhow::Result<ExitCode> {
    let directory = &arguments.directory;
    if !directory.is_dir() {
        let text = format!(
            "cannot make links in `{}`: it is not a directory",
            directory.display()
        );
        return Err(Failure::failed(text).into());
    }
    let program = std::env::current_exe().context("cannot find the path of reheap")?;
    let links: Vec<PathBuf> = names().map(|name| directory.join(name)).collect();
    let foreign = links.iter().find(|link| !is_free(link, &program));
    if let Some(link) = foreign {
        let text = format!(
            "cannot make `{}`: another file has that name",
            link.display()
        );
        return Err(Failure::failed(text).into());
    }
    for link in &links {
        make(link, &program).with_context(|| format!("cannot make `{}`", link.display()))?;
    }
    let lines: Vec<String> = links
        .iter()
        .map(|link| format!("{}\n", link.display()))
        .collect();
    ui::data(&lines.concat())?;
    Ok(ExitCode::SUCCESS)
}

fn names() -> impl Iterator<Item = String> {
    let allocators = CATALOGUE.iter().filter(|row| row.build.is_some());
    allocators.map(|row| format!("{}{SUFFIX}", row.name))
}

/// Whether nothing is there, or a link to this reheap or to one elsewhere.
fn is_free(link: &Path, program: &Path) -> bool {
    match fs::read_link(link) {
        Ok(target) => target == program || target.file_name() == Some(OsStr::new("reheap")),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Makes a link under another name and renames it, so that the name never leads nowhere.
fn make(link: &Path, program: &Path) -> io::Result<()> {
    let directory = link.parent().unwrap_or(Path::new("."));
    let unfinished = tempfile::Builder::new()
        .prefix(".reheap-")
        .tempdir_in(directory)?;
    let new = unfinished.path().join("link");
    std::os::unix::fs::symlink(program, &new)?;
    fs::rename(&new, link)
}

/// Translates the arguments of `mimalloc-run` and the like into those of `reheap`.
pub(crate) fn spelled_out(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    let called = called.and_then(OsStr::to_str).unwrap_or_default();
    let Some(name) = names().find(|name| name == called) else {
        return arguments;
    };
    let allocator = name.strip_suffix(SUFFIX).unwrap_or_default().to_owned();
    let mut front: Vec<OsString> = ["reheap", "run", "-a", &allocator].map(Into::into).to_vec();
    // `--help` asks for help; it does not name a program.
    let asks = |word: &OsString| word == "--help" || word == "-h";
    if !arguments.get(1).is_some_and(asks) && arguments.len() > 1 {
        front.push("--".into());
    }
    front.extend(arguments.drain(1..));
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_reheap_was_called_by_says_which_allocator() {
        for (typed, meant) in [
            ("reheap list", "reheap list"),
            ("/usr/bin/reheap run -- x", "/usr/bin/reheap run -- x"),
            (
                "jemalloc-run x --check",
                "reheap run -a jemalloc -- x --check",
            ),
            (
                "/opt/mimalloc-secure-run x",
                "reheap run -a mimalloc-secure -- x",
            ),
            ("mimalloc-run --help", "reheap run -a mimalloc --help"),
            (
                "mimalloc-run x --help",
                "reheap run -a mimalloc -- x --help",
            ),
            ("mimalloc-run", "reheap run -a mimalloc"),
            ("stock-run x", "stock-run x"),
            ("other-run x", "other-run x"),
        ] {
            let words = typed.split(' ').map(OsString::from).collect();
            let meant: Vec<OsString> = meant.split(' ').map(OsString::from).collect();
            assert_eq!(spelled_out(words), meant, "{typed}");
        }
    }
}
