//! Images in registries: whose login is used, whom TLS trusts, and what to say while it takes time.

use anyhow::Context as _;
use reheap_bench::outlook::duration;
use reheap_command::env_vars;
use reheap_command::interrupt;
use reheap_command::pulse;
use reheap_command::ui::Failure;
use reheap_image::certificates::Certificates;
use reheap_image::read::{ReadError, StoredImage, Wanted};
use reheap_image::registry::{
    self, Access, Login, PlainHttp, Progress, Pushed, Reference, RegistryError,
};
use reheap_image::{Part, Workplace};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An image in a registry, and the way there.
#[derive(Debug)]
pub struct Remote {
    /// The image's name.
    pub reference: Reference,
    access: Access,
}

impl Remote {
    /// An image that is reached with the user's login and certificates.
    pub fn new(reference: Reference, plain_http: bool) -> anyhow::Result<Self> {
        let certificates = match env_vars::variable(env_vars::SSL_CERT_FILE) {
            Some(file) => Certificates::read(file.as_ref())?,
            None => Certificates::of_machine()?,
        };
        let access = Access {
            login: login(&reference)?,
            certificates,
            plain_http: if plain_http {
                PlainHttp::Everywhere
            } else {
                PlainHttp::OnThisMachine
            },
        };
        Ok(Self { reference, access })
    }
}

/// The login of the first file that has one for the repository: podman's and skopeo's files, then Docker's.
fn login(reference: &Reference) -> anyhow::Result<Login> {
    for file in login_files() {
        let (registry, repository) = (reference.registry(), reference.repository());
        if let Some(login) = Login::of_file(&file, registry, repository)? {
            return Ok(login);
        }
    }
    Ok(Login::Anonymous)
}

fn login_files() -> Vec<PathBuf> {
    let directory = |name: &str| env_vars::variable(name).map(PathBuf::from);
    if let Some(file) = directory(env_vars::REGISTRY_AUTH_FILE) {
        return vec![file];
    }
    let home = directory("HOME");
    let in_home = |path: &str| home.as_ref().map(|home| home.join(path));
    let of_podman = [
        directory("XDG_RUNTIME_DIR").map(|directory| directory.join("containers/auth.json")),
        directory("XDG_CONFIG_HOME")
            .or_else(|| in_home(".config"))
            .map(|directory| directory.join("containers/auth.json")),
    ];
    let of_docker = directory(env_vars::DOCKER_CONFIG).or_else(|| in_home(".docker"));
    let of_docker = of_docker.map(|directory| directory.join("config.json"));
    of_podman.into_iter().flatten().chain(of_docker).collect()
}

/// Gets an image.
pub fn pull(
    remote: &Remote,
    wanted: Wanted<'_>,
    workplace: &Workplace<'_>,
) -> anyhow::Result<StoredImage> {
    let Remote { reference, access } = remote;
    let pulled = telling("pulling", reference, |progress| {
        registry::pull(reference, wanted, access, workplace, progress)
    });
    pulled.map_err(|error| explained(error, "pull", reference))
}

/// Brings an image there.
pub fn push(remote: &Remote, layout: &[Part], workplace: &Workplace<'_>) -> anyhow::Result<Pushed> {
    let Remote { reference, access } = remote;
    let pushed = telling("pushing", reference, |progress| {
        registry::push(layout, reference, access, workplace, progress)
    });
    pushed.map_err(|error| explained(error, "push", reference))
}

fn telling<T>(verb: &str, reference: &Reference, work: impl FnOnce(&Arc<Progress>) -> T) -> T {
    let what = format!("{verb} {reference}");
    let progress = Arc::new(Progress::default());
    pulse::while_telling(&what.clone(), |pulse| {
        let seen = Arc::clone(&progress);
        pulse.now(move || {
            let mb = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
            let done = seen.done_bytes.load(Ordering::Relaxed);
            if let Some(left) = seen.waits_for() {
                let left = duration(left);
                return format!("{what}: the registry is busy; the next try is in {left}");
            }
            match seen.total_bytes.load(Ordering::Relaxed) {
                0 => what.clone(),
                total => format!("{what}: {} of {}", mb(done), mb(total)),
            }
        });
        work(&progress)
    })
}

fn explained(error: RegistryError, verb: &str, reference: &Reference) -> anyhow::Error {
    if let RegistryError::Interrupted | RegistryError::Read(ReadError::Interrupted) = error {
        let text = format!("interrupted before the {verb} of `{reference}` was complete");
        return interrupt::failure(&text).into();
    }
    let failure = Failure::failed(format!("cannot {verb} `{reference}`: {error}"));
    match &error {
        RegistryError::Unauthorized { .. } => {
            let registry = reference.registry();
            failure.hint(format!(
                "log in: docker login {registry}, or podman login {registry}"
            ))
        }
        RegistryError::NoCertificates => failure
            .hint("install the package ca-certificates, or name a PEM file: SSL_CERT_FILE=<file>"),
        RegistryError::Busy { .. } | RegistryError::BusyForLong { .. } => {
            failure.hint("try again later; many registries allow more with a login")
        }
        RegistryError::Connection { reason, .. } if reason.contains("InvalidContentType") => {
            failure.hint("the registry does not use TLS; to trust the network: --plain-http")
        }
        _ => failure,
    }
    .into()
}

/// A name of an image in a registry: `docker://…`, or a name whose first part can only be a host.
pub fn named(text: &str) -> anyhow::Result<Option<Reference>> {
    let parse = |text: &str| text.parse::<Reference>().map(Some);
    if text.starts_with("docker://") {
        return parse(text).context("cannot read the image's name");
    }
    let Some((host, _)) = text.split_once('/') else {
        return Ok(None);
    };
    let is_host = !host.starts_with('.') && (host.contains(['.', ':']) || host == "localhost");
    if is_host && !text.ends_with(".tar") {
        parse(text).context("cannot read the image's name")
    } else {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_names_a_host_is_looked_for_in_a_registry() {
        for (text, expected) in [
            ("docker://debian:12", Some("docker.io/library/debian:12")),
            ("ghcr.io/a/b", Some("ghcr.io/a/b:latest")),
            ("localhost:5000/a:1", Some("localhost:5000/a:1")),
            ("localhost/a", Some("localhost/a:latest")),
            ("debian:12", None),
            ("a/b", None),
            ("./a.b/c", None),
            ("a.b/c.tar", None),
            ("/a:1/b", None),
        ] {
            let found = named(text).unwrap().map(|found| found.to_string());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
