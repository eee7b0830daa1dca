//! Whether other programs took the processor from a command while it was measured.
//!
//! Wall time then shows them too, and CPU time much less: on a machine whose two processors four programs wanted, CPU
//! time had a third of the variance.

use crate::failures::Failures;
use crate::results::{Benchmark, Role, Run};
use reheap_stats::Sample;

/// A command on one thread that has a processor for itself takes as much wall time as CPU time. Above this ratio it
/// waited.
const WALL_OVER_CPU: f64 = 1.2;
/// A command that waits by itself, for a disk or a clock, gives the processor up. One that shares a processor loses it
/// at the end of each time slice, which is a few milliseconds; alone it loses it 10 to 20 times a second.
const SWITCHES_PER_SECOND: f64 = 50.0;
/// Of a short command, one or two switches are chance.
const SWITCHES_OF_A_RUN: f64 = 5.0;
/// How long a command that lost the processor waits for it: about a time slice of another program.
const SECONDS_OF_A_SWITCH: f64 = 0.004;
/// At least this part of the time in which the command did not run has to be explained by that. The rest is its own
/// waiting, as in `sleep`.
const EXPLAINED: f64 = 0.5;

/// How the baseline's runs show that the machine was shared, in medians.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sharing {
    /// Wall time / CPU time.
    pub wall_over_cpu: f64,
    /// How often the kernel took the processor away, in a second of CPU time.
    pub switches_per_second: f64,
}

fn switches(run: &Run) -> f64 {
    run.cost.involuntary_context_switches as f64
}

/// How much of the time in which a run did not have the processor is due to others.
fn explained(run: &Run) -> f64 {
    let waited = run.cost.wall_seconds - run.cost.cpu_seconds();
    switches(run) * SECONDS_OF_A_SWITCH / waited.max(1e-9)
}

/// None if nothing shows that the machine was shared. A command on several threads takes more CPU time than wall time,
/// so nothing is known of it.
pub(crate) fn sharing(benchmark: &Benchmark, failures: &[Failures]) -> Option<Sharing> {
    let baselines = benchmark
        .variants
        .iter()
        .zip(failures)
        .filter(|(variant, _)| variant.role != Role::Candidate);
    let runs: Vec<&Run> = baselines
        .flat_map(|(variant, failures)| {
            let runs = variant.runs.iter();
            runs.filter(|run| !failures.rounds.contains(&run.round))
        })
        .filter(|run| run.cost.cpu_seconds() > 0.0)
        .collect();
    let median = |figure: fn(&Run) -> f64| {
        let figures = runs.iter().map(|run| figure(run));
        Some(Sample::new(figures)?.median())
    };
    let sharing = Sharing {
        wall_over_cpu: median(|run| run.cost.wall_seconds / run.cost.cpu_seconds())?,
        switches_per_second: median(|run| switches(run) / run.cost.cpu_seconds())?,
    };
    let is_shared = sharing.wall_over_cpu > WALL_OVER_CPU
        && sharing.switches_per_second > SWITCHES_PER_SECOND
        && median(switches)? >= SWITCHES_OF_A_RUN
        && median(explained)? >= EXPLAINED;
    is_shared.then_some(sharing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::OutputCheck;
    use crate::simulated::Simulated;

    fn of_runs(cpu_share: f64, switches: u64) -> Option<Sharing> {
        let mut benchmark = Simulated::quiet(6, 3).run(&[("base", Role::Baseline, 1.0, 1e6)]);
        for run in &mut benchmark.variants[0].runs {
            run.cost.user_seconds = run.cost.wall_seconds * cpu_share;
            run.cost.involuntary_context_switches = switches;
        }
        sharing(&benchmark, &Failures::of_all(&benchmark, OutputCheck::Same))
    }

    #[test]
    fn a_command_that_loses_the_processor_and_waits_shares_the_machine() {
        assert!(of_runs(0.5, 100).is_some());
    }

    #[test]
    fn a_command_that_waits_by_itself_or_has_threads_does_not() {
        assert_eq!(of_runs(0.01, 0), None);
        assert_eq!(of_runs(1.9, 200), None);
        assert_eq!(of_runs(1.0, 12), None);
        assert_eq!(of_runs(0.0, 200), None);
        assert_eq!(of_runs(0.5, 2), None);
        // It sleeps, and loses the processor now and then.
        assert_eq!(of_runs(0.1, 20), None);
    }
}
