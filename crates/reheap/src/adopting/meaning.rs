//! Says what a set-up means for the user's programs: which code allocates where, what it may cost, how to measure it,
//! and what to type next.

use super::choosing::{Checked, Modules, Wanted};
use reheap_adopt::adoption::packages::Packaged;
use reheap_adopt::adoption::placement::Placement;
use reheap_adopt::project::{Kind, Project};

/// What the allocators cost in memory and otherwise, as docs/choosing.md says it. The figures are those of reheap's own
/// builds of them.
const COSTS: [(&str, &str); 6] = [
    (
        "mimalloc",
        "less than glibc in small programs, up to 1.3 times as much in large ones",
    ),
    (
        "mimalloc3",
        "in one of the measured programs three times as much as glibc",
    ),
    (
        "mimalloc-secure",
        "14 % more than glibc with a preload; it also takes more time, because it checks more",
    ),
    (
        "jemalloc",
        "on average 15 % less than glibc; the executable grows by about 0.5 MiB",
    ),
    (
        "snmalloc",
        "it reserves 256 GiB of address space, which counts against limits such as `ulimit -v`",
    ),
    ("rpmalloc", "not much: it is the smallest of them"),
];

pub(super) fn style(wanted: &Wanted) -> &'static str {
    match wanted {
        Wanted::Crate { .. } => "crate",
        Wanted::Reheap(_) => "reheap",
    }
}

/// All of it, in lines.
pub(super) fn of(
    checked: &Checked,
    project: &Project,
    packages: &[String],
    verified: &[String],
) -> String {
    let name = checked.choice.allocator.name;
    let mut lines = Vec::new();
    if !verified.is_empty() {
        lines.push((
            "checked",
            format!("cargo check passes for {}", verified.join(", ")),
        ));
    }
    match &checked.wanted {
        Wanted::Crate {
            modules: Some(modules),
            ..
        } => lines.extend(of_modules(modules)),
        Wanted::Crate {
            packaged,
            placement,
            ..
        } => lines.extend(of_crate(name, packaged, placement)),
        Wanted::Reheap(_) => {
            let text =
                format!("all of it allocates from {name}, in static executables of `cargo reheap`");
            lines.push(("Rust and C", text));
            lines.push((
                "elsewhere",
                "plain `cargo build` makes what it made before".to_owned(),
            ));
        }
    }
    let cost = COSTS.iter().find(|(allocator, _)| *allocator == name);
    lines.extend(cost.map(|(_, cost)| ("memory", format!("{cost} (docs/choosing.md)"))));
    let triple = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    match &checked.wanted {
        Wanted::Crate {
            modules: Some(_), ..
        } => lines.push((
            "next",
            "build the module as before, and measure it".to_owned(),
        )),
        Wanted::Crate { placement, .. } => {
            if placement.includes(&triple) {
                let program = program(project, packages).unwrap_or_default();
                lines.push((
                    "measure",
                    "cargo reheap bench --variant glibc,musl -- ARGUMENTS".to_owned(),
                ));
                let build = format!("cargo build --release --target {triple}");
                lines.push((
                    "next",
                    format!("{build} && reheap inspect target/{triple}/release/{program}"),
                ));
            } else {
                let bench = "reheap bench --variant before=OLD-PROGRAM,after=NEW-PROGRAM";
                lines.push(("measure", bench.to_owned()));
                lines.push(("next", "cargo build --release".to_owned()));
            }
        }
        Wanted::Reheap(_) => {
            let bench = format!("cargo reheap bench --variant glibc,musl,musl+{name} -- ARGUMENTS");
            lines.push(("measure", bench));
            lines.push(("next", "cargo reheap build --release".to_owned()));
        }
    }
    lines.push(("undo", "reheap adopt --undo".to_owned()));
    let width = lines.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(word, text)| format!("  {word:width$}  {text}\n"));
    lines.collect()
}

fn of_modules(modules: &Modules) -> Vec<(&'static str, String)> {
    let notes = modules.notes.iter().map(|note| ("means", note.clone()));
    let set = modules.environment.iter().map(|(name, value)| {
        let line = format!("{name} = \"{value}\"");
        ("set", format!("{line} in [env] of .cargo/config.toml"))
    });
    notes.chain(set).collect()
}

fn of_crate(name: &str, packaged: &Packaged, placement: &Placement) -> Vec<(&'static str, String)> {
    let package = packaged.package;
    let place = match placement.key() {
        Some(key) => format!(" where {key} holds"),
        None => String::new(),
    };
    let rust = format!("it allocates from {name}, by the crate {package}{place}");
    let c = "it keeps the libc's malloc; `cargo reheap build` replaces that one, too";
    vec![("Rust code", rust), ("C code", c.to_owned())]
}

/// A program of these packages.
fn program(project: &Project, packages: &[String]) -> Option<String> {
    let mut own = project
        .packages
        .iter()
        .filter(|it| packages.contains(&it.name));
    let targets =
        own.find_map(|package| package.targets.iter().find(|it| it.kind == Kind::Program));
    targets.map(|target| target.name.clone())
}
