//! `reheap list`: prints the catalogue.

use crate::attacking::{kinds, measured};
use crate::limits;
use crate::ui;
use crate::workshop::{Network, Origin, Workshop};
use reheap_allocators::catalogue::{AddressSpace, Allocator, CATALOGUE, Package};
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_bench::recommend::Withstood;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "Examples:\n  reheap list\n  reheap list --json | jq '.[].name'";

#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the catalogue.
pub(crate) fn run(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    let workshop = Workshop::new(Network::AsConfigured);
    let mut rows = Vec::new();
    for allocator in CATALOGUE {
        rows.push((allocator, supply(allocator, &workshop)?));
    }
    if arguments.json {
        let rows: Vec<_> = rows.iter().map(|(row, from)| as_json(row, from)).collect();
        ui::data(&format!("{:#}\n", serde_json::Value::from(rows)))?;
    } else {
        let rows: Vec<_> = rows.iter().map(|(row, from)| as_text(row, from)).collect();
        ui::data(&rows.join("\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the allocator comes from, for this machine's processor: by libc in a dynamic program, and in a static one.
/// `stock` is everywhere.
type Origins = BTreeMap<&'static str, Origin>;

/// Where an allocator comes from, and why it is not among the prebuilt files, if they say so.
#[derive(Default)]
struct Supply {
    origins: Origins,
    left_out: BTreeMap<&'static str, String>,
}

fn supply(allocator: &'static Allocator, workshop: &Workshop) -> anyhow::Result<Supply> {
    let mut supply = Supply::default();
    if allocator.build.is_none() {
        return Ok(supply);
    }
    let prebuilt = workshop.prebuilt()?;
    let mut note = |name, origin, reason: Option<&str>| {
        supply.origins.insert(name, origin);
        if let Some(reason) = reason {
            supply.left_out.insert(name, reason.to_owned());
        }
    };
    for (name, libc) in [("glibc", Libc::Glibc), ("musl", Libc::Musl)] {
        if let Some(target) = Target::of_this_machine(libc) {
            let origin = workshop.origin_of_preload(allocator, &target)?;
            let reason = prebuilt.and_then(|it| it.preload_left_out(allocator, &target));
            note(name, origin, reason);
        }
    }
    if let Some(target) = Target::of_this_machine(Libc::Musl) {
        let origin = workshop.origin_of_objects(allocator, &target)?;
        let reason = prebuilt.and_then(|it| it.allocator_left_out(allocator, &target));
        note("static", origin, reason);
    }
    Ok(supply)
}

/// The origins in words: one if all are the same.
fn in_words(origins: &Origins) -> String {
    let mut all = origins.values();
    match all.next() {
        Some(first) if all.all(|other| other == first) => first.in_words().to_owned(),
        _ => {
            let one = |(name, origin): (&&str, &Origin)| format!("{name}: {}", origin.in_words());
            origins.iter().map(one).collect::<Vec<_>>().join(", ")
        }
    }
}

fn as_text(allocator: &Allocator, supply: &Supply) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {label:<10} {value}"); // writing to a String cannot fail
    };
    if let Some(package) = package(allocator) {
        let version = short(package.version);
        line("package", &format!("{} {version}", package.name));
    }
    if !supply.origins.is_empty() {
        line("library", &in_words(&supply.origins));
    }
    for (name, reason) in &supply.left_out {
        line("", &format!("{name} is not prebuilt: {reason}"));
    }
    line("licence", allocator.licence);
    line("hardening", allocator.hardening);
    for (label, (name, withstood)) in ["attacks", ""].into_iter().zip(attacked(allocator)) {
        line(label, &format!("{name} {withstood}"));
    }
    for (label, text) in ["stops", ""].into_iter().zip(stopped(allocator)) {
        line(label, &text);
    }
    let reserved = allocator.address_space;
    if reserved != AddressSpace::NONE {
        line("reserves", &shown(reserved));
    }
    for option in allocator.tuning {
        line("tuning", &format!("-t {}=…  {}", option.key, option.domain));
        let preset = option
            .preset
            .map(|preset| format!("; reheap's default: {preset}"));
        line(
            "",
            &format!("    {}{}", option.summary, preset.unwrap_or_default()),
        );
    }
    for limit in allocator.limits {
        line("limit", limit);
    }
    for missing in allocator.missing_on {
        let triples = missing.architectures.iter().map(|&it| Target::musl(it));
        let names = triples.map(|target| target.triple()).collect::<Vec<_>>();
        let names = names.join(", ");
        line("not on", &format!("{names}: {}", missing.reason));
    }
    let version = if allocator.version.is_empty() {
        String::new()
    } else {
        format!(" {}", allocator.version)
    };
    format!("{}{version}: {}\n{text}", allocator.name, allocator.summary)
}

/// Preloaded with glibc, and static with musl. `stock` is the libc's own.
fn variants(allocator: &Allocator) -> [String; 2] {
    ["glibc", "musl"].map(|libc| match allocator.build {
        None => libc.to_owned(),
        Some(_) => format!("{libc}+{}", allocator.name),
    })
}

/// How it fared when it was attacked.
fn attacked(allocator: &Allocator) -> BTreeMap<String, Withstood> {
    measured::withstood(variants(allocator).iter().map(String::as_str))
}

/// What it stopped then: one line if that is the same with both libcs.
fn stopped(allocator: &Allocator) -> Vec<String> {
    let variants = variants(allocator);
    let stopped = |variant: &String| Some((variant.clone(), kinds::stopped(variant)?));
    let lines: Vec<(String, String)> = variants.iter().filter_map(stopped).collect();
    match lines.as_slice() {
        [one, other] if one.1 == other.1 => vec![one.1.clone()],
        lines => lines
            .iter()
            .map(|(variant, text)| format!("{variant}: {text}"))
            .collect(),
    }
}

/// What counts against `ulimit -v` in programs of each libc.
fn shown(reserved: AddressSpace) -> String {
    let [glibc, musl] = [Libc::Glibc, Libc::Musl].map(|libc| limits::shown(reserved.bytes(libc)));
    match glibc == musl {
        true => format!("{glibc} of address space"),
        false => format!("{glibc} of address space with glibc, {musl} with musl"),
    }
}

fn package(allocator: &Allocator) -> Option<&Package> {
    Some(&allocator.build.as_ref()?.package)
}

/// The version without the build metadata (semver.org, item 10).
fn short(version: &str) -> &str {
    version.split('+').next().unwrap_or(version)
}

fn as_json(allocator: &Allocator, supply: &Supply) -> serde_json::Value {
    let comes_from: BTreeMap<_, _> = supply
        .origins
        .iter()
        .map(|(name, origin)| (name, origin.name()))
        .collect();
    let tuning: Vec<_> = allocator
        .tuning
        .iter()
        .map(|o| {
            json!({
                "key": o.key,
                "values": o.domain.to_string(),
                "summary": o.summary,
                "preset": o.preset,
            })
        })
        .collect();
    let attacks: BTreeMap<_, _> = attacked(allocator)
        .into_iter()
        .map(|(variant, it)| {
            let counts = json!({
                "stopped": it.stopped,
                "succeeded": it.succeeded,
                "of": it.of,
                "outcomes": measured::outcomes(&variant),
            });
            (variant, counts)
        })
        .collect();
    let missing = |architecture: &Architecture| {
        let reason = allocator.missing_on(*architecture)?;
        Some((Target::musl(*architecture).triple(), reason))
    };
    let missing_on: BTreeMap<_, _> = Architecture::ALL.iter().filter_map(missing).collect();
    json!({
        "name": allocator.name,
        "version": allocator.version,
        "summary": allocator.summary,
        "package": package(allocator).map(|p| p.name),
        "package_version": package(allocator).map(|p| p.version),
        "licence": allocator.licence,
        "hardening": allocator.hardening,
        "attacks": attacks,
        "limits": allocator.limits,
        "missing_on": missing_on,
        "address_space_bytes": {
            "glibc": allocator.address_space.bytes(Libc::Glibc),
            "musl": allocator.address_space.bytes(Libc::Musl),
        },
        "address_space_counts_as_data": allocator.address_space.counts_as_data,
        "tuning": tuning,
        "comes_from": comes_from,
        "not_prebuilt": supply.left_out,
        "builds_slowly": allocator.build.as_ref().is_some_and(|r| r.builds_slowly),
    })
}
