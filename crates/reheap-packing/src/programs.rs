//! Looks at programs before they are packed: what works on this machine may not start in an image that has nothing else.

use super::libraries;
use anyhow::Context as _;
use reheap_command::ui::{self, Failure};
use reheap_elf::identify::{Identity, Kind, LibcName, Provider};
use reheap_elf::sections;
use reheap_image::layer::Entry;
use reheap_image::sbom::{self, Package};
use reheap_subject::inspect;
use reheap_subject::open_file::OpenFile;
use reheap_subject::program::{LinkAgain, Obstacle};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// More than any list of packages has when it is compressed.
const LIST_BYTES_MAX: u64 = 4 << 20;

/// A program that can be packed.
#[derive(Debug)]
pub struct Packable {
    pub(crate) file: PathBuf,
    /// What it is called in the image.
    pub(crate) name: String,
    pub(crate) identity: Identity,
    /// What it is for, as OCI spells it.
    pub(crate) architecture: &'static str,
    /// What it was made from, if it says so.
    pub(crate) packages: Option<BTreeSet<Package>>,
}

/// What to do with a program that needs libraries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dynamic {
    /// They are an error.
    Refuse,
    /// They are packed, and so are their libraries.
    PackWithLibraries,
}

/// Looks at the programs, and says what the user should know about them.
pub fn read(files: &[PathBuf], dynamic: Dynamic) -> anyhow::Result<Vec<Packable>> {
    let mut programs: Vec<Packable> = Vec::new();
    for file in files {
        let program = read_one(file, dynamic)?;
        let is_twin = |other: &&Packable| {
            other.name == program.name && other.architecture == program.architecture
        };
        if let Some(twin) = programs.iter().find(is_twin) {
            let text = format!(
                "cannot pack `{}` and `{}`: both are {} for {}",
                twin.file.display(),
                file.display(),
                program.name,
                program.architecture
            );
            let hint = "rename one; programs for different platforms may have the same name";
            return Err(Failure::usage(text).hint(hint).into());
        }
        warn_of_stock(&program);
        programs.push(program);
    }
    Ok(programs)
}

fn read_one(file: &Path, dynamic: Dynamic) -> anyhow::Result<Packable> {
    let shown = file.display();
    let refuse = |reason: String| Failure::failed(format!("cannot pack `{shown}`: {reason}"));
    let opened = inspect::open(file).map_err(|error| refuse(error.to_string()))?;
    let identity =
        reheap_elf::identify::identify(&opened).map_err(|error| refuse(error.to_string()))?;
    match identity.kind {
        Kind::Static | Kind::StaticPie => {}
        Kind::Dynamic if dynamic == Dynamic::PackWithLibraries => {}
        Kind::Dynamic => {
            let needs = identity.interpreter.iter().chain(&identity.needed);
            let needs: Vec<&str> = needs.map(String::as_str).collect();
            let reason = format!("it is dynamic and needs {}", needs.join(", "));
            return Err(refuse(reason).hint(instead_of_dynamic(&identity)).into());
        }
        kind => return Err(refuse(format!("it is no program but a {kind}")).into()),
    }
    let name = file.file_name().context("a file has a name")?;
    let name = name
        .to_str()
        .ok_or_else(|| refuse("its name is not UTF-8".to_owned()))?;
    let architecture = oci_architecture(&identity.architecture).ok_or_else(|| {
        refuse(format!(
            "images have no name for its processor, {}",
            identity.architecture
        ))
    })?;
    Ok(Packable {
        file: file.to_owned(),
        name: name.to_owned(),
        packages: packages(&opened),
        architecture,
        identity,
    })
}

fn packages(program: &OpenFile) -> Option<BTreeSet<Package>> {
    let section = sections::contents(program, sbom::SECTION, LIST_BYTES_MAX);
    sbom::of_section(&section.ok()??)
}

fn instead_of_dynamic(identity: &Identity) -> &'static str {
    match identity.rust_global_allocator {
        Some(_) => {
            "build a static one with `cargo reheap build`, or pack its libraries with --with-libraries"
        }
        None => "link it statically with `reheap cc`, or pack its libraries with --with-libraries",
    }
}

/// The libraries of all of them together, by their path in the image.
pub(crate) fn libraries(programs: &[&Packable]) -> anyhow::Result<Vec<(PathBuf, Entry)>> {
    let mut all = BTreeMap::new();
    for program in programs {
        if program.identity.kind == Kind::Dynamic {
            all.extend(libraries::of(&program.file, &program.identity)?);
        }
    }
    Ok(all.into_iter().collect())
}

/// An image makes it easy to run a program on more cores than it was tried on.
fn warn_of_stock(program: &Packable) {
    let identity = &program.identity;
    let Provider::Allocator { name } = &identity.malloc.provider else {
        return;
    };
    let is_stock = identity
        .allocators
        .iter()
        .any(|found| found.name == *name && found.is_stock);
    if !is_stock || identity.libc.name != LibcName::Musl {
        return;
    }
    let way_out = Obstacle::Static(LinkAgain::of(identity)).way_out();
    let Some(way_out) = way_out else { return };
    ui::note(&format!(
        "warning: `{}` allocates with musl's own allocator, which is slow with several threads\n\nhint: {way_out}\n",
        program.file.display()
    ));
}

/// The processor, as OCI and Go call it.
fn oci_architecture(architecture: &str) -> Option<&'static str> {
    Some(match architecture {
        "x86_64" => "amd64",
        "i686" => "386",
        "aarch64" => "arm64",
        "arm" => "arm",
        "riscv64" => "riscv64",
        "ppc64le" => "ppc64le",
        "ppc64" => "ppc64",
        "s390x" => "s390x",
        "loongarch64" => "loong64",
        _ => return None,
    })
}

/// A name that engines allow for an image: lower-case words with single separators (OCI distribution specification).
pub(crate) fn image_name(program: &str) -> String {
    let lower = program.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    if words.is_empty() {
        "image".to_owned()
    } else {
        words.join("-")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_a_name_that_engines_allow() {
        for (program, name) in [
            ("app", "app"),
            ("My_App--2.exe", "my-app-2-exe"),
            ("___", "image"),
            ("größe", "gr-e"),
        ] {
            assert_eq!(image_name(program), name);
        }
    }
}
