//! `reheap cache`: shows what is in the cache, or removes it.

use reheap_allocators::cache::Cache;
use reheap_allocators::cache::contents::{Cleaned, Entry, KINDS};
use reheap_command::ui::{self, Failure};
use reheap_subject::limits::shown;
use reheap_workshop::workshop::{find_cache, unusable_cache};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::SystemTime;

pub(crate) const EXAMPLES: &str = "\
What was not used for 90 days goes by itself.

Examples:
  reheap cache
  reheap cache --clean
  reheap cache --json | jq .bytes";

#[derive(Debug, clap::Args)]
pub(crate) struct CacheArguments {
    /// Remove everything that no running program uses; reheap builds again what it needs
    #[arg(long)]
    clean: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Shows the cache, or cleans it and says what that freed.
pub(crate) fn run(arguments: &CacheArguments) -> anyhow::Result<ExitCode> {
    let cache = find_cache()?;
    let text = match (arguments.clean, arguments.json) {
        (false, false) => contents_as_text(cache.root(), &cache.contents()),
        (false, true) => as_lines(&contents_as_json(cache.root(), &cache.contents())),
        (true, false) => cleaned_as_text(cache.root(), &clean(&cache)?),
        (true, true) => as_lines(&cleaned_as_json(cache.root(), &clean(&cache)?)),
    };
    ui::data(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn clean(cache: &Cache) -> anyhow::Result<Cleaned> {
    let cleaned = cache.clean().map_err(unusable_cache)?;
    Ok(cleaned.ok_or_else(|| {
        let root = cache.root().display();
        let text = format!("cannot clean the cache `{root}`: another reheap is using it");
        Failure::failed(text).hint("try again when that has ended: reheap cache --clean")
    })?)
}

/// The entries of one kind, added up.
struct Sum {
    kind: &'static str,
    description: &'static str,
    entries: usize,
    bytes: u64,
    last_used: SystemTime,
}

/// Each kind that there is something of.
fn sums(entries: &[Entry]) -> Vec<Sum> {
    let of_kind = KINDS.iter().filter_map(|kind| {
        let of_kind = entries.iter().filter(|entry| entry.kind == *kind);
        Some(Sum {
            kind: kind.name,
            description: kind.description,
            entries: of_kind.clone().count(),
            bytes: of_kind.clone().map(|entry| entry.bytes).sum(),
            last_used: of_kind.map(|entry| entry.last_used).max()?,
        })
    });
    of_kind.collect()
}

fn bytes_of(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.bytes).sum()
}

fn contents_as_text(root: &Path, entries: &[Entry]) -> String {
    let mut text = format!("{}: {}\n", root.display(), shown(bytes_of(entries)));
    for sum in sums(entries) {
        let (size, count) = (shown(sum.bytes), sum.entries);
        text.push_str(&format!(
            "  {:<16} {size:>9}  {count:>4} {:<7}  used {:<12}  {}\n",
            sum.kind,
            if count == 1 { "entry" } else { "entries" },
            days_ago(sum.last_used),
            sum.description
        ));
    }
    text
}

fn days_ago(time: SystemTime) -> String {
    let age = SystemTime::now().duration_since(time).unwrap_or_default();
    match age.as_secs() / 86_400 {
        0 => "today".to_owned(),
        1 => "a day ago".to_owned(),
        days => format!("{days} days ago"),
    }
}

fn contents_as_json(root: &Path, entries: &[Entry]) -> Value {
    let kinds = sums(entries).into_iter().map(|sum| {
        json!({
            "kind": sum.kind,
            "description": sum.description,
            "entries": sum.entries,
            "bytes": sum.bytes,
            "last_used": humantime::format_rfc3339_seconds(sum.last_used).to_string(),
        })
    });
    json!({
        "directory": root,
        "bytes": bytes_of(entries),
        "kinds": kinds.collect::<Vec<_>>(),
    })
}

fn cleaned_as_text(root: &Path, cleaned: &Cleaned) -> String {
    let (count, freed) = (cleaned.removed.len(), shown(bytes_of(&cleaned.removed)));
    let entries = if count == 1 { "entry" } else { "entries" };
    let mut text = format!(
        "{}: removed {count} {entries} and freed {freed}\n",
        root.display()
    );
    for entry in &cleaned.in_use {
        let path = entry.path.display();
        text.push_str(&format!(
            "kept, because a running program uses it: {path}\n"
        ));
    }
    text
}

fn cleaned_as_json(root: &Path, cleaned: &Cleaned) -> Value {
    let in_use: Vec<_> = cleaned.in_use.iter().map(|entry| &entry.path).collect();
    json!({
        "directory": root,
        "removed": cleaned.removed.len(),
        "freed_bytes": bytes_of(&cleaned.removed),
        "in_use": in_use,
    })
}

fn as_lines(value: &Value) -> String {
    format!("{value:#}\n")
}
