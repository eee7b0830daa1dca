//! Asks Cargo where the project of a command is, and where it keeps what it makes.

use super::config::{self, Config};
use super::flags::Flags;
use super::request::{Request, Verb};
use super::workspace::Workspace;
use anyhow::Context as _;
use reheap_command::env_vars;
use reheap_command::ui::Failure;
use std::path::{Path, PathBuf};

/// The configuration that holds for a command.
pub(super) fn config(request: &Request) -> anyhow::Result<Config> {
    let directory = std::env::current_dir().context("cannot find the current directory")?;
    let flags = &request.flags;
    let of_config = match request.verb {
        // It does not depend on the directory where the user types it (`cargo help install`, "Configuration
        // Discovery").
        Verb::Install => match flags.values("--path").pop() {
            Some(path) => directory.join(path),
            None => config::cargo_home(&directory).unwrap_or_default(),
        },
        _ => directory,
    };
    Config::read(&of_config, &flags.values("--config"))
}

/// The project of a command; `None` for what Cargo installs from elsewhere. Fails before anything is built where there
/// should be one and is not.
pub(super) fn workspace(request: &Request) -> anyhow::Result<Option<Workspace>> {
    let flags = &request.flags;
    let named = match request.verb {
        Verb::Install => match flags.values("--path").pop() {
            Some(path) => Some(Path::new(&path).join("Cargo.toml")),
            None => return Ok(None),
        },
        _ => flags.values("--manifest-path").pop().map(PathBuf::from),
    };
    let mut locate = env_vars::cargo();
    locate.arg("locate-project");
    if let Some(path) = &named {
        locate.arg("--manifest-path").arg(path);
    }
    let output = locate.output().context("cannot start Cargo")?;
    if !output.status.success() {
        // Cargo says what is wrong with the path.
        if request.verb == Verb::Install {
            return Ok(None);
        }
        return Err(no_project(&output.stderr).into());
    }
    let located: serde_json::Value = serde_json::from_slice(&output.stdout)
        .context("cannot read what `cargo locate-project` printed")?;
    let manifest = PathBuf::from(located["root"].as_str().unwrap_or_default());
    let mut metadata = env_vars::cargo();
    metadata.args(["metadata", "--format-version", "1", "--manifest-path"]);
    metadata.arg(&manifest);
    for flag in ["--config", "-Z"] {
        let values = flags.values(flag);
        metadata.args(values.iter().flat_map(|value| [flag, value]));
    }
    Ok(Some(Workspace::read(metadata, &manifest)?))
}

fn no_project(stderr: &[u8]) -> Failure {
    let said = String::from_utf8_lossy(stderr);
    let reason = said.trim().trim_start_matches("error: ");
    Failure::failed(format!("cannot build a Cargo project here: {reason}"))
        .hint("run it in the directory of a project, or give --manifest-path")
}

/// The project's directory for what Cargo makes on the way, if it has a project.
pub(super) fn build_directory(flags: &Flags) -> Option<PathBuf> {
    let mut metadata = env_vars::cargo();
    metadata.args([
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let manifest = flags.values("--manifest-path").pop();
    metadata.args(manifest.map(|path| format!("--manifest-path={path}")));
    let configs = flags.values("--config");
    metadata.args(configs.iter().map(|config| format!("--config={config}")));
    let output = metadata.output().ok()?;
    let described: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(described["build_directory"].as_str()?.into())
}
