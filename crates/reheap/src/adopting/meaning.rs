//! Says what a set-up means for the user's programs: which code allocates where, what it may cost, how to measure it,
//! and what to type next.

use super::checking::Check;
use super::choosing::{Checked, Modules, Wanted};
use reheap_adopt::adoption::packages::Packaged;
use reheap_adopt::adoption::placement::Placement;
use reheap_adopt::project::{Package, Project, Target};
use reheap_command::ui;

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

/// What the change means for each kind of build, in lines.
pub(super) fn of(
    checked: &Checked,
    project: &Project,
    check: &Check,
    feature: Option<&str>,
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
        } => lines.extend(of_crate(name, packaged, placement, feature)),
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
    lines.extend(to_do(checked, project, check, feature, verified));
    lines.push(("undo", "reheap adopt --undo".to_owned()));
    let width = lines.iter().map(|(word, _)| word.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(word, text)| format!("  {word:width$}  {}\n", ui::printable(text)));
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

fn of_crate(
    name: &str,
    packaged: &Packaged,
    placement: &Placement,
    feature: Option<&str>,
) -> Vec<(&'static str, String)> {
    let package = packaged.package;
    let place = match placement.key() {
        Some(key) => format!(" where {key} holds"),
        None => String::new(),
    };
    let only = match feature {
        Some(feature) => format!(", if the feature `{feature}` is on"),
        None => String::new(),
    };
    let rust = format!("it allocates from {name}, by the crate {package}{place}{only}");
    let c = "it keeps the libc's malloc; `cargo reheap build` replaces that one, too";
    vec![("Rust code", rust), ("C code", c.to_owned())]
}

/// How to measure it, and what to type next.
fn to_do(
    checked: &Checked,
    project: &Project,
    check: &Check,
    feature: Option<&str>,
    verified: &[String],
) -> Vec<(&'static str, String)> {
    let program = first_program(project, &check.packages);
    let required = program.map_or(&[][..], |program| &program.required_features);
    let features: Vec<&str> = feature
        .into_iter()
        .chain(required.iter().map(String::as_str))
        .collect();
    let with_features = if features.is_empty() {
        String::new()
    } else {
        format!(" --features {}", ui::printable(features.join(",")))
    };
    let build = format!("cargo build --release{with_features}");
    match &checked.wanted {
        Wanted::Crate {
            modules: Some(_), ..
        } => vec![(
            "next",
            "build the module as before, and measure it".to_owned(),
        )],
        Wanted::Crate { placement, .. } => {
            let is_checked = |triple: &String| verified.contains(triple);
            let of = |libc| format!("{}-unknown-linux-{libc}", std::env::consts::ARCH);
            let own = [of("musl"), of("gnu")]
                .map(|triple| Some(triple).filter(|triple| placement.includes(triple)));
            let own: Vec<String> = own.into_iter().flatten().collect();
            let built = own.iter().find(|triple| is_checked(triple)).or(own.first());
            let mut lines = Vec::new();
            if !verified.iter().any(|triple| placement.includes(triple)) {
                let text = "the allocator itself: no target that could be checked has it";
                lines.push(("unchecked", text.to_owned()));
            }
            match built.filter(|triple| triple.ends_with("-musl")) {
                Some(triple) => {
                    let bench = "cargo reheap bench --variant glibc,musl -- ARGUMENTS";
                    lines.push(("measure", bench.to_owned()));
                    let built = built_at(project, program, triple);
                    let next = format!("{build} --target {triple} && reheap inspect {built}");
                    lines.push(("next", next));
                }
                None => {
                    let bench = "reheap bench --variant before=OLD-PROGRAM,after=NEW-PROGRAM";
                    lines.push(("measure", bench.to_owned()));
                    lines.push(("next", build));
                }
            }
            lines
        }
        Wanted::Reheap(_) => {
            let name = checked.choice.allocator.name;
            let bench = format!("cargo reheap bench --variant glibc,musl,musl+{name} -- ARGUMENTS");
            vec![
                ("measure", bench),
                ("next", "cargo reheap build --release".to_owned()),
            ]
        }
    }
}

/// The first program of these packages.
fn first_program<'a>(project: &'a Project, names: &[String]) -> Option<&'a Target> {
    let packages = project.packages.iter();
    let named = packages.filter(|package| names.contains(&package.name));
    named.flat_map(Package::programs).next()
}

/// Where Cargo puts a program.
fn built_at(project: &Project, program: Option<&Target>, triple: &str) -> String {
    let name = program.map(|program| program.name.as_str());
    let directory = project.target_directory.join(triple).join("release");
    let built = directory.join(name.unwrap_or_default());
    ui::printable(built.strip_prefix(&project.root).unwrap_or(&built))
}
