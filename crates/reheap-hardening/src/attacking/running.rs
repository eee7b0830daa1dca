//! Runs every attack under every variant as often as wanted, as many at once as there are processors.

use crate::attacking::judge::judge;
use crate::attacking::random::randomisation;
use crate::attacking::targets::Target;
use reheap_bench::machine;
use reheap_bench::results::{LeftOut, Outcome as End};
use reheap_bench::run::{CommandLine, Finished, Launcher, Limits, RunError};
use reheap_command::interrupt;
use reheap_command::pulse;
use reheap_command::ui::{self, Failure};
use reheap_report::attacks::{Attack, Cell, Ending, FORMAT, Outcome, Results, Starts, Variant};
use reheap_variants::bench::last_words;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// An attack takes some milliseconds; one that takes this long does not end.
const HUNG_AFTER: Duration = Duration::from_secs(2);
/// Addresses of so many starts are compared.
const STARTS: u32 = 200;

const LEAVE_OUT: &str = "try again, or name the other variants with `--variant`";
const WITHOUT_PRELOADS: &str =
    "unset LD_PRELOAD; `reheap status` says whether a preload is enabled for the whole system";

/// What to run.
pub struct Plan {
    /// The attacks that are tried.
    pub attacks: Vec<Attack>,
    /// The program with each allocator.
    pub targets: Vec<Target>,
    /// The variants that there are not.
    pub left_out: Vec<LeftOut>,
    /// How often each attack is tried.
    pub runs: u32,
    /// What becomes of a variant that does not work.
    pub unusable: Unusable,
}

/// What becomes of a variant under which the program does not even start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// It is an error: somebody asked for it by name.
    Refused,
    /// It is named among those that took no part.
    LeftOut,
}

/// One process.
#[derive(Clone, Copy)]
struct Job {
    target: usize,
    /// The attack's place in the list; none for one that only tells addresses.
    attack: Option<usize>,
}

/// What a job brought.
enum Brought {
    Judged(Outcome, String),
    Addresses(Vec<u64>),
}

/// Runs all.
///
/// # Errors
/// If the program cannot be started under a variant, does not have the variant's allocator, or somebody pressed Ctrl-C.
pub fn run(plan: &Plan, interrupted: &AtomicBool) -> anyhow::Result<Results> {
    let launcher = Launcher::new()?;
    let mut attacking = Attacking {
        plan,
        launcher: &launcher,
        interrupted,
        subjects: Vec::new(),
    };
    let (mut variants, mut left_out) = (Vec::new(), plan.left_out.clone());
    for target in &plan.targets {
        match attacking.unharmed(target) {
            Ok((variant, usual)) => {
                variants.push(variant);
                attacking.subjects.push(Subject { target, usual });
            }
            Err(reason) if plan.unusable == Unusable::LeftOut && !attacking.is_interrupted() => {
                let (name, reason) = (target.name.clone(), ui::printable(format!("{reason:#}")));
                left_out.push(LeftOut { name, reason });
            }
            Err(error) => return Err(error),
        }
    }
    attacking.all(&mut variants)?;
    Ok(Results {
        reheap_attack: FORMAT,
        reheap: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine::describe(&launcher),
        randomisation: randomisation(),
        runs: plan.runs,
        attacks: plan.attacks.clone(),
        variants,
        left_out,
    })
}

struct Attacking<'a> {
    plan: &'a Plan,
    launcher: &'a Launcher,
    interrupted: &'a AtomicBool,
    subjects: Vec<Subject<'a>>,
}

/// What is attacked.
struct Subject<'a> {
    target: &'a Target,
    /// What the program says to standard error when nothing is wrong.
    usual: String,
}

impl Attacking<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// A variant that no attack was tried under yet. The program runs, and has the allocator that it should have.
    /// Also what it says to standard error then.
    fn unharmed(&self, target: &Target) -> anyhow::Result<(Variant, String)> {
        let name = &target.name;
        let finished = self.start(target, "where")?;
        let said = String::from_utf8_lossy(&finished.stdout.head);
        let malloc_in = said.trim_end().to_owned();
        if finished.outcome != End::Exited(0) {
            let how = last_words::failed(&finished);
            let text = format!("cannot run the program under `{name}`{how}");
            return Err(Failure::failed(text).into());
        }
        let seen = Path::new(&malloc_in).file_name().unwrap_or_default();
        if !target.malloc_in.is(seen) {
            let malloc_in = ui::printable(&malloc_in);
            let text = format!("the program did not get `{name}`: its malloc was in `{malloc_in}`");
            let failure = Failure::failed(text);
            return Err(failure.hint(WITHOUT_PRELOADS).into());
        }
        let cell = |attack: &Attack| Cell {
            attack: attack.name.clone(),
            endings: Vec::new(),
        };
        let usual = String::from_utf8_lossy(&finished.stderr.head).into_owned();
        let variant = Variant {
            name: name.clone(),
            allocator: target.allocator.clone(),
            tuning: target.tuning.clone(),
            // What the path leads to differs from machine to machine.
            malloc_in: seen.display().to_string(),
            cells: self.plan.attacks.iter().map(cell).collect(),
            starts: Starts::default(),
        };
        Ok((variant, usual))
    }

    /// Runs everything, and adds what it brought to the variants.
    fn all(&self, variants: &mut [Variant]) -> anyhow::Result<()> {
        let jobs = jobs(self.plan, self.subjects.len());
        let (next, total) = (Arc::new(AtomicUsize::new(0)), jobs.len());
        let (brought, failed) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let work = || {
            while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                match self.job(*job) {
                    Ok(result) => locked(&brought).push((*job, result)),
                    Err(error) => {
                        next.store(total, Ordering::Relaxed); // nobody need go on
                        locked(&failed).push(error);
                    }
                }
            }
        };
        let counted = Arc::clone(&next);
        let words = move || {
            let done = counted.load(Ordering::Relaxed).min(total);
            format!("attacking: {done} of {total} runs")
        };
        let workers = thread::available_parallelism().map_or(1, usize::from);
        pulse::while_telling("attacking", |pulse| {
            pulse.now(words);
            thread::scope(|scope| {
                let spawn = |_| thread::Builder::new().spawn_scoped(scope, work);
                let others: Vec<_> = (1..workers)
                    .filter_map(|worker| spawn(worker).ok())
                    .collect();
                work();
                for other in others {
                    other.join().expect("a worker does not panic");
                }
            });
        });
        only_error(failed.into_inner().unwrap_or_else(PoisonError::into_inner))?;
        for (job, result) in brought.into_inner().unwrap_or_else(PoisonError::into_inner) {
            add(&mut variants[job.target], job.attack, result);
        }
        for cell in variants.iter_mut().flat_map(|variant| &mut variant.cells) {
            let order = |ending: &Ending| (std::cmp::Reverse(ending.runs), ending.said.clone());
            cell.endings.sort_by_key(order);
        }
        Ok(())
    }

    fn job(&self, job: Job) -> anyhow::Result<Brought> {
        let Subject { target, usual } = &self.subjects[job.target];
        let name = &target.name;
        let Some(attack) = job.attack else {
            let finished = self.start(target, "addresses")?;
            let text = String::from_utf8_lossy(&finished.stdout.head).into_owned();
            let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16);
            let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(number).collect();
            return match numbers {
                Ok(numbers) if numbers.len() > 2 => Ok(Brought::Addresses(numbers)),
                _ => {
                    let how = last_words::failed(&finished);
                    let text =
                        format!("the program under `{name}` did not say where its blocks are{how}");
                    Err(Failure::failed(text).hint(LEAVE_OUT).into())
                }
            };
        };
        let finished = self.start(target, &self.plan.attacks[attack].name)?;
        let (outcome, said) = judge(&finished, usual, target.message);
        Ok(Brought::Judged(outcome, said))
    }

    fn start(&self, target: &Target, attack: &str) -> anyhow::Result<Finished> {
        let (program, arguments) = target.words.split_first().expect("there is a program");
        let mut command = CommandLine {
            program: program.into(),
            arguments: arguments.to_vec(),
            environment: target.environment.clone(),
            ..CommandLine::default()
        };
        command.arguments.push(attack.into());
        // An old glibc writes its last words to the terminal otherwise.
        let to_stderr: (OsString, OsString) = ("LIBC_FATAL_STDERR_".into(), "1".into());
        command.environment.push(to_stderr);
        let limits = Limits {
            time: Some(HUNG_AFTER),
            memory: None,
            interrupted: Some(self.interrupted),
        };
        match self.launcher.run(&command, &limits, &[]) {
            Ok(finished) => Ok(finished),
            Err(RunError::Interrupted) => Err(interrupt::failure("interrupted").into()),
            Err(error) => {
                let text = format!("cannot attack `{}`: {error}", target.name);
                Err(Failure::failed(text).hint(LEAVE_OUT).into())
            }
        }
    }
}

fn locked<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first error. If others say something else, they are told before it.
fn only_error(errors: Vec<anyhow::Error>) -> anyhow::Result<()> {
    let mut errors = errors.into_iter();
    let Some(first) = errors.next() else {
        return Ok(());
    };
    let told = format!("{first:#}");
    for other in errors.map(|error| format!("{error:#}")) {
        if other != told {
            ui::note(&format!("another run failed, too: {other}"));
        }
    }
    Err(first)
}

/// All processes, so ordered that each round has every attack under every variant once.
fn jobs(plan: &Plan, targets: usize) -> Vec<Job> {
    let mut jobs = Vec::new();
    let targets = 0..targets;
    for _ in 0..plan.runs {
        for target in targets.clone() {
            jobs.extend((0..plan.attacks.len()).map(|attack| Job {
                target,
                attack: Some(attack),
            }));
        }
    }
    for _ in 0..STARTS {
        jobs.extend(targets.clone().map(|target| Job {
            target,
            attack: None,
        }));
    }
    jobs
}

fn add(variant: &mut Variant, attack: Option<usize>, brought: Brought) {
    match brought {
        Brought::Judged(outcome, said) => {
            let cell = &mut variant.cells[attack.expect("it was an attack")];
            let same = |ending: &&mut Ending| ending.outcome == outcome && ending.said == said;
            match cell.endings.iter_mut().find(same) {
                Some(ending) => ending.runs += 1,
                None => cell.endings.push(Ending {
                    outcome,
                    said,
                    runs: 1,
                }),
            }
        }
        Brought::Addresses(numbers) => {
            let starts = &mut variant.starts;
            starts.small.push(numbers[0]);
            starts.large.push(numbers[1]);
            for distance in &numbers[2..] {
                *starts.distances.entry(*distance as i64).or_default() += 1;
            }
        }
    }
}
