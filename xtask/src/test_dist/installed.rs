//! What a person does with reheap after an installation, whatever the package was.

use super::TestDist;
use super::outcome::Outcome;
use super::root::Root;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::time::Instant;
use xtask::files;

/// The libc of a root, and a dynamic command that prints what it has mapped.
#[derive(Clone, Copy)]
pub(super) enum Libc {
    Glibc,
    Musl,
}

impl Libc {
    pub(super) fn show_maps(self) -> &'static [&'static str] {
        match self {
            Libc::Glibc => &["/bin/cat", "/proc/self/maps"],
            Libc::Musl => &["/bin/show-maps"],
        }
    }

    fn inspected(self) -> (&'static str, &'static str) {
        match self {
            Libc::Glibc => ("/bin/sh", "glibc"),
            Libc::Musl => ("/bin/show-maps", "musl"),
        }
    }
}

/// Uses reheap in a root that has no compiler, and no network while it runs.
pub(super) fn check(test: &TestDist<'_>, root: &Root, libc: Libc) -> Result<()> {
    root.run(&["sh", "-c", "command -v cc cargo rustc curl"])?
        .failed()?;
    root.succeed(&["reheap", "list"])?.said("\nrpmalloc ")?;
    let (program, name) = libc.inspected();
    root.succeed(&["reheap", "inspect", program])?.said(name)?;
    let mut words = vec!["reheap", "run", "-a", "rpmalloc", "--"];
    words.extend(libc.show_maps());
    root.succeed(&words)?
        .said("/share/reheap/preloads/")?
        .said("/librpmalloc-")?;
    root.succeed(libc.show_maps())?.did_not_say("rpmalloc")?;
    test.saw(&format!("list, inspect and run with {name}"));
    Ok(())
}

/// What a person types first; each command must work with nothing but what was installed since then.
///
/// `show_maps` is a dynamic command that prints what it has mapped, `image` a static program and the image to make of it.
pub(super) fn check_first_commands(
    test: &TestDist<'_>,
    since: Instant,
    show_maps: &[&str],
    image: [&str; 2],
    reheap: impl Fn(&[&str]) -> Result<Outcome>,
) -> Result<()> {
    let run = ["run", "-a", "jemalloc", "--"];
    reheap(&[&run, show_maps].concat())?
        .succeeded()?
        .said("/share/reheap/preloads/")?
        .said("/libjemalloc-")?;
    test.saw(&format!(
        "{:.1} s from nothing to the first `reheap run`",
        since.elapsed().as_secs_f64()
    ));
    reheap(&["inspect", show_maps[0]])?.succeeded()?;
    // What is mapped differs each time.
    let recommend = ["recommend", "--ignore-output", "--budget", "5", "--"];
    reheap(&[&recommend, show_maps].concat())?
        .succeeded()?
        .said("recommended")?;
    let [program, output] = image;
    reheap(&["image", program, "-o", output])?.succeeded()?;
    test.saw("run, inspect, recommend and image");
    Ok(())
}

/// The same in a root, by a user without rights.
pub(super) fn check_first_commands_in(
    test: &TestDist<'_>,
    root: &Root,
    libc: Libc,
    since: Instant,
) -> Result<()> {
    let mut programs = ["/usr/bin/reheap", "/usr/local/bin/reheap"].into_iter();
    let program = programs.find(|program| root.path(program).exists());
    let image = [program.context("reheap is not there")?, "/tmp/image.tar"];
    check_first_commands(test, since, libc.show_maps(), image, |words| {
        root.run_as_nobody(&[&["reheap"], words].concat())
    })
}

/// Gives every program of a root an allocator, and takes it away again. With musl that is every login session.
pub(super) fn check_enable(test: &TestDist<'_>, root: &Root, libc: Libc) -> Result<()> {
    let (file, show_maps) = match libc {
        Libc::Glibc => ("etc/ld.so.preload", libc.show_maps()),
        Libc::Musl => (
            "etc/profile.d/reheap.sh",
            &["sh", "-l", "-c", "show-maps"][..],
        ),
    };
    root.succeed(&["reheap", "enable", "mimalloc"])?;
    root.succeed(&["reheap", "status"])?.said("mimalloc")?;
    root.succeed(show_maps)?.said("/libmimalloc")?;
    root.succeed(&["reheap", "disable"])?;
    root.succeed(libc.show_maps())?.did_not_say("mimalloc")?;
    ensure!(!root.path(file).exists(), "`reheap disable` left /{file}");
    test.saw("enable, status and disable");
    Ok(())
}

/// Enables an allocator, so that the removal of the package has something to take off.
pub(super) fn enable(root: &Root) -> Result<()> {
    root.succeed(&["reheap", "enable", "mimalloc"])?;
    check_enabled(root)
}

/// As if an earlier reheap had enabled the allocator. The upgrade that follows must say so ([`TELLS`]).
pub(super) fn enabled_by_earlier(root: &Root) -> Result<()> {
    let path = root.path("etc/reheap-enabled.json");
    let record = files::read(&path)?;
    let this = format!("\"reheap\": \"{}\"", env!("CARGO_PKG_VERSION"));
    ensure!(
        record.contains(&this),
        "the record has no version: {record}"
    );
    files::write(path, record.replace(&this, "\"reheap\": \"0.0.9\""))
}

/// What an upgrade says then.
pub(super) const TELLS: &str = "was enabled by reheap 0.0.9";

pub(super) fn check_enabled(root: &Root) -> Result<()> {
    let status = root.succeed(&["reheap", "status"])?;
    status.said("mimalloc")?;
    Ok(())
}

/// Manual and completions, below this prefix.
pub(super) fn check_documentation(test: &TestDist<'_>, root: &Root, prefix: &str) -> Result<()> {
    for program in ["reheap", "cargo-reheap"] {
        for place in [
            format!("share/man/man1/{program}.1"),
            format!("share/bash-completion/completions/{program}"),
            format!("share/zsh/site-functions/_{program}"),
            format!("share/fish/vendor_completions.d/{program}.fish"),
            "share/doc/reheap/LICENSES-THIRD-PARTY.txt".to_owned(),
        ] {
            let path = root.path(&format!("{prefix}/{place}"));
            let file = fs::metadata(&path)
                .with_context(|| format!("`{}` is not there", path.display()))?;
            ensure!(file.len() > 0, "`{}` is empty", path.display());
        }
    }
    test.saw("man pages, completions and licences");
    Ok(())
}

/// Whether the root is as it was, after `what`.
pub(super) fn check_unchanged(
    test: &TestDist<'_>,
    root: &Root,
    before: &BTreeSet<String>,
    what: &str,
) -> Result<()> {
    let after = root.files()?;
    let left: Vec<_> = after.difference(before).collect();
    ensure!(left.is_empty(), "{what} left {left:?}");
    let gone: Vec<_> = before.difference(&after).collect();
    ensure!(gone.is_empty(), "{what} took {gone:?} with it");
    test.saw(&format!("{what} leaves nothing"));
    Ok(())
}
