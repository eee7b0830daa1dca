//! Programs on top of an image of somebody else (`--base`).
//!
//! The base keeps its users, certificates and settings. A dynamic program may use its libraries, so they are looked for
//! there: an image whose program does not find them would fail only when it runs.

use super::judged::{contents_of, versions};
use super::options::Options;
use super::place::Format;
use super::programs::Packable;
use super::report::Report;
use super::source::Source;
use super::{Written, by_platform, recipe, say};
use reheap_allocators::target::Libc;
use reheap_command::interrupt;
use reheap_command::ui::{self, Failure};
use reheap_elf::identify::{Kind, LibcName};
use reheap_image::Workplace;
use reheap_image::read::Form;
use reheap_image::scratch::Program;
use reheap_static::project::Origin;
use reheap_subject::container::{self, Contents};
use reheap_subject::inspect;
use reheap_subject::program::libraries::Libraries;
use std::path::Path;

/// Packs programs for one platform on top of an image.
pub(super) fn pack(
    base: &Path,
    programs: &[Packable],
    options: &Options,
    origin: &Origin,
) -> anyhow::Result<()> {
    let mut platforms = by_platform(programs, options)?;
    let (Some((platform, programs)), true) = (platforms.pop(), platforms.is_empty()) else {
        let text = "cannot pack programs for several platforms on one base";
        return Err(Failure::usage(text).hint("pack each of them alone").into());
    };
    let interrupted = interrupt::on_signals()?;
    let workplace = Workplace::new(options.place.parent(), &interrupted);
    let source = Source {
        image: base,
        platform: Some(platform.clone()),
        plain_http: options.plain_http,
        place: options.place.shown(),
    };
    let verb = "use as a base";
    let base = source.open(verb, &workplace)?;
    let contents = Contents::new(&base.tree, &base.settings, &workplace);
    if !options.with_libraries {
        for program in &programs {
            let checked = check_libraries(program, &contents);
            contents
                .noted()
                .map_err(|error| source.of_container(verb, error))?;
            checked?;
        }
    }
    let recipe = recipe(platform, &programs, options, origin, Some(&contents))?;
    let (mut sealed, layers) = recipe
        .make_on(&base, options.user, &workplace)
        .map_err(|error| source.explained(verb, error))?;
    sealed.names = vec![format!(
        "{}:latest",
        super::programs::image_name(&programs[0].name)
    )];
    sealed.annotations.clear(); // they say what the base is called
    let form = match options.format {
        Format::Oci => Form::Oci,
        Format::Docker => Form::Docker,
    };
    let written =
        options
            .place
            .write(&sealed.parts(form), || sealed.parts(Form::Oci), &workplace)?;
    let manifest = sealed.manifest.blob.digest().to_string();
    let written = Written {
        size_bytes: written.size_bytes,
        digest: match options.format {
            Format::Oci => manifest.clone(),
            Format::Docker => sealed.configuration.digest().to_string(),
        },
        manifests: vec![manifest],
        pushed: written.pushed,
    };
    say(
        &Report::on_base(&recipe, &sealed, &layers, options, written),
        options,
    )
}

/// Refuses a dynamic program that the base lacks something for.
fn check_libraries(program: &Packable, contents: &Contents<'_>) -> anyhow::Result<()> {
    let identity = &program.identity;
    let libc = match (identity.kind, identity.libc.name) {
        (Kind::Dynamic, LibcName::Glibc) => Libc::Glibc,
        (Kind::Dynamic, LibcName::Musl) => Libc::Musl,
        _ => return Ok(()),
    };
    let place = Program {
        file: program.file.clone(),
        name: program.name.clone(),
    };
    let place = place.path();
    let open = |path: &Path| {
        if path == place {
            inspect::open(&program.file).ok()
        } else {
            contents.noting(path)
        }
    };
    let libraries = Libraries::of_image(open, Vec::new(), &identity.architecture);
    let closure = libraries.closure(&place, libc);
    let interpreter = identity.interpreter.iter();
    let mut missing: Vec<String> = interpreter
        .filter(|path| libraries.open(Path::new(path)).is_none())
        .cloned()
        .chain(closure.missing)
        .collect();
    let loaded = closure.loaded.iter();
    let mut libc = loaded.filter(|loaded| loaded.name == "libc.so.6");
    let libc = libc.next().and_then(|libc| libraries.open(&libc.path));
    if let (Some(libc), Some(own)) = (libc, libraries.open(&place)) {
        let there = versions(&contents_of(&libc));
        let own = versions(&contents_of(&own));
        let lacking = own.difference(&there);
        missing.extend(lacking.map(|version| String::from_utf8_lossy(version).into_owned()));
    }
    if missing.is_empty() {
        return Ok(());
    }
    let text = format!(
        "cannot pack `{}`: the base lacks {}, which it needs{}",
        program.file.display(),
        ui::printable(missing.join(", ")),
        container::because(contents.covered().as_ref())
    );
    let hint = "choose another base, or pack its libraries with --with-libraries";
    Err(Failure::failed(text).hint(hint).into())
}
