//! Builds the variants of a program that is already linked: its own allocator, and every other one, as a preload of a dynamic
//! program, or mapped into the process of a static one.
//!
//! A preloaded allocator takes part only if one untimed run showed that the program's calls reach it.

use crate::bench::last_words;
use crate::bench::mapped::StaticProgram;
use crate::bench::measure::Measurement;
use crate::bench::reach::{self, Reach, Unreachable};
use crate::bench::ready::{ReadyVariant, command_line};
use crate::bench::search::VariantSource;
use crate::bench::variants::{self, OfLibc, OwnCommand, Typed};
use anyhow::Context as _;
use reheap_allocators::probe::Recording;
use reheap_allocators::target::Libc;
use reheap_bench::experiment::{FirstRun, MeasureError};
use reheap_bench::outlook::TooSlow;
use reheap_bench::results::{Activity, LeftOut, Role};
use reheap_bench::run::CommandLine;
use reheap_command::choice::{Choice, Hardened};
use reheap_command::pulse;
use reheap_command::ui::{self, Failure};
use reheap_graft::GraftError;
use reheap_preload::census::Census;
use reheap_subject::limits::{self, Shortage};
use reheap_subject::program::{Obstacle, Program};
use reheap_workshop::grafting;
use reheap_workshop::preloading;
use reheap_workshop::workshop::Workshop;
use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
use std::rc::Rc;

/// All variants that the user asked for, ready to run, and those that cannot take part.
///
/// # Errors
/// If a named variant cannot be made, if the program loads no preload at all, or if the time is not enough for any value
/// of the sweep.
pub fn prepare(
    typed: &[Typed],
    words: &[OsString],
    measurement: &Measurement,
    workshop: &Workshop,
) -> anyhow::Result<(Vec<ReadyVariant>, Vec<LeftOut>)> {
    loop {
        match prepare_with_first_values(typed, words, measurement, workshop) {
            Ok(prepared) => return Ok((prepared.ready, prepared.left_out)),
            Err(error) => measurement.go_on_with_other_values(error)?,
        }
    }
}

fn prepare_with_first_values(
    typed: &[Typed],
    words: &[OsString],
    measurement: &Measurement,
    workshop: &Workshop,
) -> anyhow::Result<Prepared> {
    let program = if variants::all_own(typed) {
        None
    } else {
        Some(GivenProgram::resolve(words, measurement, workshop)?)
    };
    if let Some(Typed::OwnCommand(baseline)) = typed.first() {
        measurement.rehearse(&own_command(baseline).words)?;
    }
    let libc = program.as_ref().map_or(Libc::Glibc, |program| program.libc);
    let names: Vec<String> = typed
        .iter()
        .map(|choice| variants::shown(choice, libc))
        .collect();
    variants::refuse_duplicates(&names)?;
    let mut prepared = Prepared::default();
    for variant in typed {
        match (variant, &program) {
            (_, Some(program)) => program.take_in_named(variant, typed.len() - 1, &mut prepared)?,
            (Typed::OwnCommand(command), None) => prepared.ready.push(own_command(command)),
            (Typed::OfLibc(_), None) => unreachable!("not all are commands of their own"),
        }
    }
    if let (true, Some(program)) = (typed.is_empty(), &program) {
        prepared = program.all()?;
    }
    if let Some(baseline) = prepared.ready.first_mut() {
        baseline.role = Role::Baseline;
    }
    Ok(prepared)
}

#[derive(Default)]
struct Prepared {
    ready: Vec<ReadyVariant>,
    left_out: Vec<LeftOut>,
}

/// The user's own command. reheap claims nothing about its allocator.
pub fn own_command(command: &OwnCommand) -> ReadyVariant {
    ReadyVariant {
        name: command.name.clone(),
        role: Role::Candidate,
        allocator: None,
        tuning: Default::default(),
        words: command.words.iter().map(OsString::from).collect(),
        environment: Vec::new(),
        preparation: None,
        activity: Activity::NothingClaimed,
        unreached: Vec::new(),
        first_run: None,
    }
}

/// A program that was read for all variants, and what was found out about those that it starts.
pub(crate) struct ReadProgram {
    program: Program,
    /// None of a dynamic program.
    static_program: Option<Result<StaticProgram, GraftError>>,
    unreachable: Unreachable,
}

impl ReadProgram {
    /// Reads the program of a command. The time counts: an executable of a hundred megabytes takes a while.
    pub(crate) fn read(program: &Path, measurement: &Measurement) -> anyhow::Result<ReadProgram> {
        let what = format!("reading `{}`", program.display());
        let examine = || {
            let program = Program::resolve(program.as_os_str())?;
            let static_program = StaticProgram::examine(&program)?;
            anyhow::Ok((program, static_program))
        };
        let read = || pulse::while_spinning(&what, examine);
        let (read, _) = measurement.clock.count(read);
        let (program, static_program) = read?;
        Ok(ReadProgram {
            program,
            static_program,
            unreachable: Unreachable::default(),
        })
    }
}

impl ReadProgram {
    /// Refuses programs that cannot get another allocator.
    fn check(&self) -> Result<(), Failure> {
        let file = &self.program.route.file;
        let failure = |reason: &dyn Display, way_out: Option<String>| {
            let shown = file.display();
            let text = format!("cannot benchmark `{shown}` with other allocators: {reason}");
            let own = "compare commands of your own: --variant NAME=COMMAND";
            Failure::failed(text).hint(way_out.unwrap_or_else(|| own.to_owned()))
        };
        if let Some(Err(error)) = &self.static_program {
            return Err(failure(error, grafting::way_out(error, file)));
        }
        let is_in_the_way = |obstacle: &Obstacle| match obstacle {
            Obstacle::Static(_) => self.static_program.is_none(),
            obstacle => !obstacle.is_only_risky(),
        };
        match self.program.obstacles().into_iter().find(is_in_the_way) {
            None => Ok(()),
            Some(obstacle) => {
                let way_out = obstacle.way_out().map(str::to_owned);
                Err(failure(&obstacle, way_out))
            }
        }
    }
}

/// A run of the command with the probe, and how to repeat it.
struct Probed {
    recording: Recording,
    command: CommandLine,
    first_run: FirstRun,
}

/// A command whose program can get another allocator.
pub struct GivenProgram<'a> {
    words: &'a [OsString],
    read: Rc<ReadProgram>,
    libc: Libc,
    measurement: &'a Measurement,
    workshop: &'a Workshop,
}

impl<'a> GivenProgram<'a> {
    /// # Errors
    /// If the program does not exist, if it cannot get another allocator, or if it is a server that does not get ready.
    pub fn resolve(
        words: &'a [OsString],
        measurement: &'a Measurement,
        workshop: &'a Workshop,
    ) -> anyhow::Result<Self> {
        let command = command_line(words, measurement.first_parameters())?;
        let read = ReadProgram::read(&command.program, measurement)?;
        Self::with(Rc::new(read), words, measurement, workshop)
    }

    /// Resolves a command whose program was read before.
    ///
    /// # Errors
    /// Those of [`GivenProgram::resolve`].
    pub(crate) fn with(
        read: Rc<ReadProgram>,
        words: &'a [OsString],
        measurement: &'a Measurement,
        workshop: &'a Workshop,
    ) -> anyhow::Result<Self> {
        read.check()?;
        let program = &read.program;
        let target = program.target();
        let libc = target.map(|target| target.libc()).ok_or_else(|| {
            Failure::failed(format!(
                "there is no preload for `{}`",
                program.route.file.display()
            ))
        })?;
        measurement.rehearse(words)?;
        Ok(Self {
            words,
            read,
            libc,
            measurement,
            workshop,
        })
    }

    /// The program's own allocator, and those that `recommend` tries.
    fn all(&self) -> anyhow::Result<Prepared> {
        let mut prepared = Prepared {
            ready: vec![self.stock()?],
            left_out: Vec::new(),
        };
        let choices = Choice::to_try(Hardened::LeftOut)?;
        self.measurement
            .begin_step(&prepared.ready[0], choices.len())?;
        for choice in &choices {
            let ready = match self.measurement.clock.room() {
                Ok(()) => self.with_allocator(choice),
                Err(time) if prepared.ready.len() == 1 => {
                    return Err(MeasureError::TooLittleTime(time).into());
                }
                Err(time) => Err(anyhow::Error::msg(time.reason())),
            };
            self.measurement.go_on()?;
            match ready {
                Ok(ready) => self.take_in(ready, &mut prepared),
                Err(reason) => prepared.left_out.push(LeftOut {
                    name: variants::name(self.libc, choice),
                    reason: format!("{reason:#}"),
                }),
            }
        }
        if prepared.ready.len() == 1 {
            let reason = &prepared.left_out[0].reason;
            let shown = self.read.program.route.file.display();
            let text = format!("cannot give `{shown}` another allocator: {reason}");
            return Err(Failure::failed(text).into());
        }
        Ok(prepared)
    }

    fn take_in(&self, ready: ReadyVariant, prepared: &mut Prepared) {
        let first_run = ready.first_run.as_ref().map(|first_run| first_run.took);
        self.measurement.clock.add(first_run);
        prepared.ready.push(ready);
    }

    /// Makes a variant ready that the user asked for by name, if there is time for it.
    fn take_in_named(
        &self,
        variant: &Typed,
        wanted: usize,
        prepared: &mut Prepared,
    ) -> anyhow::Result<()> {
        if prepared.ready.is_empty() {
            let baseline = self.named(variant)?;
            self.measurement.begin_step(&baseline, wanted)?;
            prepared.ready.push(baseline);
            return Ok(());
        }
        let left_out = |reason| LeftOut {
            name: variants::shown(variant, self.libc),
            reason,
        };
        match self.measurement.clock.room() {
            Ok(()) => match self.named(variant) {
                Err(reason) if reason.is::<TooSlow>() => {
                    prepared.left_out.push(left_out(reason.to_string()));
                }
                ready => self.take_in(ready?, prepared),
            },
            Err(time) if prepared.ready.len() == 1 => {
                return Err(MeasureError::TooLittleTime(time).into());
            }
            Err(time) => prepared.left_out.push(left_out(time.reason())),
        }
        Ok(())
    }

    /// A variant that the user asked for by name.
    fn named(&self, variant: &Typed) -> anyhow::Result<ReadyVariant> {
        match variant {
            Typed::OfLibc(variant) => self.of_libc(variant),
            // What it takes decides what fits into the time, as with the others.
            Typed::OwnCommand(command) => self.tried_out(own_command(command)),
        }
    }

    fn tried_out(&self, ready: ReadyVariant) -> anyhow::Result<ReadyVariant> {
        let command = ready.command(self.measurement.first_parameters())?;
        let first_run = Some(self.measurement.try_out(&ready.name, command)?);
        Ok(ReadyVariant { first_run, ..ready })
    }

    fn of_libc(&self, variant: &OfLibc) -> anyhow::Result<ReadyVariant> {
        if variant.libc.is_some_and(|libc| libc != self.libc) {
            let (asked, shown) = (
                variants::name(self.libc, &variant.choice),
                self.read.program.route.file.display(),
            );
            let libc = self.libc;
            let text = format!("cannot run `{shown}` with another libc: it is linked with {libc}");
            let hint = format!("--variant {asked}; a Rust project: cargo reheap bench");
            return Err(Failure::usage(text).hint(hint).into());
        }
        self.with_allocator(&variant.choice)
    }

    fn stock(&self) -> anyhow::Result<ReadyVariant> {
        self.with_allocator(&Choice::of("stock", &[])?)
    }

    /// The command under an allocator that is active in it; under `stock`, its own.
    pub(crate) fn with_allocator(&self, choice: &Choice) -> anyhow::Result<ReadyVariant> {
        let shortage = limits::shortage(choice.allocator, &self.read.program, self.libc);
        if let Some(limit) = shortage.filter(Shortage::prevents_start) {
            let name = variants::name(self.libc, choice);
            let text = format!("cannot run {name}: {limit}");
            return Err(Failure::failed(text).hint(limit.way_out()).into());
        }
        match &self.read.static_program {
            Some(Ok(program)) => self.mapped(program, choice),
            _ => self.preloaded(choice),
        }
    }

    /// The command of a static program. Nothing has to be shown: it starts only with jumps to the allocator in its code.
    fn mapped(&self, program: &StaticProgram, choice: &Choice) -> anyhow::Result<ReadyVariant> {
        if choice.is_stock() && !choice.tuning.is_empty() {
            let text = "the options of `stock` are for dynamic programs with glibc";
            return Err(Failure::usage(text).into());
        }
        let preparation = program.preparation(choice, self.workshop)?;
        let activity = match preparation {
            Some(_) => {
                Activity::Seen("mapped into the process, where malloc leads to it".to_owned())
            }
            None => Activity::NothingClaimed,
        };
        self.tried_out(ReadyVariant {
            preparation,
            activity,
            ..ReadyVariant::new(self.libc, choice, self.words.to_vec())
        })
    }

    /// The command of a dynamic program under an allocator that a run showed to be active; without a preload, under the one
    /// that a run showed it to have.
    fn preloaded(&self, choice: &Choice) -> anyhow::Result<ReadyVariant> {
        let program = &self.read.program;
        let library = preloading::library(choice, program, self.workshop)?;
        let mut ready = ReadyVariant {
            environment: preloading::environment(choice, library.as_deref()),
            ..ReadyVariant::new(self.libc, choice, self.words.to_vec())
        };
        let Some(file) = preloading::file(choice, program, self.workshop)? else {
            return self.without_preload(ready);
        };
        let probed = self.observe(&ready)?;
        let reach = self.reach(&ready.name, &file, &probed)?;
        ready.activity = Activity::Seen(reach.seen);
        ready.unreached = reach.unreached;
        ready.first_run = Some(probed.first_run);
        Ok(ready)
    }

    /// The command as it is. A program that is linked with an allocator of its own, as Debian's redis is with jemalloc,
    /// has nothing of the libc's allocator: neither its name, nor its options.
    fn without_preload(&self, mut ready: ReadyVariant) -> anyhow::Result<ReadyVariant> {
        let probed = self.observe(&ready)?;
        let observation = probed.recording.observation()?;
        ready.first_run = Some(probed.first_run);
        let Some(own) = observation.providers.first().map(|provider| &provider.file) else {
            return Ok(ready);
        };
        let name = own.file_name().unwrap_or_default();
        let Ok(seen) = observation.active(own) else {
            return Ok(ready);
        };
        if preloading::is_libc(name) {
            return Ok(ready);
        }
        let (libc, name) = (self.libc, name.display());
        if !ready.tuning.is_empty() {
            let text = format!(
                "cannot measure {}: the command has the malloc of {name}, which knows no option of {libc}",
                ready.name
            );
            return Err(Failure::usage(text).into());
        }
        ui::note(&format!(
            "the command has the malloc of {name} and not that of {libc}"
        ));
        Ok(ReadyVariant {
            name: format!("{libc}+{name}"),
            allocator: None,
            activity: Activity::Seen(seen),
            ..ready
        })
    }

    /// Runs the command once with a probe in front of all libraries, and gives what the probe saw and what came of the
    /// run.
    fn observe(&self, ready: &ReadyVariant) -> anyhow::Result<Probed> {
        let recording = Recording::create()?;
        let target = self
            .read
            .program
            .target()
            .context("there is no preload for it")?;
        let probe = preloading::probe(&target, self.workshop)?;
        let mut command = command_line(self.words, self.measurement.first_parameters())?;
        let mut environment = ready.environment.clone();
        let preload = preloading::take_out(&mut environment).or_else(preloading::present);
        environment.extend(recording.environment(&probe, preload.as_deref()));
        command.environment = environment;
        let first_run = self.measurement.try_out(&ready.name, command.clone())?;
        Ok(Probed {
            recording,
            command,
            first_run,
        })
    }

    /// How far the library reaches into the command, by what the probe saw in a run.
    fn reach(&self, variant: &str, library: &Path, probed: &Probed) -> anyhow::Result<Reach> {
        let (measurement, first_run) = (self.measurement, &probed.first_run);
        let observation = probed.recording.observation()?;
        let mut census = Census::new(library, self.libc);
        if !observation.unheard.is_empty() {
            // Once more, because only a running process shows its memory.
            census.look_during(|| measurement.try_out(variant, probed.command.clone()))??;
        }
        let active = observation.active(library);
        let seen = active.or_else(|why| census.loaded_by(&why).ok_or(why));
        let seen = seen.map_err(|why| {
            let why = preloading::explained(why, &self.read.program, library);
            let text = format!("{variant} would not be active: {why}");
            // A program that has failed early may not have come as far as to its first allocation.
            let failed = if first_run.finished.outcome.is_success() {
                String::new()
            } else {
                last_words::failed(&first_run.finished)
            };
            Failure::failed(format!("{text}{failed}"))
        })?;
        let unreachable = &self.read.unreachable;
        let count = |read: &dyn Fn() -> _| self.measurement.clock.count(read).0;
        let unreached = unreachable.of(&observation, self.libc, count);
        let reach = Reach { seen, unreached };
        match reach::share_of_unreached(&observation, &first_run.finished.cost) {
            share if share > reach::SHARE_MAX && !reach.unreached.is_empty() => {
                Err(reach.refusal(variant, share).into())
            }
            _ => Ok(reach),
        }
    }
}

impl VariantSource for GivenProgram<'_> {
    fn baseline(&self) -> anyhow::Result<ReadyVariant> {
        self.stock()
    }

    fn candidate(&self, choice: &Choice) -> anyhow::Result<ReadyVariant> {
        self.with_allocator(choice)
    }

    fn baseline_libc(&self) -> Libc {
        self.libc
    }

    fn candidate_libc(&self) -> Libc {
        self.libc
    }

    fn tunes_baseline(&self) -> bool {
        self.libc == Libc::Glibc && self.read.static_program.is_none()
    }
}
