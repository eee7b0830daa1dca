//! What a person does with reheap after an installation, whatever the package was.

use super::TestDist;
use super::root::Root;
use anyhow::{Context as _, Result, ensure};
use std::collections::BTreeSet;
use std::fs;

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
