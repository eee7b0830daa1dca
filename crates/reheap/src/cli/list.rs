//! `reheap list`: prints the catalogue as a table, and everything about one allocator.

use super::list_file;
use reheap_allocators::catalogue::system::SYSTEM_ALLOCATORS;
use reheap_allocators::catalogue::{self, AddressSpace, Allocator, CATALOGUE};
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_bench::recommend::Withstood;
use reheap_command::choice::AllocatorName;
use reheap_command::named_file;
use reheap_command::ui::{self, Failure};
use reheap_hardening::attacking::kinds;
use reheap_subject::limits;
use reheap_variants::measured_attacks;
use reheap_workshop::workshop::{Network, Origin, Workshop};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str =
    "Examples:\n  reheap list\n  reheap list jemalloc\n  reheap list --json | jq '.[].name'";

#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    /// Show everything about this allocator: options, licence, limits, processors
    #[arg(value_parser = AllocatorName::Any, hide_possible_values = true)]
    name: Option<String>,
    /// Print JSON, with everything about each allocator
    #[arg(long)]
    json: bool,
}

/// Prints the catalogue, or one row of it.
pub(crate) fn run(arguments: &ListArguments) -> anyhow::Result<ExitCode> {
    if let Some(name) = arguments
        .name
        .as_deref()
        .filter(|name| named_file::is_one(name))
    {
        return list_file::run(name, arguments.json);
    }
    let one = arguments.name.as_deref().map(find).transpose()?;
    let text = if arguments.json {
        let shown = one.map_or(CATALOGUE, std::slice::from_ref);
        let workshop = Workshop::new(Network::AsConfigured);
        let row = |allocator| Ok(as_json(allocator, &supply(allocator, &workshop)?));
        let rows: Vec<_> = shown.iter().map(row).collect::<anyhow::Result<_>>()?;
        format!("{:#}\n", serde_json::Value::from(rows))
    } else if let Some(allocator) = one {
        let workshop = Workshop::new(Network::AsConfigured);
        as_text(allocator, &supply(allocator, &workshop)?)
    } else {
        table()
    };
    ui::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> Result<&'static Allocator, Failure> {
    catalogue::find(name).map_err(|error| {
        Failure::usage(error.to_string()).hint(match error.nearest {
            Some(nearest) => format!("did you mean `reheap list {nearest}`?"),
            None => "`reheap list` shows all".to_owned(),
        })
    })
}

/// A line for each allocator. It fits a terminal of 80 columns and 24 lines.
fn table() -> String {
    let line = |columns: [&str; 4]| {
        let [name, version, stops, summary] = columns;
        format!("{name:<21}  {version:<10}  {stops:<6}  {summary}\n")
    };
    let mut text = line(["allocator", "version", "stops", "what it is"]);
    let mut attacks = 0;
    for allocator in CATALOGUE {
        let withstood = attacked(allocator);
        let mut stopped: Vec<String> = withstood
            .values()
            .map(|counts| counts.stopped.to_string())
            .collect();
        stopped.dedup();
        attacks = withstood
            .values()
            .map(|counts| counts.of)
            .fold(attacks, Ord::max);
        text += &line([
            allocator.name,
            allocator.version,
            &stopped.join(", "),
            allocator.summary,
        ]);
    }
    for known in SYSTEM_ALLOCATORS {
        text += &line([known.name, "system's", "", known.summary]);
    }
    format!(
        "{text}\nstops: how many of the {attacks} errors of `reheap attack`; two figures: glibc, musl\n\
         `reheap list NAME` shows options, licence and limits of one\n\
         `-a ./libmine.so` and `-a system:libmine.so.1` name one in a file\n"
    )
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
            let reason = prebuilt.and_then(|files| files.preload_left_out(allocator, &target));
            note(name, origin, reason);
        }
    }
    if let Some(target) = Target::of_this_machine(Libc::Musl) {
        let origin = workshop.origin_of_objects(allocator, &target)?;
        let reason = prebuilt.and_then(|files| files.allocator_left_out(allocator, &target));
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
    if !allocator.details.is_empty() {
        line("about", allocator.details);
    }
    if let Some(package) = allocator.package() {
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
        let triples = missing
            .architectures
            .iter()
            .map(|&processor| Target::musl(processor));
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
    measured_attacks::withstood(variants(allocator).iter().map(String::as_str))
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
    if glibc == musl {
        format!("{glibc} of address space")
    } else {
        format!("{glibc} of address space with glibc, {musl} with musl")
    }
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
        .map(|(variant, withstood)| {
            let counts = json!({
                "stopped": withstood.stopped,
                "succeeded": withstood.succeeded,
                "of": withstood.of,
                "outcomes": measured_attacks::outcomes(&variant),
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
        "details": allocator.details,
        "package": allocator.package().map(|p| p.name),
        "package_version": allocator.package().map(|p| p.version),
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
