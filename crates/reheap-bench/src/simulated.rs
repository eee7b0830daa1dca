//! Benchmarks of a machine that does not exist, so that tests know the truth about it.

use crate::results::{
    Activity, Benchmark, Cost, Direction, Ending, FORMAT, Machine, Outcome, OutputCheck, Results,
    Role, Run, Settings, Variant,
};
use crate::rounds::shuffled;
use reheap_stats::random::SplitMix64;
use std::collections::BTreeMap;

/// A machine, with what disturbs runs on it.
#[derive(Clone, Copy)]
pub(crate) struct Simulated {
    pub(crate) rounds: usize,
    pub(crate) seed: u64,
    /// The standard deviation of the logarithm of a run's time.
    pub(crate) noise: f64,
    /// How much slower each run is than the one before.
    pub(crate) drift: f64,
    /// How many of the runs are disturbed, which then take up to several times the noise longer, with a long tail.
    pub(crate) disturbed: f64,
}

impl Simulated {
    pub(crate) fn quiet(rounds: usize, seed: u64) -> Simulated {
        Simulated {
            rounds,
            seed,
            noise: 0.01,
            drift: 0.0,
            disturbed: 0.0,
        }
    }

    /// Runs variants with these roles, seconds and bytes: the first is the baseline.
    pub(crate) fn run(self, variants: &[(&str, Role, f64, f64)]) -> Benchmark {
        let mut random = SplitMix64(self.seed);
        let mut runs: Vec<Vec<Run>> = vec![Vec::new(); variants.len()];
        let mut clock = 0.0;
        let mut so_far = 0.0;
        for (round, order) in shuffled(variants.len(), self.rounds, self.seed)
            .into_iter()
            .enumerate()
        {
            // What all runs of a round have in common.
            let weather = 3.0 * self.noise * normal(&mut random);
            for (position, variant) in order.into_iter().enumerate() {
                let (_, _, seconds, bytes) = variants[variant];
                let mut disturbance = weather + self.noise * normal(&mut random);
                if uniform(&mut random) < self.disturbed {
                    disturbance += -5.0 * self.noise * uniform(&mut random).ln();
                }
                let wall = seconds * (1.0 + self.drift * so_far) * disturbance.exp();
                let memory = bytes * (0.2 * self.noise * normal(&mut random)).exp();
                runs[variant].push(finished(round, position, clock, wall, memory));
                clock += wall;
                so_far += 1.0;
            }
        }
        benchmark(
            variants
                .iter()
                .zip(runs)
                .map(|(&(name, role, _, _), runs)| variant(name, role, runs))
                .collect(),
        )
    }
}

pub(crate) fn benchmark(variants: Vec<Variant>) -> Benchmark {
    Benchmark {
        name: "simulated".into(),
        parameters: BTreeMap::new(),
        memory_limit_bytes: None,
        metrics: BTreeMap::from([("throughput".into(), Direction::Higher)]),
        variants,
        left_out: Vec::new(),
        served: false,
        ended: Ending::Rounds,
    }
}

pub(crate) fn variant(name: &str, role: Role, runs: Vec<Run>) -> Variant {
    Variant {
        name: name.into(),
        role,
        allocator: None,
        tuning: BTreeMap::new(),
        command: vec!["program".into()],
        environment: BTreeMap::new(),
        executable_bytes: None,
        files_sha256: None,
        activity: Activity::NothingClaimed,
        unreached: Vec::new(),
        runs,
        left: None,
    }
}

/// A run that went well; its throughput is the inverse of its time.
pub(crate) fn finished(round: usize, position: usize, started: f64, wall: f64, memory: f64) -> Run {
    Run {
        round,
        position,
        started_seconds: started,
        outcome: Outcome::Exited(0),
        cost: Cost {
            wall_seconds: wall,
            user_seconds: wall * 0.9,
            peak_rss_bytes: memory as u64,
            ..Cost::default()
        },
        counters: None,
        metrics: BTreeMap::from([("throughput".into(), 1.0 / wall)]),
        stdout_bytes: 3,
        stdout_sha256: "same".into(),
        left_running: false,
    }
}

/// Above 0 and up to 1.
pub(crate) fn uniform(random: &mut SplitMix64) -> f64 {
    ((random.next_number() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// A normally distributed number, by the transform of Box and Muller.
pub(crate) fn normal(random: &mut SplitMix64) -> f64 {
    let radius = (-2.0 * uniform(random).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * uniform(random)).cos()
}

/// Lets a variant crash in these rounds.
pub(crate) fn lose_runs(variant: &mut Variant, rounds: std::ops::Range<usize>) {
    for run in &mut variant.runs {
        if rounds.contains(&run.round) {
            run.outcome = Outcome::Signalled(11);
        }
    }
}

/// A file with these benchmarks, of a machine that has nothing else to do.
pub(crate) fn results(benchmarks: Vec<Benchmark>) -> Results {
    Results {
        format: FORMAT,
        reheap_version: "0.0.0".into(),
        started_at: "2026-01-01T00:00:00Z".into(),
        typed: Vec::new(),
        machine: Machine {
            name: "simulated".into(),
            architecture: "x86_64".into(),
            processor: "none".into(),
            processors: 4,
            memory_bytes: 1 << 30,
            kernel: "Linux 6.1".into(),
            libc: None,
            distribution: None,
            huge_pages: None,
            governor: None,
            is_virtual: false,
            load_average: Some(0.1),
            no_counters_because: None,
        },
        settings: Settings {
            seed: 1,
            rounds: None,
            budget_seconds: 60.0,
            precision: 0.02,
            time_limit_seconds: None,
            output: OutputCheck::Same,
        },
        benchmarks,
    }
}
