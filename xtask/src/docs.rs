//! `make docs`: builds the book of `docs/` with mdBook, and checks the links of what it wrote.
//!
//! The tidy checks know that links lead somewhere on GitHub. In the book they are others: a page has another name, a
//! heading may have another anchor, and what is outside of `docs/` is not there. mdbook-linkcheck, which looked at that,
//! is no longer maintained, and does not know mdBook 0.5.

use anyhow::{Result, ensure};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::files;
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// Where `docs/book.toml` has the book built, from the root of the workspace.
const BOOK: &str = "target/book";

/// Pages of mdBook's own: they repeat others, with links that are right elsewhere.
const NOT_WRITTEN: [&str; 3] = ["404.html", "print.html", "toc.html"];

/// Builds the book and checks its links.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let progress = Progress::start();
    let mut mdbook = Command::new("mdbook");
    let docs = workspace.root.join("docs");
    progress.step("the book", mdbook.arg("build").arg(docs))?;
    let book = workspace.root.join(BOOK);
    let dead = dead_links(&book)?;
    for link in &dead {
        progress.say(link);
    }
    ensure!(dead.is_empty(), "{} links lead nowhere", dead.len());
    let first = book.join("index.html");
    progress.say(format!("all links lead somewhere: {}", first.display()));
    Ok(())
}

/// Each link between the pages of a book that leads nowhere, in words.
fn dead_links(book: &Path) -> Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    read_pages(book, &mut pages)?;
    let mut dead = Vec::new();
    for (page, text) in &pages {
        let shown = page.strip_prefix(book).unwrap_or(page);
        if NOT_WRITTEN.iter().any(|name| shown == Path::new(name)) {
            continue;
        }
        for link in links(text) {
            if !leads_somewhere(link, page, &pages) {
                dead.push(format!("{} links to `{link}`", shown.display()));
            }
        }
    }
    Ok(dead)
}

fn read_pages(directory: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for path in files::entries(directory)? {
        if path.is_dir() {
            read_pages(&path, pages)?;
        } else if path.extension().is_some_and(|suffix| suffix == "html") {
            let text = files::read(&path)?;
            pages.insert(path, text);
        }
    }
    Ok(())
}

/// Where the links and pictures of a page lead.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let after = |attribute| page.split(attribute).skip(1);
    let ends = after(" href=\"").chain(after(" src=\""));
    ends.filter_map(|text| Some(text.split_once('"')?.0))
}

/// Links to elsewhere are left alone. A directory counts, because it has the raw data of a page.
fn leads_somewhere(link: &str, page: &Path, pages: &BTreeMap<PathBuf, String>) -> bool {
    if link.contains(':') {
        return true;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match (file, page.parent()) {
        ("", _) => page.to_owned(),
        (file, Some(directory)) => directory.join(file),
        (file, None) => PathBuf::from(file),
    };
    let Ok(target) = target.canonicalize() else {
        return false;
    };
    let has_anchor = |text: &String| text.contains(&format!(" id=\"{anchor}\""));
    anchor.is_empty() || pages.get(&target).is_some_and(has_anchor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_link_to_a_missing_page_or_heading_is_dead() {
        let directory = tempfile::tempdir().unwrap();
        let book = directory.path().canonicalize().unwrap();
        fs::create_dir(book.join("raw")).unwrap();
        let one = "<h1 id=\"one\"></h1><a href=\"#one\"></a><a href=\"two.html#two\"></a>\
                   <a href=\"raw/\"></a><a href=\"https://example.org/x#y\"></a>";
        let two = "<h1 id=\"two\"></h1><a href=\"../three.html\"></a><a href=\"one.html#two\"></a>\
                   <img src=\"missing.svg\">";
        fs::write(book.join("one.html"), one).unwrap();
        fs::write(book.join("two.html"), two).unwrap();
        let dead = ["../three.html", "one.html#two", "missing.svg"];
        assert_eq!(
            dead_links(&book).unwrap(),
            dead.map(|link| format!("two.html links to `{link}`"))
        );
    }
}
