//! Checks of the repository that no compiler makes. They are ordinary tests too, so `cargo test` holds them.
//!
//! To add a check: a function from the workspace or its files to [`Finding`]s, and its call in [`findings`].

use anyhow::{Context, Result, bail, ensure};
use cargo_metadata::Package;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;
use xtask::workspace::Workspace;

/// A file that is longer has more than one subject.
const LINES_MAX: usize = 800;

/// Directories of one machine, which mean nothing on another. In two parts, so that this file does not contain them.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Something to fix, and how.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    line: Option<usize>,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.path.display())?;
        if let Some(line) = self.line {
            write!(out, "{line}:")?;
        }
        write!(out, " {}", self.what)
    }
}

/// Prints what there is to fix, and fails if there is anything.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let findings = findings(workspace)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("{} findings above", findings.len());
    }
    Ok(())
}

fn findings(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let files = list_files(&workspace.root, &["--cached"])?;
    let untracked = list_files(&workspace.root, &["--others", "--exclude-standard"])?;
    findings.extend(check_untracked(&untracked));
    for path in &files {
        // Measurements and snapshots too: what wrote them may have kept where it ran.
        let bytes = files::read_bytes(workspace.root.join(path))?;
        findings.extend(check_machine_paths(path, &String::from_utf8_lossy(&bytes)));
    }
    for path in files.iter().filter(|path| is_written_by_people(path)) {
        let text = files::read(workspace.root.join(path))?;
        findings.extend(check_length(path, &text));
        findings.extend(check_language(path, &text));
        if path.extension().is_some_and(|suffix| suffix == "md") {
            findings.extend(check_links(&workspace.root, path, &text));
        }
        if path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") {
            findings.extend(check_header(path, &text));
        }
    }
    for package in &workspace.packages {
        let manifest = package.manifest_path.as_std_path();
        let shown = manifest.strip_prefix(&workspace.root)?;
        findings.extend(check_description(shown, package.description.as_deref()));
        if package.publish.is_none() {
            findings.extend(check_registry_page(shown, package));
        }
    }
    findings.extend(check_workload_readmes(&files));
    findings.extend(check_book(&workspace.root, &files)?);
    Ok(findings)
}

/// The files of one kind that git knows. What it ignores, as builds, is nobody else's concern.
fn list_files(root: &Path, kind: &[&str]) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .args(kind)
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    ensure!(
        output.status.success(),
        "cannot list the files of the repository: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let files = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    // A file that was deleted but not yet committed is still listed.
    let exists = |path: &PathBuf| root.join(path).is_file();
    let files = files.split_terminator('\0').map(PathBuf::from);
    Ok(files.filter(exists).collect())
}

/// Whether people write and read it.
fn is_written_by_people(path: &Path) -> bool {
    const SUFFIXES: [&str; 12] = [
        "rs", "md", "toml", "c", "cc", "cpp", "h", "s", "sh", "py", "java", "mjs",
    ];
    let suffix = path.extension().and_then(|suffix| suffix.to_str());
    let bare =
        path.file_name().is_some_and(|name| name == "Makefile") || path == Path::new(".ci/run");
    let lock = path.ends_with("lock.toml");
    (bare || suffix.is_some_and(|suffix| SUFFIXES.contains(&suffix))) && !lock
}

/// What people wrote and git does not track: it works here, and nobody else will have it.
fn check_untracked(untracked: &[PathBuf]) -> impl Iterator<Item = Finding> {
    let written = untracked.iter().filter(|path| is_written_by_people(path));
    written.map(|path| Finding {
        path: path.clone(),
        line: None,
        what: "git does not track it: add it, or remove it".to_owned(),
    })
}

fn check_length(path: &Path, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    (lines > LINES_MAX).then(|| Finding {
        path: path.to_owned(),
        line: None,
        what: format!("{lines} lines, more than {LINES_MAX}: split it by subject"),
    })
}

/// Closures name their argument, and a choice by a condition is an `if`: clippy's `match_bool` does not see those with
/// guards.
fn check_language(path: &Path, text: &str) -> Vec<Finding> {
    const UNNAMED: [&str; 6] = [
        concat!("|", "it|"),
        concat!("|&", "it|"),
        concat!("|", "it:"),
        concat!("(", "it, "),
        concat!(", ", "it)|"),
        concat!("for ", "it in "),
    ];
    if path.extension().is_none_or(|suffix| suffix != "rs") {
        return Vec::new();
    }
    let found = |(number, line): (usize, &str)| {
        let line = line.trim_start();
        if line.starts_with("//") {
            return None;
        }
        let is_condition = ["true", "false"].iter().any(|value| {
            line.strip_prefix(value)
                .is_some_and(|rest| rest.starts_with(" =>") || rest.starts_with(" if "))
        });
        let what = if is_condition {
            "matches a condition: use `if`"
        } else if UNNAMED.iter().any(|unnamed| line.contains(unnamed)) {
            "names something `it`: say what it is"
        } else {
            return None;
        };
        Some(Finding {
            path: path.to_owned(),
            line: Some(number + 1),
            what: what.to_owned(),
        })
    };
    text.lines().enumerate().filter_map(found).collect()
}

fn check_machine_paths(path: &Path, text: &str) -> Vec<Finding> {
    let found = |(number, line): (usize, &str)| {
        let machine_path = MACHINE_PATHS
            .iter()
            .find(|machine_path| line.contains(**machine_path))?;
        let what = format!("names `{machine_path}`, a directory of one machine");
        Some(Finding {
            path: path.to_owned(),
            line: Some(number + 1),
            what,
        })
    };
    text.lines().enumerate().filter_map(found).collect()
}

/// Links of a page lead to files of the repository, and where they name a heading, to one that is there.
fn check_links(root: &Path, path: &Path, text: &str) -> Vec<Finding> {
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for link in line.split("](").skip(1) {
            let Some((link, _)) = link.split_once(')') else {
                continue;
            };
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => root.join(path),
                file => root.join(directory).join(file),
            };
            let leads_somewhere = match (heading, fs::read_to_string(&target)) {
                ("", _) => target.exists(),
                (heading, Ok(page)) => page
                    .lines()
                    .any(|line| anchor(line) == Some(heading.into())),
                (_, Err(_)) => false,
            };
            if !leads_somewhere {
                findings.push(Finding {
                    path: path.to_owned(),
                    line: Some(number + 1),
                    what: format!("links to `{link}`, which is not there"),
                });
            }
        }
    }
    findings
}

/// What a link to a heading is called, as GitHub makes it; none for a line that is no heading.
fn anchor(line: &str) -> Option<String> {
    let behind = line.strip_prefix('#')?.trim_start_matches('#');
    let title = behind.strip_prefix(' ')?.trim().to_lowercase();
    let kept = title
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    Some(
        kept.map(|letter| if letter == ' ' { '-' } else { letter })
            .collect(),
    )
}

fn check_header(path: &Path, text: &str) -> Option<Finding> {
    (!text.starts_with("//! ")).then(|| Finding {
        path: path.to_owned(),
        line: Some(1),
        what: "does not begin with a `//!` header that says what it is for and why".to_owned(),
    })
}

fn check_description(manifest: &Path, description: Option<&str>) -> Option<Finding> {
    description.is_none_or(str::is_empty).then(|| Finding {
        path: manifest.to_owned(),
        line: None,
        what: "the package has no `description`".to_owned(),
    })
}

/// What the registry shows of a published package, and its licences.
fn check_registry_page(manifest: &Path, package: &Package) -> Option<Finding> {
    let directory = package.manifest_path.parent();
    let has = |name| directory.is_some_and(|directory| directory.join(name).exists());
    let parts = [
        ("readme", package.readme.is_some()),
        ("repository", package.repository.is_some()),
        ("keywords", !package.keywords.is_empty()),
        ("categories", !package.categories.is_empty()),
        ("LICENSE-MIT", has("LICENSE-MIT")),
        ("LICENSE-APACHE", has("LICENSE-APACHE")),
    ];
    let (missing, _) = parts.iter().find(|(_, is_there)| !is_there)?;
    Some(Finding {
        path: manifest.to_owned(),
        line: None,
        what: format!(
            "the package is published without {missing}: see the other crates, or set `publish = false`"
        ),
    })
}

/// mdBook makes a page of each file that the summary names, and links to others lead nowhere in the book.
fn check_book(root: &Path, files: &[PathBuf]) -> Result<Vec<Finding>> {
    const SUMMARY: &str = "docs/SUMMARY.md";
    let summary =
        fs::read_to_string(root.join(SUMMARY)).context("cannot read `docs/SUMMARY.md`")?;
    let is_missing = |path: &&PathBuf| {
        let page = path
            .strip_prefix("docs")
            .map(|page| page.display().to_string());
        let is_page = path.extension().is_some_and(|suffix| suffix == "md");
        is_page
            && page
                .is_ok_and(|page| page != "SUMMARY.md" && !summary.contains(&format!("]({page})")))
    };
    let finding = |path: &PathBuf| Finding {
        path: path.clone(),
        line: None,
        what: format!("is not in the book: name it in {SUMMARY}"),
    };
    Ok(files.iter().filter(is_missing).map(finding).collect())
}

fn check_workload_readmes(files: &[PathBuf]) -> Vec<Finding> {
    let mut readmes = BTreeSet::new();
    for file in files {
        // From the file up: each directory of these two that it lies in is a workload.
        for directory in file.ancestors().skip(1) {
            let parent = directory.parent().unwrap_or(Path::new(""));
            if [Path::new("workloads"), Path::new("lab/workloads")].contains(&parent) {
                readmes.insert(directory.join("README.md"));
            }
        }
    }
    let is_missing = |readme: &PathBuf| !files.contains(readme);
    let finding = |path| Finding {
        path,
        line: None,
        what: "is missing: one line that says what the workload stresses".to_owned(),
    };
    readmes
        .into_iter()
        .filter(is_missing)
        .map(finding)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let findings = findings(&Workspace::find().unwrap()).unwrap();
        let findings: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(
            findings.is_empty(),
            "{}\n\nto see them again: cargo xtask tidy",
            findings.join("\n")
        );
    }

    #[test]
    fn a_long_file_is_found() {
        let path = Path::new("long.rs");
        assert_eq!(check_length(path, &"line\n".repeat(LINES_MAX)), None);
        let finding = check_length(path, &"line\n".repeat(LINES_MAX + 1)).unwrap();
        assert_eq!(
            finding.to_string(),
            "long.rs: 801 lines, more than 800: split it by subject"
        );
    }

    #[test]
    fn conditions_that_are_matched_and_names_that_say_nothing_are_found() {
        let text = concat!(
            "// for ",
            "it in a comment\n",
            "match found {\n    ",
            "true if is_new => {}\n",
            "all.any(|",
            "it| it.is_new());\n",
            "all.any(|(key, ",
            "it)| it.is_new());\n",
        );
        let found = check_language(Path::new("a.rs"), text);
        let lines: Vec<_> = found.iter().filter_map(|finding| finding.line).collect();
        assert_eq!(lines, [3, 4, 5]);
        assert!(check_language(Path::new("a.md"), text).is_empty());
    }

    #[test]
    fn a_directory_of_one_machine_is_found_with_its_line() {
        let text = format!("fine\nsee {}notes\n", MACHINE_PATHS[0]);
        let findings = check_machine_paths(Path::new("notes.md"), &text);
        assert_eq!(
            findings
                .iter()
                .map(|finding| finding.line)
                .collect::<Vec<_>>(),
            [Some(2)]
        );
    }

    #[test]
    fn a_link_to_a_missing_file_or_heading_is_found_outside_of_code() {
        let root = Workspace::find().unwrap().root;
        let check = |text: &str| check_links(&root, Path::new("docs/page.md"), text);
        assert_eq!(
            check("[a](../README.md) [b](https://example.org/x) [c](../README.md#installation)"),
            []
        );
        assert_eq!(check("```\n[a](missing.md)\n```\n"), []);
        let findings = check("fine\n[a](missing.md) and [b](../README.md#missing)\n");
        let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(
            shown,
            [
                "docs/page.md:2: links to `missing.md`, which is not there",
                "docs/page.md:2: links to `../README.md#missing`, which is not there"
            ]
        );
    }

    #[test]
    fn a_workload_without_a_readme_is_found_and_what_git_does_not_track_is_none() {
        let files = [
            "workloads/churn/README.md",
            "workloads/churn/src/main.rs",
            "workloads/json/src/main.rs",
            "lab/workloads/Cargo.toml",
            "lab/workloads/README.md",
            "lab/workloads/tokenize/src/main.rs",
        ];
        let findings = check_workload_readmes(&files.map(PathBuf::from));
        let paths: Vec<&Path> = findings.iter().map(|finding| &*finding.path).collect();
        let missing = [
            "lab/workloads/tokenize/README.md",
            "workloads/json/README.md",
        ];
        assert_eq!(paths, missing.map(Path::new));
    }

    #[test]
    fn a_page_that_is_not_in_the_book_is_found() {
        let files = [
            "docs/README.md",
            "docs/lost.md",
            "README.md",
            "docs/lost.json",
        ];
        let root = Workspace::find().unwrap().root;
        let findings = check_book(&root, &files.map(PathBuf::from)).unwrap();
        let paths: Vec<&Path> = findings.iter().map(|finding| &*finding.path).collect();
        assert_eq!(paths, [Path::new("docs/lost.md")]);
    }

    #[test]
    fn closures_without_a_name_and_matched_conditions_are_found_with_their_line() {
        let text = concat!(
            "all.map(|",
            "it| it);\nmatch is_so {\n    tr",
            "ue => 1,\n    Some(true) => 2,\n"
        );
        let lines = |path: &str| -> Vec<Option<usize>> {
            let findings = check_language(Path::new(path), text);
            findings.iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("crates/reheap-elf/src/lib.rs"), [Some(1), Some(3)]);
        assert_eq!(lines("crates/reheap-elf/README.md"), []);
    }

    #[test]
    fn a_heading_is_linked_as_github_does() {
        let heading = "## Limits of address space: `ulimit -v`";
        assert_eq!(
            anchor(heading).as_deref(),
            Some("limits-of-address-space-ulimit--v")
        );
        assert_eq!(anchor("#!/bin/sh"), None);
    }

    #[test]
    fn a_crate_root_without_a_header_and_a_package_without_a_description_are_found() {
        assert!(check_header(Path::new("src/lib.rs"), "use std::io;\n").is_some());
        assert!(check_header(Path::new("src/lib.rs"), "//! Why.\n").is_none());
        assert!(check_description(Path::new("Cargo.toml"), None).is_some());
        assert!(check_description(Path::new("Cargo.toml"), Some("What it does")).is_none());
    }
}
