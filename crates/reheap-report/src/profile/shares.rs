//! Parts of the CPU time, with what their samples allow to say of them.
//!
//! A share is said only from enough samples, and with the interval in which it is: a program that barely ran has no
//! shares. The interval is Wilson's ("Probable inference, the law of succession, and statistical inference", 1927): it
//! holds for small shares too.

use crate::profile::number::grouped;
use reheap_bench::figures::percent;
use reheap_profile::profile::{Measured, TimeShares};

/// With fewer samples than these a share says nothing.
pub(crate) const FEW_SAMPLES: u64 = 20;
/// This many memory functions are told by name.
const TOLD_MAX: usize = 4;
/// Below this share of CPU time, a memory function is not told.
const WORTH_A_NAME: f64 = 0.001;

/// A part of the samples; none of too few.
pub(crate) fn of_samples(part: u64, samples: u64) -> Option<f64> {
    (samples >= FEW_SAMPLES).then(|| part as f64 / samples as f64)
}

/// Between which shares the true one is in 95 of 100 cases.
pub(crate) fn interval(part: u64, samples: u64) -> (f64, f64) {
    const Z: f64 = 1.959_964; // 97.5 % of the normal distribution
    let (n, share) = (samples as f64, part as f64 / samples as f64);
    let widened = 1.0 + Z * Z / n;
    let middle = (share + Z * Z / (2.0 * n)) / widened;
    let half = Z / widened * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    let most = if part == samples { 1.0 } else { middle + half };
    ((middle - half).max(0.0), most.min(1.0))
}

/// Where the CPU time went, and how that was seen.
pub(crate) fn said(time: &TimeShares) -> Option<String> {
    let share = percent(of_samples(time.in_allocator, time.samples)?);
    let (least, most) = allocator_interval(time);
    let mut said = vec![format!("{share} ({}) allocator", range(least, most))];
    if let Some(memory) = time.in_memory_functions {
        let share = with_interval(memory, time.samples)?;
        said.push(format!("{share} memory functions{}", by_name(time)));
    }
    if let Some(faults) = time.in_page_faults {
        said.push(format!(
            "{} page faults",
            percent(of_samples(faults, time.samples)?)
        ));
    }
    let samples = grouped(time.samples);
    let how = match time.measured {
        Measured::Looks => match time.in_hooks {
            Some(1..) => {
                format!("{samples} looks at its threads, without those that show the hooks")
            }
            _ => format!("{samples} looks at its threads"),
        },
        Measured::UserSamples => {
            format!("{samples} samples; what the kernel did for the allocator is estimated")
        }
        Measured::Samples => format!("{samples} samples"),
    };
    Some(format!("{}; from {how}", said.join(", ")))
}

fn with_interval(part: u64, samples: u64) -> Option<String> {
    let share = of_samples(part, samples)?;
    let (least, most) = interval(part, samples);
    Some(format!("{} ({})", percent(share), range(least, most)))
}

fn range(least: f64, most: f64) -> String {
    let (least, most) = (percent(least), percent(most));
    format!("{} to {most}", least.trim_end_matches(" %"))
}

/// Between which shares that of the allocator is. Where the kernel could not be sampled, all that it did or nothing may
/// have been for the allocator. Where looks tell of the hooks, they miss the first and the last instructions of each, which
/// may take as long as the rest.
fn allocator_interval(time: &TimeShares) -> (f64, f64) {
    if let Some(hooks) = time.in_hooks {
        let least = interval(time.in_allocator, time.samples).0;
        let without = time.samples.saturating_sub(hooks);
        let fewest = without.max(time.in_allocator).max(1);
        return (least, interval(time.in_allocator, fewest).1);
    }
    match (time.measured, time.in_kernel, time.in_kernel_for_allocator) {
        (Measured::UserSamples, Some(kernel), Some(estimated)) => {
            let certain = time.in_allocator.saturating_sub(estimated);
            let least = interval(certain, time.samples).0;
            let at_most = certain.saturating_add(kernel).min(time.samples);
            (least, interval(at_most, time.samples).1)
        }
        _ => interval(time.in_allocator, time.samples),
    }
}

/// The memory functions that took most, such as `: memcpy 3.1 %, memset 1.2 %`.
fn by_name(time: &TimeShares) -> String {
    let mut functions: Vec<(&String, f64)> = time
        .memory_functions
        .iter()
        .filter_map(|(name, samples)| Some((name, of_samples(*samples, time.samples)?)))
        .filter(|(_, share)| *share >= WORTH_A_NAME)
        .collect();
    functions.sort_by(|a, b| b.1.total_cmp(&a.1));
    functions.truncate(TOLD_MAX);
    let functions = functions.iter();
    let told: Vec<String> = functions
        .map(|(name, share)| format!("{name} {}", percent(*share)))
        .collect();
    if told.is_empty() {
        String::new()
    } else {
        format!(" [{}]", told.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::interval;

    #[test]
    fn the_interval_is_wilsons() {
        // From Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I: 81 of 263, 1 of 29.
        for (part, samples, least, most) in [(81, 263, 0.2553, 0.3662), (1, 29, 0.0061, 0.1718)] {
            let (from, to) = interval(part, samples);
            assert!(
                (from - least).abs() < 0.0001 && (to - most).abs() < 0.0001,
                "{from} {to}"
            );
        }
        assert_eq!(interval(0, 50).0, 0.0);
        assert!((20..300).all(|samples| interval(samples, samples).1 == 1.0));
    }
}
