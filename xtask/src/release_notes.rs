//! The notes of a release, for the forge: its section of `CHANGELOG.md`.
//!
//! With a tag, this is also what refuses a release before anything is built: a tag that is not the version, a section
//! without a date, an `install.sh` that does not know where releases are.

use anyhow::{Context as _, Result, bail, ensure};
use xtask::files;
use xtask::workspace::Workspace;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Prints the notes of this version. With the tag of a release, everything must be ready for it.
pub(crate) fn run(workspace: &Workspace, tag: Option<&str>) -> Result<()> {
    let changelog = files::read(workspace.root.join("CHANGELOG.md"))?;
    let section = Section::of(&changelog, VERSION)?;
    if let Some(tag) = tag {
        let installer = files::read(workspace.root.join("install.sh"))?;
        check(tag, VERSION, &section, &installer)?;
    }
    print!("{}", section.notes(VERSION));
    Ok(())
}

/// What the changelog says of a version.
struct Section<'a> {
    /// What follows the version in its heading.
    date: &'a str,
    text: &'a str,
}

impl<'a> Section<'a> {
    fn of(changelog: &'a str, version: &str) -> Result<Section<'a>> {
        let heading = format!("\n## {version} ");
        let missing = || format!("cannot find the heading `## {version} (date)` in `CHANGELOG.md`");
        let (_, section) = changelog.split_once(&heading).with_context(missing)?;
        let (date, rest) = section.split_once('\n').unwrap_or((section, ""));
        let text = rest.split_once("\n## ").map_or(rest, |(text, _)| text);
        Ok(Section {
            date: date.trim_matches(['(', ')']),
            text: text.trim(),
        })
    }

    /// With addresses for the files that it links to: outside of the repository, their paths lead nowhere.
    fn notes(&self, version: &str) -> String {
        let mut pieces = self.text.split("](");
        let mut notes = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let target = piece.split(')').next().unwrap_or_default();
            notes.push_str("](");
            if !target.contains("://") {
                notes.push_str(&format!("{REPOSITORY}/blob/v{version}/"));
            }
            notes.push_str(piece);
        }
        notes + "\n"
    }
}

fn check(tag: &str, version: &str, section: &Section<'_>, installer: &str) -> Result<()> {
    ensure!(
        tag.strip_prefix('v') == Some(version),
        "the tag `{tag}` is not `v{version}`, the version in `Cargo.toml`"
    );
    let is_date = section.date.len() == "2026-01-31".len()
        && (section.date.chars()).all(|sign| sign.is_ascii_digit() || sign == '-');
    ensure!(
        is_date,
        "`CHANGELOG.md` has `{}` and no date beside {version}",
        section.date
    );
    let Some(releases) = (installer.lines()).find_map(|line| line.strip_prefix("RELEASES=")) else {
        bail!("`install.sh` has no line `RELEASES=`");
    };
    ensure!(
        releases.trim_matches(['"', '\'']) == format!("{REPOSITORY}/releases"),
        "`install.sh` does not know where releases are\n\nhint: RELEASES={REPOSITORY}/releases"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## 0.2.0 (2026-12-01)\n\nNew.\n\n### Look\n\n- [a](docs/a.md) and \
                             [b](https://example.org)\n\n## 0.1.0 (not released yet)\n\nThe first.\n";
    const INSTALLER: &str = "set -eu\nRELEASES=https://github.com/reheap/reheap/releases\n";

    fn refusal(tag: &str, version: &str, installer: &str) -> String {
        let section = Section::of(CHANGELOG, version).unwrap();
        let error = check(tag, version, &section, installer).unwrap_err();
        error.to_string()
    }

    #[test]
    fn notes_are_the_section_of_the_version_and_their_links_are_addresses() {
        let section = Section::of(CHANGELOG, "0.2.0").unwrap();
        assert_eq!(
            section.notes("0.2.0"),
            "New.\n\n### Look\n\n- [a](https://github.com/reheap/reheap/blob/v0.2.0/docs/a.md) and \
             [b](https://example.org)\n"
        );
        check("v0.2.0", "0.2.0", &section, INSTALLER).unwrap();
        let last = Section::of(CHANGELOG, "0.1.0").unwrap();
        assert_eq!(last.notes("0.1.0"), "The first.\n");
        assert!(Section::of(CHANGELOG, "0.1").is_err());
    }

    #[test]
    fn a_release_that_is_not_ready_is_refused() {
        let other = refusal("v0.3.0", "0.2.0", INSTALLER);
        assert!(other.contains("is not `v0.2.0`"), "{other}");
        let without_date = refusal("v0.1.0", "0.1.0", INSTALLER);
        assert!(
            without_date.contains("`not released yet`"),
            "{without_date}"
        );
        let nowhere = refusal("v0.2.0", "0.2.0", "RELEASES=\n");
        assert!(nowhere.contains("hint: RELEASES="), "{nowhere}");
    }
}
