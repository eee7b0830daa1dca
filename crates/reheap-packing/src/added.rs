//! An allocator for an image that somebody else built: one layer with the preload for its libc, and the variables that
//! load it. Also the way back. If the image's program is static, the layer has that with the allocator in it.
//!
//! `LD_PRELOAD` fails silently, in an image as anywhere else. So the program that the image starts is found and judged
//! first, as `reheap run` does. The libraries go to fixed paths below `/usr/lib/reheap`, and the variable names them with
//! `$LIB`, which only glibc expands: processes of the other libc find nothing there that could end them
//! ([`preload::path_for_variable`] does the same in the cache).

use super::judged::Judged;
use super::options::PackingArguments;
use super::place::{Format, Place, Written};
use super::report::{line, size};
use super::source::Source;
use anyhow::Context as _;
use reheap_allocators::own_library::NOTHING;
use reheap_allocators::preload::glibc_library_directories;
use reheap_allocators::target::{Architecture, Libc, Target};
use reheap_command::choice::Choice;
use reheap_command::env_vars::LD_PRELOAD;
use reheap_command::interrupt;
use reheap_command::ui::{self, Failure};
use reheap_image::added::{Addition, Checked, DIRECTORY, Restored, environment, value_of};
use reheap_image::layer::{Content, Entry};
use reheap_image::read::{Form, ReadError};
use reheap_image::sealed::Sealed;
use reheap_image::{Platform, Workplace};
use reheap_subject::container::{self, Contents};
use reheap_subject::program::Obstacle;
use reheap_workshop::grafting::{self, Ungrafted};
use reheap_workshop::workshop::{Network, Workshop};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// A library in the directory of those that reheap adds, to see whether `LD_PRELOAD` gets to the program.
const ANY_LIBRARY: &str = "/usr/lib/reheap/$LIB/allocator.so";
/// What the image says about a preload, in its labels and annotations.
const PRELOAD_LABEL: &str = "io.github.reheap.preload";
/// What it says about a program with another allocator in it.
const GRAFT_LABEL: &str = "io.github.reheap.graft";

/// An image to change, and where the changed one goes.
pub struct Change<'a> {
    /// A path, or a name in a registry.
    image: &'a Path,
    source: Source<'a>,
    place: Place,
    format: Option<Format>,
    arguments: &'a PackingArguments,
}

/// What was written.
#[derive(Debug, Serialize)]
struct Report {
    file: Option<String>,
    pushed_to: Option<String>,
    format: &'static str,
    /// The manifest's digest; for Docker's archive the image's ID.
    digest: String,
    size_bytes: u64,
    platform: String,
    /// The digest of its configuration.
    id: String,
    /// What was added.
    allocator: Option<String>,
    /// What was taken off.
    removed: Option<String>,
    /// Whether the digest is the old one again, after taking off.
    restored: Option<bool>,
    program: Option<String>,
    libc: Option<String>,
    /// The variables that were set.
    environment: BTreeMap<String, String>,
    layer: Option<Layer>,
    /// Why the program may start without the allocator all the same.
    warnings: Vec<String>,
    /// The command that shows which allocator a running container has.
    proof: Option<String>,
    /// Platforms of the image that the new one does not have.
    left_out: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Layer {
    digest: String,
    size_bytes: u64,
}

impl<'a> Change<'a> {
    /// Checks the flags, and that the image can go where it shall.
    pub fn new(image: &'a Path, arguments: &'a PackingArguments) -> anyhow::Result<Self> {
        let platforms: Vec<Platform> = arguments
            .platform
            .iter()
            .map(|text| super::options::platform(text))
            .collect::<Result<_, _>>()?;
        if platforms.len() > 1 {
            return Err(Failure::usage("give --platform once: one image is changed").into());
        }
        let format = arguments.format;
        let place = arguments.place.check(format.unwrap_or(Format::Oci))?;
        Ok(Self {
            image,
            source: Source {
                image,
                platform: platforms.into_iter().next(),
                plain_http: arguments.place.plain_http,
                place: place.shown(),
            },
            place,
            format,
            arguments,
        })
    }

    /// Adds an allocator, in the place of one that reheap has added before.
    pub fn add(&self, choice: &Choice, command: String) -> anyhow::Result<()> {
        let name = choice.allocator.name;
        if choice.is_stock() {
            let text = "`stock` is the libc's own allocator, which the image has already";
            let hint = "to take off what reheap has added: reheap image --remove";
            return Err(Failure::usage(text).hint(hint).into());
        }
        let interrupted = interrupt::on_signals()?;
        let workplace = Workplace::new(self.place.parent(), &interrupted);
        let verb = format!("add {name} to");
        let mut image = self.source.open(&verb, &workplace)?;
        let mut removed = None;
        if let Some(record) = image
            .record(&workplace)
            .map_err(|e| self.source.explained(&verb, e))?
        {
            let (before, _) = image
                .restore(&record)
                .map_err(|e| self.source.explained(&verb, e))?;
            image = before;
            removed = Some(record.added);
        }
        let contents =
            Contents::new(&image.tree, &image.settings, &workplace).with_preload(ANY_LIBRARY);
        let judged = Judged::of(&contents, &image.settings);
        let judged = judged.map_err(|error| self.source.of_container(&verb, error))?;
        let workshop = Workshop::new(Network::AsConfigured);
        let check_reading = || {
            let noted = contents.noted();
            noted.map_err(|error| self.source.of_container(&verb, error))
        };
        let prepared = if judged.is_static() {
            check_reading()?;
            self.grafted(&verb, choice, &judged, &image, &workshop)?
        } else {
            self.refuse(&verb, &judged)?;
            let target = judged
                .target
                .context("a program without obstacles has a target")?;
            let library = workshop.preload(choice, &target)?;
            let missing = judged.missing(&library, &target)?;
            check_reading()?;
            self.refuse_library(&verb, &judged, &library, &missing)?;
            Prepared::new(choice, &target, &library, &image.settings, &workshop)?
        };
        let title = format!("{name} {}", choice.allocator.version);
        let addition = Addition {
            title: title.clone(),
            command,
            files: prepared.files,
            environment: prepared.environment.clone(),
            labels: BTreeMap::from([(prepared.label.to_owned(), title.clone())]),
            compression: self.arguments.compression(),
            time: super::time()?,
        };
        let sealed = image
            .add(&addition, &workplace)
            .map_err(|e| self.source.explained(&verb, e))?;
        let layer = sealed.layers.last().map(|(_, blob)| Layer {
            digest: blob.digest().to_string(),
            size_bytes: blob.size_bytes(),
        });
        let written = self.write(&image, &sealed, &workplace)?;
        self.say(Report {
            allocator: Some(title),
            removed,
            program: Some(judged.program.path.display().to_string()),
            libc: Some(prepared.libc.to_string()),
            environment: prepared.environment.into_iter().collect(),
            layer,
            warnings: if judged.is_static() {
                Vec::new()
            } else {
                judged.program.environment.doubts()
            },
            proof: Some(judged.program.proof()),
            ..self.report(&image, &sealed, &written)
        })
    }

    /// The image's static program with the allocator in it.
    fn grafted(
        &self,
        verb: &str,
        choice: &Choice,
        judged: &Judged<'_>,
        image: &Checked,
        workshop: &Workshop,
    ) -> anyhow::Result<Prepared> {
        let (program, path) = (&judged.program, &judged.program.path);
        let cannot = |reason: &dyn Display| {
            let (image, path) = (self.image.display(), ui::printable(path));
            Failure::failed(format!(
                "cannot {verb} `{image}`: its program `{path}`: {reason}"
            ))
        };
        if program.has_capabilities {
            return Err(
                cannot(&"it has file capabilities, which a changed file does not have").into(),
            );
        }
        let bytes = judged.program_bytes().map_err(|error| cannot(&error))?;
        let grafted = grafting::graft(choice, &bytes, workshop);
        let grafted = grafted.map_err(|error| match error {
            Ungrafted::Program(error) => cannot(&error).into(),
            Ungrafted::Library(error) => error,
            Ungrafted::Unproved(error) => cannot(&error).into(),
        })?;
        // A link stays one.
        let path = image
            .tree
            .resolve(path)
            .map_err(|e| self.source.explained(verb, e))?;
        let path = path.unwrap_or_else(|| program.path.clone());
        let entry = Entry {
            content: Content::Bytes(grafted.bytes),
            mode: program.mode,
            owner: program.owner,
        };
        Ok(Prepared {
            files: BTreeMap::from([(path, entry)]),
            environment: Vec::new(),
            label: GRAFT_LABEL,
            libc: judged.target.context("its libc is known")?.libc(),
        })
    }

    /// Takes off what reheap has added.
    pub fn remove(&self) -> anyhow::Result<()> {
        let interrupted = interrupt::on_signals()?;
        let workplace = Workplace::new(self.place.parent(), &interrupted);
        let verb = "remove what reheap added to";
        let cannot = |error| self.source.explained(verb, error);
        let image = self.source.open(verb, &workplace)?;
        let record = image.record(&workplace).map_err(cannot)?;
        let record = record.ok_or(ReadError::NothingAdded).map_err(cannot)?;
        let (image, restored) = image.restore(&record).map_err(cannot)?;
        let sealed = image.seal();
        let written = self.write(&image, &sealed, &workplace)?;
        let is_docker = self.form(image.image.form) == Form::Docker;
        self.say(Report {
            removed: Some(record.added),
            restored: Some(is_docker || restored == Restored::Manifest),
            ..self.report(&image, &sealed, &written)
        })
    }

    fn refuse(&self, verb: &str, judged: &Judged<'_>) -> anyhow::Result<()> {
        self.refuse_environment(verb, judged)?;
        let Some(obstacle) = judged.obstacles.first() else {
            return Ok(());
        };
        let text = format!(
            "cannot {verb} `{}`: its program `{}`: {}",
            self.image.display(),
            ui::printable(&judged.program.path),
            match obstacle {
                Obstacle::OtherArchitecture(architecture) => format!(
                    "it is for {architecture}, and reheap has libraries for {}",
                    Architecture::WITH_PRELOADS
                        .map(Architecture::name)
                        .join(" and ")
                ),
                other => ui::printable(other.to_string()),
            }
        );
        let failure = Failure::failed(text);
        // Those hints are about `reheap run`.
        Err(
            match obstacle.way_out().filter(|_| !obstacle.is_only_risky()) {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
            .into(),
        )
    }

    /// Refuses an image in which something takes `LD_PRELOAD` away before the program starts.
    fn refuse_environment(&self, verb: &str, judged: &Judged<'_>) -> anyhow::Result<()> {
        let environment = &judged.program.environment;
        let (Some(change), false) = (
            environment.change(),
            environment.preloads().contains(ANY_LIBRARY),
        ) else {
            return Ok(());
        };
        let text = format!(
            "cannot {verb} `{}`: its program `{}` would start without it: {change}",
            self.image.display(),
            ui::printable(&judged.program.path),
        );
        let hint = match environment.preloads() {
            "" => "change the image so that LD_PRELOAD stays, and add the allocator to that".into(),
            others => format!(
                "set it in the image (`ENV LD_PRELOAD={}`) and not in what starts the program; reheap adds to that",
                ui::printable(others)
            ),
        };
        Err(Failure::failed(text).hint(hint).into())
    }

    /// Refuses an image in which the dynamic linker would not find all that a library needs: the program would not start.
    fn refuse_library(
        &self,
        verb: &str,
        judged: &Judged<'_>,
        library: &Path,
        missing: &[String],
    ) -> anyhow::Result<()> {
        let cannot = format!("cannot {verb} `{}`", self.image.display());
        if !missing.is_empty() {
            let missing = ui::printable(missing.join(" and "));
            let because = container::because(judged.covered.as_ref());
            let text = format!(
                "{cannot}: it lacks {missing}, which the allocator's library needs{because}"
            );
            return Err(Failure::failed(text).into());
        }
        let Some(version) = judged.missing_version(library)? else {
            return Ok(());
        };
        let text = format!(
            "{cannot}: the allocator's library needs {version}, and the image has an older glibc"
        );
        let hint = "use prebuilt allocators, which need glibc 2.17 or later";
        Err(Failure::failed(text).hint(hint).into())
    }

    fn form(&self, of_image: Form) -> Form {
        match self.format {
            Some(Format::Oci) => Form::Oci,
            Some(Format::Docker) => Form::Docker,
            None if self.place.is_directory() && of_image == Form::Docker => Form::Oci,
            None => of_image,
        }
    }

    fn write(
        &self,
        image: &Checked,
        sealed: &Sealed,
        workplace: &Workplace<'_>,
    ) -> anyhow::Result<Written> {
        let parts = sealed.parts(self.form(image.image.form));
        self.place
            .write(&parts, || sealed.parts(Form::Oci), workplace)
    }

    fn report(&self, image: &Checked, sealed: &Sealed, written: &Written) -> Report {
        let form = self.form(image.image.form);
        let id = sealed.configuration.digest().to_string();
        Report {
            file: self.place.file(),
            pushed_to: written.pushed.as_ref().and(self.place.pushed_to()),
            format: match form {
                Form::Docker => "docker",
                Form::Oci | Form::Both => "oci",
            },
            digest: match form {
                Form::Docker if written.pushed.is_none() => id.clone(),
                _ => sealed.manifest.blob.digest().to_string(),
            },
            size_bytes: written.size_bytes,
            platform: sealed.platform.to_string(),
            id,
            allocator: None,
            removed: None,
            restored: None,
            program: None,
            libc: None,
            environment: BTreeMap::new(),
            layer: None,
            warnings: Vec::new(),
            proof: None,
            left_out: image.image.others.clone(),
        }
    }

    fn say(&self, report: Report) -> anyhow::Result<()> {
        for warning in &report.warnings {
            ui::note(&format!("warning: {warning}"));
        }
        match (self.place.is_stream(), self.arguments.json) {
            (true, _) => ui::beside(&report.text()),
            (_, true) => ui::data(&(serde_json::to_string_pretty(&report)? + "\n"))?,
            (_, false) => ui::data(&report.text())?,
        }
        Ok(())
    }
}

impl Report {
    fn text(&self) -> String {
        let mut text = String::new();
        for place in self.file.iter().chain(&self.pushed_to) {
            let place = ui::printable(place);
            line(
                &mut text,
                &format!("{place}: {}, {}", size(self.size_bytes), self.digest),
            );
        }
        if let (Some(program), Some(libc)) = (&self.program, &self.libc) {
            let program = ui::printable(program);
            line(
                &mut text,
                &format!("  {}: {program}, {libc}", self.platform),
            );
        }
        let removed = self.removed.as_deref().map(ui::printable);
        match (&self.allocator, removed, &self.layer) {
            (Some(allocator), None, Some(layer)) => {
                line(
                    &mut text,
                    &format!("  {:>9}  added {allocator}", size(layer.size_bytes)),
                );
            }
            (Some(allocator), Some(removed), Some(layer)) => {
                let size = size(layer.size_bytes);
                line(
                    &mut text,
                    &format!("  {size:>9}  added {allocator} in place of {removed}"),
                );
            }
            (_, Some(removed), _) => {
                line(
                    &mut text,
                    &format!("  {}: removed {removed}", self.platform),
                );
            }
            _ => {}
        }
        for (name, value) in &self.environment {
            line(&mut text, &format!("  {name}={}", ui::printable(value)));
        }
        if let Some(proof) = &self.proof {
            line(&mut text, "  to see it in a running container:");
            line(&mut text, &format!("    {proof}"));
        }
        if self.restored == Some(false) {
            line(
                &mut text,
                "  the image has its old ID, but another manifest: its layers were compressed again since, or its \
                 archive had none",
            );
        }
        if !self.left_out.is_empty() {
            let left_out = self.left_out.iter().map(ui::printable).collect::<Vec<_>>();
            line(&mut text, &format!("  left out: {}", left_out.join(", ")));
        }
        text
    }
}

/// The files and variables that load an allocator in an image.
struct Prepared {
    files: BTreeMap<PathBuf, Entry>,
    environment: Vec<(String, String)>,
    label: &'static str,
    libc: Libc,
}

impl Prepared {
    fn new(
        choice: &Choice,
        target: &Target,
        library: &Path,
        settings: &Value,
        workshop: &Workshop,
    ) -> anyhow::Result<Self> {
        let name = library.file_name().context("a library has a name")?;
        let mut files = BTreeMap::from([(PathBuf::from(name), Entry::program(library))]);
        let link = |to: &Path| Entry::link(Path::new(DIRECTORY).join(to));
        let of_glibc = match target.libc() {
            Libc::Glibc => Some(PathBuf::from(name)),
            Libc::Musl => {
                files.insert(Path::new("$LIB").join(name), link(name.as_ref()));
                nothing(target, workshop, &mut files)
            }
        };
        if let Some(of_glibc) = of_glibc {
            for directory in glibc_library_directories(target.arch()) {
                files.insert(Path::new(&directory).join(name), link(&of_glibc));
            }
        }
        let path = Path::new(DIRECTORY).join("$LIB").join(name);
        Ok(Self {
            files,
            environment: variables(choice, &path, settings),
            label: PRELOAD_LABEL,
            libc: target.libc(),
        })
    }
}

/// An empty library for the glibc programs in an image whose main one is of musl: glibc complains of a library that is not there.
fn nothing(
    target: &Target,
    workshop: &Workshop,
    files: &mut BTreeMap<PathBuf, Entry>,
) -> Option<PathBuf> {
    let of_glibc = Target::new(target.arch(), Libc::Glibc);
    let library = workshop.own_library(&NOTHING, &of_glibc).ok()?;
    let name = PathBuf::from(library.file_name()?);
    files.insert(name.clone(), Entry::program(&library));
    Some(name)
}

/// The new values: those of the image come after `LD_PRELOAD`'s and before those of lists of options, of which the last
/// one counts.
fn variables(choice: &Choice, library: &Path, settings: &Value) -> Vec<(String, String)> {
    let lines = environment(&settings["config"]);
    let present = |name: &str| value_of(&lines, name).filter(|value| !value.is_empty());
    let mut preload = library.display().to_string();
    if let Some(others) = present(LD_PRELOAD) {
        preload.push(':');
        preload.push_str(others);
    }
    let tuning = choice.tuning.variables(choice.allocator).into_iter();
    let tuning = tuning.map(|(variable, setting)| {
        let name = variable.name();
        let value = variable.merged(present(name).map(AsRef::as_ref), &setting);
        (name.to_owned(), value.to_string_lossy().into_owned())
    });
    [(LD_PRELOAD.to_owned(), preload)]
        .into_iter()
        .chain(tuning)
        .collect()
}
