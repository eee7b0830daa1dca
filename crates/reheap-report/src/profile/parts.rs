//! Where resident memory is, in a line: `235 MiB = 214 live + 12 rounding + 4 free in pages + 1 free pages + 4 other`.

use crate::profile::whole::Whole;
use reheap_bench::figures::{bytes, seconds};
use reheap_profile::profile::{Access, Process, ResidentParts};

/// Free memory that stays resident is worth a word if it is so much, and at least half of what is live.
const FREE_BYTES_MIN: u64 = 16 << 20;

/// What was seen of the largest process: when most was resident, and the last time.
pub(crate) fn seen(whole: &Whole<'_>) -> Vec<(&'static str, Option<String>)> {
    let Some(process) = whole.largest else {
        return Vec::new();
    };
    let most = process.resident_most.filter(|most| {
        process
            .resident_last
            .is_none_or(|last| most.seconds < last.seconds)
    });
    let seen = [("Most seen", most), ("Last seen", process.resident_last)];
    seen.map(|(name, parts)| (name, parts.as_ref().map(said)))
        .into()
}

fn said(parts: &ResidentParts) -> String {
    let mut named = vec![(parts.live_bytes, "live")];
    let known = [
        (parts.rounding_bytes, "rounding"),
        (parts.free_in_pages_bytes, "free in pages"),
        (parts.free_pages_bytes, "free pages"),
    ];
    named.extend(
        known
            .into_iter()
            .filter_map(|(part, name)| Some((part?, name))),
    );
    let other = match parts.free_pages_bytes {
        Some(_) => "other",
        None => "free, other, or in blocks that were not seen",
    };
    named.push((parts.other_bytes, other));
    let sizes: Vec<u64> = named.iter().map(|(part, _)| *part).collect();
    let (total, shown) = apportioned(parts.resident_bytes, &sizes);
    let is_told = |(figure, (_, name)): &(&String, &(u64, &str))| *figure != "0" || *name == "live";
    let shown: Vec<String> = shown
        .iter()
        .zip(&named)
        .filter(is_told)
        .map(|(figure, (_, name))| format!("{figure} {name}"))
        .collect();
    format!(
        "{total} = {}, at {}",
        shown.join(" + "),
        seconds(parts.seconds)
    )
}

/// A total with its unit, and its parts in that unit, rounded so that they add up to it.
fn apportioned(total: u64, parts: &[u64]) -> (String, Vec<String>) {
    let text = bytes(total as f64);
    let (figure, unit) = text.split_once(' ').unwrap_or((&text, "B"));
    let decimals = figure
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let power = units.iter().position(|known| *known == unit).unwrap_or(0);
    let step = 1024_f64.powi(power as i32) / 10_f64.powi(decimals as i32);
    let exact: Vec<f64> = parts.iter().map(|part| *part as f64 / step).collect();
    let mut steps: Vec<u64> = exact.iter().map(|part| part.floor() as u64).collect();
    let wanted = (total as f64 / step).round() as u64;
    let missing = wanted.saturating_sub(
        steps
            .iter()
            .fold(0, |sum: u64, part| sum.saturating_add(*part)),
    );
    // The largest remainders are rounded up.
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|a, b| exact[*b].fract().total_cmp(&exact[*a].fract()));
    for index in order.into_iter().take(missing as usize) {
        steps[index] += 1;
    }
    let shown = steps
        .iter()
        .map(|part| {
            let decimals = if *part == 0 { 0 } else { decimals };
            format!(
                "{:.decimals$}",
                *part as f64 * step / 1024_f64.powi(power as i32)
            )
        })
        .collect();
    (text, shown)
}

/// Memory of a process that is free and was resident when it was seen last, with what it is about.
pub(crate) fn free_and_resident(process: &Process) -> Option<Free> {
    let parts = process.resident_last?;
    let (in_pages, pages) = (parts.free_in_pages_bytes?, parts.free_pages_bytes?);
    let bytes = in_pages.saturating_add(pages);
    (bytes >= FREE_BYTES_MIN && bytes >= parts.live_bytes / 2).then_some(Free {
        bytes,
        is_in_whole_pages: pages >= in_pages,
        seconds: parts.seconds,
    })
}

/// What is free and still resident.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Free {
    pub(crate) bytes: u64,
    /// Whether most of it is in pages that hold nothing: an allocator could give these back.
    pub(crate) is_in_whole_pages: bool,
    /// When that was seen.
    pub(crate) seconds: f64,
}

impl Free {
    pub(crate) fn said(&self) -> String {
        let place = if self.is_in_whole_pages {
            ""
        } else {
            ", most of it between live blocks"
        };
        let (free, at) = (bytes(self.bytes as f64), seconds(self.seconds));
        format!("{free} are free and still resident at {at}{place}")
    }

    /// What may keep less, if that is known.
    pub(crate) fn advice(&self, process: &Process, command: &str) -> Option<String> {
        let allocator = process
            .allocator
            .as_deref()
            .filter(|_| self.is_in_whole_pages)?;
        let (name, _) = allocator.split_once([' ', ',']).unwrap_or((allocator, ""));
        match name {
            "glibc" if process.access == Access::Preload => Some(format!(
                "reheap's default allocator may keep less: `reheap run -- {command}`"
            )),
            "mimalloc" => Some("With `-t purge_delay=0`, mimalloc may keep less.".to_owned()),
            "jemalloc" => Some("With `-t dirty_decay_ms=0`, jemalloc may keep less.".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_that_are_shown_add_up_to_the_total_that_is_shown() {
        const MIB: u64 = 1 << 20;
        let parts = [
            30 * MIB + 700_000,
            4 * MIB + 600_000,
            15 * MIB + 600_000,
            9 * MIB,
            100_000,
        ];
        let (total, shown) = apportioned(parts.iter().sum(), &parts);
        assert_eq!(total, "59.9 MiB");
        assert_eq!(shown, ["30.6", "4.6", "15.6", "9.0", "0.1"]);
        let (total, shown) = apportioned(235 * MIB, &[0, 0, 0, 233 * MIB + MIB / 2, MIB + MIB / 2]);
        assert_eq!(total, "235 MiB");
        assert_eq!(shown, ["0", "0", "0", "234", "1"]);
    }

    #[test]
    fn parts_that_make_no_sense_are_shown_as_they_are() {
        apportioned(u64::MAX, &[u64::MAX; 5]);
        apportioned(0, &[u64::MAX, 0]);
        apportioned(17, &[17]);
    }
}
