//! `cargo lab measure --real`: programs that nobody here wrote, from the registries, at everyday work.
//!
//! To add one: a row, and for C or C++ a script in `lab/real` that compiles it.

mod build;
mod inputs;
mod page;

use crate::known::Known;
use crate::programs::{Commands, Prepared, fetched};
use anyhow::Result;
use build::Building;
pub(crate) use page::{CHART, PAGE, block, chart, long_tables, page};
use xtask::progress::Progress;
use xtask::workspace::Workspace;

/// In the directory of the measurements.
pub(crate) const DIRECTORY: &str = "real";

/// A program, and what it is asked to do.
struct Row {
    /// In Rust, that of its executable.
    name: &'static str,
    source: Source,
    /// Its command. `{program}` is the executable, with what is preloaded into it; `{in}` is the directory of the inputs,
    /// `{lab}` that of the scripts.
    command: &'static str,
    /// Whether it prints something else now and then, with any allocator.
    output_varies: bool,
}

enum Source {
    /// A package of the Rust registry, built with these flags of Cargo.
    Rust {
        package: &'static str,
        version: &'static str,
        flags: &'static [&'static str],
    },
    /// The C sources in a package of the Rust registry, compiled by `lab/real/<name>.sh`.
    Sources {
        package: &'static str,
        version: &'static str,
    },
    /// A source package of Debian, compiled by `lab/real/<name>.sh`.
    Debian {
        package: &'static str,
        language: Language,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Language {
    C,
    Cxx,
}

const fn rust(
    name: &'static str,
    package: &'static str,
    version: &'static str,
    flags: &'static [&'static str],
    command: &'static str,
) -> Row {
    Row {
        name,
        source: Source::Rust {
            package,
            version,
            flags,
        },
        command,
        output_varies: false,
    }
}

const fn debian(
    name: &'static str,
    package: &'static str,
    language: Language,
    command: &'static str,
) -> Row {
    Row {
        name,
        source: Source::Debian { package, language },
        command,
        output_varies: false,
    }
}

/// Without the feature that chooses an allocator.
const PLAIN: &[&str] = &["--no-default-features"];

#[rustfmt::skip] // a table
const ROWS: &[Row] = &[
    rust("stylua", "stylua", "2.6.0", &[], "{program} --syntax Lua51 {in}/lua"),
    Row {
        output_varies: true, // one selector more, with stock musl as often as with reheap
        ..rust("grass", "grass", "0.13.4", &[], "{program} --load-path {in} {lab}/themes.scss")
    },
    rust("comrak", "comrak", "0.59.0", &[], "{program} --gfm {in}/doc.md"),
    rust("oxipng", "oxipng", "10.2.1", &[], "{program} -o 2 --dry-run -q -r {in}/png"),
    rust("lalrpop", "lalrpop", "0.23.2", &[], "{program} --force --out-dir {in}/out {in}/python.lalrpop"),
    rust("minijinja-cli", "minijinja-cli", "3.0.5", &[], "{program} {lab}/features.html {in}/compat/data.json"),
    rust("tokei", "tokei", "14.0.0", &[], "{program} {in}/sdk"),
    rust("jaq", "jaq", "3.1.2", PLAIN, "{program} -f {lab}/tags.jq {in}/compat/data.json"),
    rust("ambs", "amber", "0.6.1", &[], "{program} --no-color --regex 'fn (set|get)_\\w+_id\\b' {in}/sdk/src/types"),
    debian("lua", "lua5.4", Language::C, "{program} {lab}/dynasm.lua {in}/luajit"),
    Row {
        name: "quickjs",
        source: Source::Sources { package: "rquickjs-sys", version: "0.14.0" },
        command: "{program} --std {lab}/marked.js {in}",
        output_varies: false,
    },
    debian("sqlite3", "sqlite3", Language::C, "{program} :memory: '.cd {in}' '.read {lab}/emoji.sql'"),
    debian("zstd", "libzstd", Language::C, "{program} -q -9 -T2 -c {in}/typescript/lib/typescript.js"),
    debian("jsonnet", "jsonnet", Language::Cxx, "{program} -J {in} {lab}/emoji.jsonnet"),
    debian("hunspell", "hunspell", Language::Cxx, "{program} -d {in}/dictionary/index -l {in}/words.txt"),
];

/// The version of a program, where it is fixed here; Debian's is that of the release.
fn version(name: &str) -> Option<&'static str> {
    let row = ROWS.iter().find(|row| row.name == name)?;
    match row.source {
        Source::Rust { version, .. } | Source::Sources { version, .. } => Some(version),
        Source::Debian { .. } => None,
    }
}

fn is_in_rust(name: &str) -> bool {
    let mut rows = ROWS.iter().filter(|row| row.name == name);
    rows.any(|row| matches!(row.source, Source::Rust { .. }))
}

/// Fetches the inputs, and builds every variant of the chosen programs.
pub(crate) fn prepare(
    workspace: &Workspace,
    progress: &Progress,
    known: &Known,
    is_chosen: impl Fn(&str) -> bool,
) -> Result<Prepared> {
    let directory = fetched(workspace)?;
    let inputs = inputs::prepare(&directory, progress)?;
    let building = Building {
        workspace,
        progress,
        known,
        directory: &directory,
    };
    let mut prepared = Prepared::of_rust(Vec::new());
    for row in ROWS.iter().filter(|row| is_chosen(row.name)) {
        match building.variants(row) {
            Ok(variants) => {
                let command = |program: &str| {
                    row.command
                        .replace("{program}", program)
                        .replace("{in}", &inputs.display().to_string())
                        .replace("{lab}", &building.scripts().display().to_string())
                };
                let variants = variants
                    .into_iter()
                    .map(|(name, program)| format!("{name}={}", command(&program)));
                prepared.commands.push(Commands {
                    name: row.name,
                    environment: Vec::new(),
                    variants: variants.collect(),
                    output_varies: row.output_varies,
                });
            }
            Err(error) => prepared.leave_out(row.name, &error),
        }
    }
    Ok(prepared)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    #[test]
    fn every_file_beside_the_scripts_belongs_to_a_program() {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("real");
        let mut needed = BTreeSet::from(["lib.sh".to_owned()]);
        for row in ROWS {
            if !matches!(row.source, Source::Rust { .. }) {
                needed.insert(format!("{}.sh", row.name));
            }
            let words = row.command.split(' ');
            let named = words.filter_map(|word| word.strip_prefix("{lab}/"));
            needed.extend(named.map(|name| name.trim_end_matches('\'').to_owned()));
        }
        let entries = fs::read_dir(scripts).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.collect::<BTreeSet<_>>(), needed);
    }
}
