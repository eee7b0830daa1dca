//! Which libraries an image has: by its distribution, the packages that are installed, and what else is put there.
//!
//! Debian's paths are from its packages (bookworm: libjemalloc2 5.3.0, libmimalloc2.0 2.0.9, libtcmalloc-minimal4 2.10,
//! and their -dev packages, which have the names without a number). Alpine has no directories by processor; its packages
//! jemalloc and mimalloc2 put libraries into `/usr/lib`.

use crate::workflows::dockerfile::Instruction;
use crate::workflows::shell::{self, Command};

/// The distribution of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Base {
    /// Debian, Ubuntu, and images of languages that are based on them.
    Debian,
    /// Alpine.
    Alpine,
    /// Another one, or one that cannot be known.
    Unknown,
}

/// Docker's own images of languages that are based on Debian or Ubuntu, unless their tag says otherwise.
const OF_DEBIAN: [&str; 10] = [
    "buildpack-deps",
    "debian",
    "eclipse-temurin",
    "golang",
    "node",
    "perl",
    "php",
    "python",
    "ruby",
    "rust",
];
/// Tags that say so.
const OTHERS: [&str; 9] = [
    "$",
    "centos",
    "fedora",
    "nanoserver",
    "oracle",
    "rocky",
    "ubi",
    "windows",
    "wolfi",
];
/// Where Docker's own images come from.
const LIBRARIES: [&str; 8] = [
    "docker.io/library/",
    "docker.io/",
    "library/",
    "public.ecr.aws/docker/library/",
    "mirror.gcr.io/library/",
    "mirror.gcr.io/",
    "amd64/",
    "arm64v8/",
];

impl Base {
    pub(super) fn of(image: &str) -> Self {
        let image = image.split('@').next().unwrap_or("");
        let own = LIBRARIES
            .iter()
            .find_map(|from| image.strip_prefix(from))
            .unwrap_or(image);
        let (name, tag) = own.split_once(':').unwrap_or((own, ""));
        if name == "alpine" || OF_DEBIAN.contains(&name) && tag.contains("alpine") {
            return Self::Alpine;
        }
        if name == "ubuntu" || name == "debian" {
            return Self::Debian;
        }
        let names_debian = [
            "slim", "bookworm", "bullseye", "trixie", "buster", "jammy", "noble",
        ];
        let is_debian = if names_debian.iter().any(|name| tag.contains(name)) {
            !tag.contains("alpine")
        } else {
            !OTHERS.iter().any(|other| tag.contains(other))
        };
        if OF_DEBIAN.contains(&name) && is_debian {
            Self::Debian
        } else {
            Self::Unknown
        }
    }
}

/// A library that distributions have.
struct Library {
    /// How its file begins.
    file: &'static str,
    /// What all packages with it have in their names.
    names: &'static [&'static str],
    /// Debian's packages that depend on it, by a part of their names (`apt-cache rdepends --recurse`).
    brought_by: &'static [&'static str],
    debian: &'static str,
    alpine: &'static str,
    /// The number behind the name in packages that are not for developers.
    number: &'static str,
}

impl Library {
    /// The name, or the path, of a file that is there without packages for developers.
    fn numbered(&self, name: &str) -> String {
        match name.rsplit_once(".so") {
            Some((stem, _)) if !self.has_number(name) => format!("{stem}.so.{}", self.number),
            _ => name.to_owned(),
        }
    }

    /// Whether the name ends with the packages' number, which more numbers may follow.
    fn has_number(&self, name: &str) -> bool {
        let number = name.rsplit_once(".so.").map(|(_, number)| number);
        number.is_some_and(|number| number.split('.').next() == Some(self.number))
    }

    /// Debian's package with it: the small tcmalloc has one of its own.
    fn package_of_debian(&self, name: &str) -> &'static str {
        if name.starts_with("libtcmalloc") && !name.starts_with("libtcmalloc_minimal") {
            "libgoogle-perftools4"
        } else {
            self.debian
        }
    }
}

const LIBRARIES_OF_ALLOCATORS: [Library; 3] = [
    Library {
        file: "libjemalloc.so",
        names: &["jemalloc"],
        brought_by: &[
            "bind9",
            "blender",
            "clickhouse",
            "dnsutils",
            "drmaa",
            "eccodes",
            "freeipa",
            "freedombox",
            "gridengine",
            "heimdal",
            "knot-resolver",
            "krb5",
            "libpam",
            "mariadb",
            "nghttp2",
            "redis",
            "salmon",
            "ssvnc",
            "systemtap",
            "testssl",
            "varnish",
        ],
        debian: "libjemalloc2",
        alpine: "jemalloc",
        number: "2",
    },
    Library {
        file: "libmimalloc",
        names: &["mimalloc"],
        brought_by: &["mold"],
        debian: "libmimalloc2.0",
        alpine: "mimalloc2",
        number: "2",
    },
    Library {
        file: "libtcmalloc",
        names: &["tcmalloc", "perftools"],
        brought_by: &[
            "ceph",
            "jxl",
            "mps",
            "rados",
            "rbd",
            "scram",
            "swi-prolog",
            "yrmcds",
        ],
        debian: "libtcmalloc-minimal4",
        alpine: "gperftools",
        number: "4",
    },
];

/// What is put into an image.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Packages, as they are named.
    packages: Vec<String>,
    /// Packages that cannot be known, or scripts that may install some.
    is_open: bool,
    /// Whatever else commands and copies mention.
    mentions: Vec<String>,
    /// Where files are copied to.
    copies: Vec<String>,
    /// Whether images for several kinds of processors are made.
    pub(super) is_of_many_platforms: bool,
}

impl Contents {
    pub(super) fn of<'a>(instructions: impl Iterator<Item = &'a Instruction>) -> Self {
        let mut contents = Self::default();
        let mut directory: Option<String> = None;
        for instruction in instructions {
            let text = &instruction.text;
            match instruction.keyword.as_str() {
                "RUN" => {
                    let commands = shell::commands(text);
                    commands
                        .iter()
                        .for_each(|command| contents.add_command(command));
                }
                "COPY" | "ADD" => contents.add_copy(text, directory.as_deref()),
                "WORKDIR" if text.starts_with('/') => directory = Some(text.clone()),
                "WORKDIR" => directory = directory.map(|above| format!("{above}/{text}")),
                _ => {}
            }
        }
        contents
    }

    fn add_command(&mut self, command: &Command) {
        let words = &command.words;
        let is = |names: &[&str]| words.iter().position(|word| names.contains(&word.as_str()));
        let installs = is(&["apt-get", "apt", "aptitude", "apk"]);
        let action = installs.and_then(|at| {
            let mut rest = words
                .iter()
                .enumerate()
                .skip(at)
                .filter(|(_, word)| ["install", "add"].contains(&word.as_str()));
            rest.next().map(|(at, _)| at)
        });
        if let Some(action) = action {
            for word in &words[action + 1..] {
                self.is_open |= word.contains(['$', '`', '<', '*', '/']);
                // `libjemalloc2=5.3.0-1`, `jemalloc>5`
                let name = word.split(['=', '>', '<', '~']).next().unwrap_or(word);
                self.packages.push(name.to_owned());
            }
            return;
        }
        let is_script = |word: &String| {
            word.ends_with(".sh")
                || word.ends_with(".bash")
                || word.ends_with(".deb")
                || word.ends_with(".py")
        };
        self.is_open |= words.iter().any(is_script)
            || words
                .first()
                .is_some_and(|word| word.contains('/') && !word.starts_with("--"))
            || is(&[
                "xargs",
                "ansible-playbook",
                "nix",
                "nix-env",
                "conda",
                "dpkg",
                "make",
                "just",
            ])
            .is_some();
        self.mentions.extend(words.iter().cloned());
    }

    fn add_copy(&mut self, text: &str, directory: Option<&str>) {
        let list = text.trim().trim_start_matches('[').trim_end_matches(']');
        let words: Vec<&str> = list
            .split([' ', ',', '\n', '\t'])
            .map(|word| word.trim_matches('"'))
            .filter(|word| !word.is_empty() && !word.starts_with("--"))
            .collect();
        self.mentions
            .extend(words.iter().map(|word| (*word).to_owned()));
        // A here-document's contents are behind the path.
        let Some(to) = text.lines().next().and_then(|line| {
            line.trim_end_matches(']')
                .split([' ', ','])
                .rfind(|word| !word.is_empty())
        }) else {
            return;
        };
        let to = to.trim_matches('"');
        let to = match (to.starts_with('/'), directory) {
            (true, _) => to.to_owned(),
            (false, Some(directory)) => format!("{directory}/{}", to.trim_start_matches("./")),
            // Wherever the base works.
            (false, None) => "/".to_owned(),
        };
        self.copies.push(to);
    }

    /// Whether something other than a package may have put the file there.
    fn may_have(&self, path: &str, library: &Library) -> bool {
        let is_named = |word: &String| library.names.iter().any(|name| word.contains(name));
        let is_below = |to: &String| {
            let to = to.trim_end_matches(['/', '.']);
            path == to
                || path
                    .strip_prefix(to)
                    .is_some_and(|rest| rest.starts_with('/'))
                || to.contains('$')
        };
        self.is_open || self.mentions.iter().any(is_named) || self.copies.iter().any(is_below)
    }

    /// Whether packages for developers are installed, which have names without numbers.
    fn is_for_developers(&self) -> bool {
        self.packages
            .iter()
            .any(|package| package.ends_with("-dev"))
    }

    fn has_package(&self, library: &Library) -> bool {
        let names: Vec<&str> = library
            .names
            .iter()
            .chain(library.brought_by)
            .copied()
            .collect();
        self.packages
            .iter()
            .any(|package| names.iter().any(|name| package.contains(name)))
    }

    /// Whether this package has the library, and no other one may have it in another version.
    fn has_only(&self, package: &str, library: &Library) -> bool {
        let is_named = |package: &&String| library.names.iter().any(|name| package.contains(name));
        let mut packages = self.packages.iter().filter(is_named).peekable();
        packages.peek().is_some()
            && packages.all(|installed| installed == package || installed.ends_with("-dev"))
    }
}

/// Why a path is not there, and what to do; nothing if it may be.
pub(super) fn missing(path: &str, base: Base, contents: &Contents) -> Option<(String, String)> {
    if path.contains(['*', '?', '[']) {
        let what =
            format!("`{path}` is no path: neither a shell nor the dynamic linker expands it here");
        let name = path.rsplit('/').next().unwrap_or(path);
        return Some((what, name_alone(name)));
    }
    let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
    let library = LIBRARIES_OF_ALLOCATORS
        .iter()
        .find(|library| name.starts_with(library.file))?;
    if contents.may_have(path, library) {
        return None;
    }
    match base {
        Base::Debian => on_debian(path, directory, name, library, contents),
        Base::Alpine => on_alpine(path, directory, name, library, contents),
        Base::Unknown => None,
    }
}

fn on_debian(
    path: &str,
    directory: &str,
    name: &str,
    library: &Library,
    contents: &Contents,
) -> Option<(String, String)> {
    let below = directory.strip_prefix("/usr").unwrap_or(directory);
    let of_processor = below
        .strip_prefix("/lib/")
        .filter(|part| part.ends_with("-linux-gnu"));
    if ["/lib", "/lib64"].contains(&below) {
        let what = format!("`{path}` is not where Debian has it");
        let install = if contents.has_package(library) {
            String::new()
        } else {
            format!(
                ", and `apt-get install {}`",
                library.package_of_debian(name)
            )
        };
        let name = if name.ends_with(".so") && contents.is_for_developers() {
            name.to_owned()
        } else {
            library.numbered(name)
        };
        let fix = format!(
            "write `/usr/lib/x86_64-linux-gnu/{name}`, or `{name}` alone for all processors{install}"
        );
        return Some((what, fix));
    }
    if !directory.is_empty() && of_processor.is_none() {
        return None;
    }
    if !contents.has_package(library) {
        return Some(not_installed(
            path,
            &library.numbered(name),
            &format!("apt-get install {}", library.package_of_debian(name)),
        ));
    }
    if let Some(finding) = misnumbered(path, library, library.package_of_debian(name), contents) {
        return Some(finding);
    }
    let is_fixed = of_processor == Some("x86_64-linux-gnu") && contents.is_of_many_platforms;
    is_fixed.then(|| {
        let what = format!(
            "`{path}` is only there on x86_64, and this makes images for other processors, too"
        );
        (what, name_alone(name))
    })
}

fn on_alpine(
    path: &str,
    directory: &str,
    name: &str,
    library: &Library,
    contents: &Contents,
) -> Option<(String, String)> {
    if directory.ends_with("-linux-gnu") {
        let what = format!("`{path}` is Debian's path, and this is Alpine");
        let name = library.numbered(name);
        return Some((
            what,
            format!("write `/usr/lib/{name}`, with `apk add {}`", library.alpine),
        ));
    }
    if !directory.is_empty() && directory != "/usr/lib" {
        return None;
    }
    if !contents.has_package(library) {
        let command = format!("apk add {}", library.alpine);
        return Some(not_installed(path, &library.numbered(name), &command));
    }
    misnumbered(path, library, library.alpine, contents)
}

fn name_alone(name: &str) -> String {
    format!("write the name alone, `{name}`: the dynamic linker looks in its own directories")
}

/// A library is there, but not by this name.
fn misnumbered(
    path: &str,
    library: &Library,
    package: &str,
    contents: &Contents,
) -> Option<(String, String)> {
    let numbered = library.numbered(path);
    let what = if path.ends_with(".so") {
        if contents.is_for_developers() {
            return None;
        }
        format!("`{path}` is only in a -dev package, which is not installed")
    } else {
        if numbered == path || !contents.has_only(package, library) {
            return None;
        }
        format!("`{path}` is not in `{package}`, which has another version")
    };
    Some((what, format!("write `{numbered}`")))
}

fn not_installed(path: &str, numbered: &str, command: &str) -> (String, String) {
    let what = format!("nothing here installs `{path}`");
    let fix = if path.ends_with(numbered) {
        format!("install it with `{command}`")
    } else {
        format!("`{command}` brings it as `{numbered}`")
    };
    (what, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_of_an_image_is_known_or_left_open() {
        for (image, base) in [
            ("debian:12-slim", Base::Debian),
            ("debian:$RELEASE", Base::Debian),
            ("docker.io/library/rust:1.95-slim", Base::Debian),
            ("python:3.12", Base::Debian),
            ("python:$VERSION-slim", Base::Debian),
            ("python:$VERSION", Base::Unknown),
            ("python:3.12-alpine@sha256:00", Base::Alpine),
            ("node:$V-alpine", Base::Alpine),
            ("eclipse-temurin:21-ubi9-minimal", Base::Unknown),
            ("ghcr.io/someone/debian:12", Base::Unknown),
            ("gcr.io/distroless/cc", Base::Unknown),
            ("scratch", Base::Unknown),
        ] {
            assert_eq!(Base::of(image), base, "{image}");
        }
    }
}
