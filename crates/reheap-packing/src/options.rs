//! The flags of `reheap image` that say what goes into an image, and where it goes.

use crate::place::{Format, Place, PlaceArguments};
use reheap_command::ui::Failure;
use reheap_image::Platform;
use reheap_image::layer::Compression;
use reheap_image::scratch::User;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What goes into an image, and where it goes.
#[derive(Debug, Clone, clap::Args)]
pub struct PackingArguments {
    #[command(flatten)]
    pub(crate) place: PlaceArguments,
    /// The form of the image: `oci` for registries, podman, containerd and new versions of Docker,
    /// `docker` for `docker load` of any version [default: oci, or that of the image given]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub(crate) format: Option<Format>,
    /// The command that starts, with its arguments, as one word of the shell [default: the first program]
    #[arg(long, value_name = "COMMAND")]
    entrypoint: Option<String>,
    /// A variable of the program's environment
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<String>,
    /// A port that the program listens on, such as 8080 or 53/udp
    #[arg(long, value_name = "PORT")]
    port: Vec<String>,
    /// A label, which is also written as an annotation
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<String>,
    /// A file, or what is in a directory, and its path in the image
    #[arg(long, value_name = "SRC:DST")]
    file: Vec<String>,
    /// The user who runs the program, by number; 0 is root [default: 65532:65532, or that of the base]
    #[arg(long, value_name = "UID[:GID]")]
    user: Option<String>,
    /// The base of the image: `scratch`, or an image as a file, a directory or docker://NAME:TAG
    #[arg(long, value_name = "scratch|IMAGE", default_value = "scratch")]
    base: PathBuf,
    /// Certificates for TLS: `auto` takes this machine's, and Mozilla's if it has none; a PEM file;
    /// or `none`
    #[arg(long, value_name = "auto|FILE|none", default_value = "auto")]
    ca_certificates: String,
    /// Add the time zones of this machine
    #[arg(long)]
    tzdata: bool,
    /// Add the libraries that a dynamic program needs, and its dynamic linker
    #[arg(long)]
    with_libraries: bool,
    /// The platform's name, to add a variant such as linux/arm/v7
    /// [default: what the programs are for]
    #[arg(long, value_name = "linux/ARCH[/VARIANT]")]
    pub(crate) platform: Vec<String>,
    /// The compression of layers: `gzip` for every engine and registry, `zstd` for those since 2021
    #[arg(long, value_enum, default_value = "gzip", hide_possible_values = true)]
    compression: HowCompressed,
    /// Print what was written as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HowCompressed {
    Gzip,
    Zstd,
}

/// Whose certificates go into an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CaCertificates {
    Auto,
    File(PathBuf),
    None,
}

/// The checked flags.
#[derive(Debug)]
pub struct Options {
    pub(crate) place: Place,
    pub(crate) format: Format,
    pub(crate) entry_point: Vec<String>,
    pub(crate) environment: Vec<String>,
    pub(crate) ports: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) files: Vec<(PathBuf, PathBuf)>,
    /// The user; `None` for the default, or that of the base.
    pub(crate) user: Option<User>,
    /// The image to put programs on; `None` for none.
    pub base: Option<PathBuf>,
    pub(crate) plain_http: bool,
    pub(crate) ca_certificates: CaCertificates,
    pub(crate) time_zones: bool,
    /// The libraries of dynamic programs are packed too.
    pub with_libraries: bool,
    pub(crate) platforms: Vec<Platform>,
    pub(crate) compression: Compression,
    pub(crate) json: bool,
    /// The time of everything in the image, in seconds since 1970.
    pub(crate) time: u64,
}

impl PackingArguments {
    /// Checks the flags, and that the image can go where it shall.
    pub fn check(&self) -> anyhow::Result<Options> {
        let format = self.format.unwrap_or(Format::Oci);
        if self.base != Path::new("scratch") && self.ca_certificates != "auto" {
            let text = "--ca-certificates is for an image from scratch: a base has its own";
            return Err(Failure::usage(text).hint("add a file with --file").into());
        }
        Ok(Options {
            place: self.place.check(format)?,
            format,
            entry_point: self.entry_point()?,
            environment: pairs("--env", &self.env)?
                .into_iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect(),
            ports: self
                .port
                .iter()
                .map(|text| port(text))
                .collect::<Result<_, _>>()?,
            labels: pairs("--label", &self.label)?.into_iter().collect(),
            files: self.files()?,
            user: self.user.as_deref().map(user).transpose()?,
            base: Some(self.base.clone()).filter(|base| base != Path::new("scratch")),
            plain_http: self.place.plain_http,
            ca_certificates: match self.ca_certificates.as_str() {
                "auto" => CaCertificates::Auto,
                "none" => CaCertificates::None,
                file => CaCertificates::File(file.into()),
            },
            time_zones: self.tzdata,
            with_libraries: self.with_libraries,
            platforms: self
                .platform
                .iter()
                .map(|text| platform(text))
                .collect::<Result<_, _>>()?,
            compression: self.compression(),
            json: self.json,
            time: crate::time()?,
        })
    }

    pub(crate) fn compression(&self) -> Compression {
        match self.compression {
            HowCompressed::Gzip => Compression::Gzip,
            HowCompressed::Zstd => Compression::Zstd,
        }
    }

    /// Whether the user says what starts.
    pub fn has_entry_point(&self) -> bool {
        self.entrypoint.is_some()
    }

    fn entry_point(&self) -> Result<Vec<String>, Failure> {
        let Some(text) = &self.entrypoint else {
            return Ok(Vec::new());
        };
        match shell_words::split(text) {
            Ok(words) if !words.is_empty() => Ok(words),
            Ok(_) => Err(Failure::usage("--entrypoint is empty")),
            Err(error) => Err(Failure::usage(format!(
                "cannot read --entrypoint `{text}`: {error}"
            ))),
        }
    }

    fn files(&self) -> anyhow::Result<Vec<(PathBuf, PathBuf)>> {
        self.file.iter().map(|text| self.one_file(text)).collect()
    }

    fn one_file(&self, text: &str) -> anyhow::Result<(PathBuf, PathBuf)> {
        let (source, target) = match text.rsplit_once(":/") {
            Some((source, target)) if !source.is_empty() => (source, format!("/{target}")),
            _ => {
                let text = format!("--file `{text}` is not SRC:DST with an absolute DST");
                let hint = "for example --file config.toml:/etc/app/config.toml";
                return Err(Failure::usage(text).hint(hint).into());
            }
        };
        let path = Path::new(source);
        let metadata = fs::metadata(path)
            .map_err(|error| Failure::failed(format!("cannot read `{source}`: {error}")))?;
        if metadata.is_dir() {
            self.refuse_own_output(path)?;
            return Ok((path.to_owned(), target.into()));
        }
        let target = PathBuf::from(&target).join(if target.ends_with('/') {
            path.file_name().unwrap_or_default()
        } else {
            return Ok((path.to_owned(), target.into()));
        });
        Ok((path.to_owned(), target))
    }

    /// The image of the last time would be in the next one.
    fn refuse_own_output(&self, directory: &Path) -> anyhow::Result<()> {
        let Some(output) = &self.place.output else {
            return Ok(());
        };
        let parent = output.parent().filter(|parent| *parent != Path::new(""));
        let parent = fs::canonicalize(parent.unwrap_or(Path::new(".")));
        let (Ok(parent), Ok(packed)) = (parent, fs::canonicalize(directory)) else {
            return Ok(());
        };
        if !parent.starts_with(&packed) {
            return Ok(());
        }
        let text = format!(
            "cannot write `{}`: it is in `{}`, which --file packs",
            output.display(),
            directory.display()
        );
        Err(Failure::usage(text)
            .hint("write the image elsewhere")
            .into())
    }
}

fn pairs(flag: &str, texts: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Failure::usage(format!("{flag} `{text}` is not KEY=VALUE"))),
    };
    texts.iter().map(pair).collect()
}

fn port(text: &str) -> Result<String, Failure> {
    let (number, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let is_number = number.parse::<u16>().is_ok_and(|number| number > 0);
    if is_number && ["tcp", "udp", "sctp"].contains(&protocol) {
        Ok(format!("{number}/{protocol}"))
    } else {
        Err(Failure::usage(format!(
            "--port `{text}` is not a port such as 8080 or 53/udp"
        )))
    }
}

fn user(text: &str) -> Result<User, Failure> {
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    match (uid.parse(), gid.parse()) {
        (Ok(uid), Ok(gid)) => Ok(User { uid, gid }),
        _ => Err(Failure::usage(format!(
            "--user `{text}` is not a number, or two of them such as 1000:1000"
        ))
        .hint("an image from scratch has no other names, and Kubernetes checks only numbers")),
    }
}

pub(crate) fn platform(text: &str) -> Result<Platform, Failure> {
    let words: Vec<&str> = text.split('/').collect();
    let (architecture, variant) = match words[..] {
        ["linux", architecture] => (architecture, None),
        ["linux", architecture, variant] => (architecture, Some(variant)),
        _ => ("", None),
    };
    if architecture.is_empty() || variant.is_some_and(str::is_empty) {
        return Err(Failure::usage(format!(
            "--platform `{text}` is not linux/ARCH or linux/ARCH/VARIANT"
        )));
    }
    Ok(Platform {
        architecture: architecture.to_owned(),
        variant: variant.map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_users_and_platforms_are_read_as_docker_writes_them() {
        assert_eq!(port("8080").unwrap(), "8080/tcp");
        assert_eq!(port("53/udp").unwrap(), "53/udp");
        for wrong in ["0", "65536", "http", "80/", "80/http", "-1"] {
            assert!(port(wrong).is_err(), "{wrong}");
        }
        let of = |uid, gid| User { uid, gid };
        assert_eq!(user("0").unwrap(), of(0, 0));
        assert_eq!(user("1000:50").unwrap(), of(1000, 50));
        for wrong in ["", "root", "1:", ":1", "1:2:3", "-1", "4294967296"] {
            assert!(user(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            platform("linux/arm/v7").unwrap().to_string(),
            "linux/arm/v7"
        );
        for wrong in [
            "arm64",
            "linux",
            "linux/",
            "windows/amd64",
            "linux/arm/",
            "linux/a/b/c",
        ] {
            assert!(platform(wrong).is_err(), "{wrong}");
        }
    }
}
