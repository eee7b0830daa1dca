//! What the programs work on: files of packages at fixed versions, as they are published.

use crate::programs::NpmPackage;
use crate::registry;
use crate::sources::copy;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use xtask::files;
use xtask::progress::Progress;

#[rustfmt::skip] // a table
/// Packages of the npm registry, and how scripts and commands call them.
const NPM: [(&str, NpmPackage); 8] = [
    ("bootstrap", NpmPackage { name: "bootstrap", version: "5.3.8", sha256: "8b02d4a7482e0f0a2b1da58f1c9c86830e96cc2f77f094f89e4681b19886bc38" }),
    ("uikit", NpmPackage { name: "uikit", version: "3.24.2", sha256: "8c64028607e3285a675547f2e8ad3ceaa1a90ac3ca7a78950b0dc5ee54cc453c" }),
    ("emoji", NpmPackage { name: "emoji-datasource-twitter", version: "16.0.0", sha256: "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877" }),
    ("npm", NpmPackage { name: "npm", version: "11.6.2", sha256: "585f95094ee5cb2788ee11d90f2a518a7c9ef6e083fa141d0b63ca3383675a20" }),
    ("compat", NpmPackage { name: "@mdn/browser-compat-data", version: "7.1.20", sha256: "9122e428897c1b258d0fbd7e67275d82d4daacf89e1db069468c25f304aa1bbf" }),
    ("typescript", NpmPackage { name: "typescript", version: "5.9.3", sha256: "10e108c9cf7d5f2879053dff18515fb405abf2ccef63eaaf017d9c571687a1d3" }),
    ("marked", NpmPackage { name: "marked", version: "16.4.1", sha256: "9144f0e2a4cea7837a698aaf84291cb89a796ef2495b28cb339c90ae78c48751" }),
    ("dictionary", NpmPackage { name: "dictionary-en", version: "4.0.0", sha256: "160cba5e6c0230d43d70b0c929e498566ff2c3c4bcf840318d98ce28e31ee756" }),
];
/// Packages of the Rust registry; Cargo checks them.
const CRATES: [(&str, &str, &str); 3] = [
    ("sdk", "aws-sdk-ec2", "1.274.0"),
    ("luajit-src", "luajit-src", "210.5.12+a4f56a4"),
    ("python", "rustpython-parser", "0.2.0"),
];
/// How many pictures are optimised, and how often the same Markdown and Lua is read, for a run of about half a second.
const PICTURES: usize = 150;
const DOCUMENTS: usize = 8;
const COPIES: usize = 2;

/// Fetches everything into a directory, and makes of it what a program cannot read as it is.
pub(super) fn prepare(directory: &Path, progress: &Progress) -> Result<PathBuf> {
    let inputs = directory.join("inputs");
    if inputs.exists() {
        return Ok(inputs);
    }
    let fresh = directory.join("inputs.new");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).context("cannot delete what is left of an earlier attempt")?;
    }
    files::make_directory(&fresh)?;
    for (called, package) in NPM {
        package.unpack(&fresh.join(called), progress)?;
    }
    for (called, package, version) in CRATES {
        progress.say(format!("fetching {package} {version}"));
        let (_, sources) = registry::fetched(directory, package, version)?;
        copy(&sources, &fresh.join(called))?;
    }
    arrange(&fresh)?;
    fs::rename(&fresh, &inputs).context("cannot rename the inputs")?;
    Ok(inputs)
}

/// Puts together what is spread over packages.
fn arrange(inputs: &Path) -> Result<()> {
    let into = |name: &str| -> Result<PathBuf> {
        let directory = inputs.join(name);
        files::make_directory(&directory)?;
        Ok(directory)
    };
    let documents = with_ending(&inputs.join("npm"), "md")?;
    let text: String = documents.iter().map(files::read).collect::<Result<_>>()?;
    files::write(inputs.join("doc.md"), text.repeat(DOCUMENTS))?;
    files::write(inputs.join("words.txt"), text)?;

    let png = into("png")?;
    for picture in with_ending(&inputs.join("emoji/img/twitter/64"), "png")?
        .iter()
        .take(PICTURES)
    {
        copy_into(picture, &png)?;
    }
    fs::rename(inputs.join("luajit-src/luajit2"), inputs.join("luajit")).context("no LuaJIT")?;
    for copy in 0..COPIES {
        let lua = into(&format!("lua/{copy}"))?;
        for script in with_ending(&inputs.join("luajit/dynasm"), "lua")? {
            copy_into(&script, &lua)?;
        }
    }
    files::copy(
        &inputs.join("python/python.lalrpop"),
        &inputs.join("python.lalrpop"),
    )?;
    into("out")?;
    Ok(())
}

fn copy_into(file: &Path, directory: &Path) -> Result<()> {
    let name = file.file_name().context("a file has no name")?;
    files::copy(file, &directory.join(name))
}

/// All files below a directory whose names end so, in the order of their paths.
fn with_ending(directory: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in files::entries(directory)? {
        if path.is_dir() {
            found.extend(with_ending(&path, ending)?);
        } else if path.extension().is_some_and(|end| end == ending) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
