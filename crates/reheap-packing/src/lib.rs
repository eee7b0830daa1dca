//! Programs as container images: what `reheap image` and `cargo reheap image` share.
//!
//! [`options`] checks the flags, [`programs`] the programs, before anything is written. `reheap-image` makes the image,
//! and [`report`] says what is in it.

#![allow(
    clippy::missing_errors_doc,
    reason = "errors are messages to the user, whatever failed"
)]

pub mod added;
mod based;
mod judged;
mod libraries;
pub mod options;
pub(crate) mod place;
pub mod programs;
mod report;
mod source;

use anyhow::Context as _;
use options::{CaCertificates, Options};
use place::Format;
use programs::Packable;
use reheap_command::env_vars;
use reheap_command::interrupt;
use reheap_command::ui::{self, Failure};
use reheap_image::certificates::Certificates;
use reheap_image::registry::Pushed;
use reheap_image::sbom;
use reheap_image::scratch::{Program, Recipe, User};
use reheap_image::{Image, ImageError, Platform, Workplace, docker, oci};
use reheap_static::project::Origin;
use reheap_subject::container::Contents;
use report::Report;
use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Annotations of reheap's own.
const ALLOCATORS: &str = "io.github.reheap.allocators";
const SBOM: &str = "io.github.reheap.sbom";
/// Where zones are installed (Debian's `tzdata` and everybody else's).
const TIME_ZONES: &str = "/usr/share/zoneinfo";

/// Packs programs, the first of each platform being the one that starts.
pub fn pack(programs: &[Packable], options: &Options, origin: &Origin) -> anyhow::Result<()> {
    if let Some(base) = &options.base {
        return based::pack(base, programs, options, origin);
    }
    let platforms = by_platform(programs, options)?;
    let recipes: Vec<Recipe> = platforms
        .into_iter()
        .map(|(platform, programs)| recipe(platform, &programs, options, origin, None))
        .collect::<anyhow::Result<_>>()?;
    let interrupted = interrupt::on_signals()?;
    let (images, written) = make(&recipes, options, programs, &interrupted)?;
    say(&Report::new(&recipes, &images, options, written), options)
}

fn say(report: &Report, options: &Options) -> anyhow::Result<()> {
    match (options.place.is_stream(), options.json) {
        // Its reader wants the image and nothing else.
        (true, _) => ui::beside(&report.text()),
        (_, true) => ui::data(&report.json()?)?,
        (_, false) => ui::data(&report.text())?,
    }
    Ok(())
}

/// What was written.
struct Written {
    size_bytes: u64,
    digest: String,
    manifests: Vec<String>,
    pushed: Option<Pushed>,
}

fn make(
    recipes: &[Recipe],
    options: &Options,
    programs: &[Packable],
    interrupted: &Arc<AtomicBool>,
) -> anyhow::Result<(Vec<Image>, Written)> {
    let workplace = Workplace::new(options.place.parent(), interrupted);
    let images: Vec<Image> = recipes
        .iter()
        .map(|recipe| recipe.make(&workplace))
        .collect::<Result<_, _>>()
        .map_err(|error| explained(error, Path::new(&options.place.shown())))?;
    let name = programs::image_name(&programs[0].name);
    let (parts, digest, manifests) = match options.format {
        Format::Oci => {
            let layout = oci::layout(&images, &name);
            (layout.parts, layout.digest, layout.manifests)
        }
        Format::Docker => {
            let digest = images[0].configuration_file().digest().to_string();
            (docker::parts(&images[0], &name), digest, Vec::new())
        }
    };
    let layout = || oci::layout(&images, &name).parts;
    let written = options.place.write(&parts, layout, &workplace)?;
    let written = Written {
        size_bytes: written.size_bytes,
        digest,
        manifests,
        pushed: written.pushed,
    };
    Ok((images, written))
}

fn explained(error: ImageError, output: &Path) -> anyhow::Error {
    match &error {
        ImageError::Interrupted => {
            let text = format!("interrupted before `{}` was written", output.display());
            return interrupt::failure(&text).into();
        }
        ImageError::Destination { .. } => {
            Failure::failed(error.to_string()).hint("choose another place with --output")
        }
        ImageError::Twice(_) | ImageError::FileAndDirectory(_) => {
            Failure::failed(format!("cannot make the image: {error}"))
                .hint("give it another path in --file, or another name to the program's file")
        }
        _ => return error.into(),
    }
    .into()
}

/// The programs of each platform, in the order of the platforms' names.
fn by_platform<'a>(
    programs: &'a [Packable],
    options: &Options,
) -> anyhow::Result<Vec<(Platform, Vec<&'a Packable>)>> {
    let mut platforms: BTreeMap<&str, Vec<&Packable>> = BTreeMap::new();
    for program in programs {
        platforms
            .entry(program.architecture)
            .or_default()
            .push(program);
    }
    let asked = &options.platforms;
    if let Some(unmet) = asked
        .iter()
        .find(|p| !platforms.contains_key(p.architecture.as_str()))
    {
        let known: Vec<String> = platforms
            .keys()
            .map(|name| format!("linux/{name}"))
            .collect();
        let text = format!(
            "cannot make an image for {unmet}: the programs are for {}",
            known.join(" and ")
        );
        return Err(Failure::usage(text).into());
    }
    if options.format == Format::Docker && platforms.len() > 1 {
        let text = "cannot pack programs for several platforms for `docker load`: such an archive has one platform";
        return Err(Failure::usage(text).hint("use --format oci").into());
    }
    let named = platforms.into_iter().map(|(architecture, programs)| {
        let asked = asked.iter().find(|p| p.architecture == architecture);
        let platform = asked.cloned().unwrap_or_else(|| Platform {
            architecture: architecture.to_owned(),
            variant: None,
        });
        (platform, programs)
    });
    Ok(named.collect())
}

fn recipe(
    platform: Platform,
    programs: &[&Packable],
    options: &Options,
    origin: &Origin,
    base: Option<&Contents<'_>>,
) -> anyhow::Result<Recipe> {
    let packed = programs.iter().map(|program| Program {
        file: program.file.clone(),
        name: program.name.clone(),
    });
    let packed: Vec<Program> = packed.collect();
    let mut labels = origin.labels.clone();
    labels
        .entry("org.opencontainers.image.title".to_owned())
        .or_insert_with(|| packed[0].name.clone());
    labels.extend(options.labels.clone());
    Ok(Recipe {
        platform,
        entry_point: entry_point(&packed, options, base)?,
        programs: packed,
        libraries: if options.base.is_none() || options.with_libraries {
            programs::libraries(programs)?
        } else {
            Vec::new()
        },
        files: options.files.clone(),
        user: options.user.unwrap_or(User::DEFAULT),
        certificates: match options.base {
            Some(_) => None,
            None => certificates(options)?,
        },
        time_zones: options.time_zones.then(time_zones).transpose()?,
        environment: options.environment.clone(),
        ports: options.ports.clone(),
        labels,
        annotations: annotations(programs, origin)?,
        time: options.time,
        compression: options.compression,
    })
}

/// What starts, with its whole path: not all runtimes search for it.
fn entry_point(
    programs: &[Program],
    options: &Options,
    base: Option<&Contents<'_>>,
) -> anyhow::Result<Vec<String>> {
    let Some((command, arguments)) = options.entry_point.split_first() else {
        return Ok(Vec::new());
    };
    let by_name = programs.iter().find(|program| program.name == *command);
    let path = by_name.map_or_else(|| PathBuf::from(command), Program::path);
    let is_program = programs.iter().any(|program| program.path() == path);
    let path = if is_program || is_among(&options.files, &path)? {
        Some(path)
    } else {
        let of_base = base.map(|base| base.place_of(command)).transpose();
        let cannot = || format!("cannot look for `{command}` in the base");
        of_base.with_context(cannot)?.flatten()
    };
    let Some(path) = path else {
        let names: Vec<&str> = programs
            .iter()
            .map(|program| program.name.as_str())
            .collect();
        let text = format!("cannot start `{command}` in the image: it is not in it");
        let hint = format!("its programs are {}", names.join(", "));
        return Err(Failure::usage(text).hint(hint).into());
    };
    let mut words = vec![path.display().to_string()];
    words.extend_from_slice(arguments);
    Ok(words)
}

/// Whether a path of the image is that of a file of the user's, which must be one that can start.
fn is_among(files: &[(PathBuf, PathBuf)], path: &Path) -> Result<bool, Failure> {
    let below = |(source, target): &(PathBuf, PathBuf)| {
        let rest = path.strip_prefix(target).ok()?;
        let source = if rest == Path::new("") {
            source.clone()
        } else {
            source.join(rest)
        };
        source.symlink_metadata().is_ok().then_some(source)
    };
    let Some(source) = files.iter().find_map(below) else {
        return Ok(false);
    };
    let can_start =
        |metadata: Metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0;
    // A link may lead somewhere only in the image.
    if source.is_symlink() || source.metadata().is_ok_and(can_start) {
        Ok(true)
    } else {
        Err(Failure::usage(format!(
            "cannot start `{}` in the image: `{}` is not an executable file",
            path.display(),
            source.display()
        )))
    }
}

fn certificates(options: &Options) -> anyhow::Result<Option<Certificates>> {
    Ok(match &options.ca_certificates {
        CaCertificates::None => None,
        CaCertificates::File(path) => Some(Certificates::read(path)?),
        CaCertificates::Auto => Some(Certificates::of_machine()?),
    })
}

fn time_zones() -> anyhow::Result<PathBuf> {
    let directory = PathBuf::from(TIME_ZONES);
    if directory.is_dir() {
        return Ok(directory);
    }
    let text = format!("cannot pack time zones: this machine has none in `{TIME_ZONES}`");
    let hint = "install them: apt-get install tzdata, dnf install tzdata, apk add tzdata";
    Err(Failure::failed(text).hint(hint).into())
}

/// What reheap left in the programs, and what they were made from.
fn annotations(
    programs: &[&Packable],
    origin: &Origin,
) -> anyhow::Result<BTreeMap<String, String>> {
    let mut annotations = BTreeMap::new();
    let markers: BTreeMap<&str, _> = programs
        .iter()
        .filter_map(|program| {
            let marker = program.identity.marker.as_ref()?;
            Some((program.name.as_str(), &marker.marker))
        })
        .collect();
    if !markers.is_empty() {
        annotations.insert(ALLOCATORS.to_owned(), serde_json::to_string(&markers)?);
    }
    let mut packages = origin.packages.clone();
    for program in programs {
        packages.extend(program.packages.iter().flatten().cloned());
    }
    if !packages.is_empty() {
        annotations.insert(SBOM.to_owned(), sbom::cyclonedx(&packages));
    }
    Ok(annotations)
}

/// The time of everything in the image (reproducible-builds.org, SOURCE_DATE_EPOCH).
pub(crate) fn time() -> anyhow::Result<u64> {
    let Some(value) = env_vars::variable(env_vars::SOURCE_DATE_EPOCH) else {
        return Ok(0);
    };
    let value = value.to_string_lossy();
    let seconds = value.parse().ok().filter(|seconds| *seconds <= LAST_SECOND);
    seconds.with_context(|| {
        format!("cannot use SOURCE_DATE_EPOCH=`{value}`: it is not a number of seconds since 1970")
    })
}

/// The end of the year 9999, after which dates are written in another way.
const LAST_SECOND: u64 = 253_402_300_799;
