//! Who asks a registry: the logins that `docker login` and `podman login` leave.

use super::RegistryError;
use docker_credential::{CredentialRetrievalError, DockerCredential};
use serde_json::Value;
use std::fs;
use std::io;
use std::path::Path;

/// Who asks.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// Nobody in particular.
    Anonymous,
    /// A user.
    Password {
        /// The name.
        user: String,
        /// The password, or a token in its place.
        password: String,
    },
    /// Whoever got this token at a login, which the registry exchanges for others that end soon.
    IdentityToken(String),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Anonymous => f.write_str("Anonymous"),
            Self::Password { user, .. } => write!(f, "Password({user})"),
            Self::IdentityToken(_) => f.write_str("IdentityToken"),
        }
    }
}

impl Login {
    /// The login for a repository in a file like `~/.docker/config.json`; none if it has none. Credential helpers are
    /// asked.
    ///
    /// # Errors
    /// When the file or what a helper says cannot be read.
    pub fn of_file(
        file: &Path,
        registry: &str,
        repository: &str,
    ) -> Result<Option<Self>, RegistryError> {
        let cannot = |reason: String| RegistryError::Credentials {
            registry: registry.to_owned(),
            reason: format!("`{}`: {reason}", file.display()),
        };
        let bytes = match fs::read(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| cannot(error.to_string()))?,
        };
        let mut settings: Value =
            serde_json::from_slice(&bytes).map_err(|error| cannot(error.to_string()))?;
        // Docker takes an empty name for none.
        if settings["credsStore"] == ""
            && let Some(settings) = settings.as_object_mut()
        {
            settings.remove("credsStore");
        }
        for key in keys(&settings, registry, repository) {
            if let Some(login) = of_key(&settings, &key).map_err(cannot)? {
                return Ok(Some(login));
            }
        }
        Ok(None)
    }
}

/// Under which names a login may be kept, the best one first. `podman login REGISTRY/TEAM` makes one for what is below
/// that. Docker has those for Docker Hub under its oldest address.
fn keys(settings: &Value, registry: &str, repository: &str) -> Vec<String> {
    let whole = Path::new(registry).join(repository);
    let below = whole
        .ancestors()
        .filter_map(Path::to_str)
        .take_while(|name| *name != registry);
    // Helpers know only registries.
    let below = below.filter(|name| settings["auths"].get(name).is_some());
    let oldest = (registry == "docker.io").then_some("https://index.docker.io/v1/");
    let keys = below.chain(oldest).chain([registry]);
    keys.map(str::to_owned).collect()
}

fn of_key(settings: &Value, key: &str) -> Result<Option<Login>, String> {
    let bytes = settings.to_string();
    match docker_credential::get_credential_from_reader(bytes.as_bytes(), key) {
        Ok(DockerCredential::UsernamePassword(user, password)) => {
            Ok(Some(Login::Password { user, password }))
        }
        Ok(DockerCredential::IdentityToken(token)) => Ok(Some(Login::IdentityToken(token))),
        Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(None),
        Err(CredentialRetrievalError::HelperFailure { stdout, .. })
            if stdout.contains("credentials not found") =>
        {
            Ok(None)
        }
        Err(CredentialRetrievalError::HelperCommunicationError) => {
            let helpers = [&settings["credHelpers"][key], &settings["credsStore"]];
            let name = helpers
                .into_iter()
                .find_map(Value::as_str)
                .unwrap_or_default();
            Err(format!(
                "it names the credential helper `docker-credential-{name}`, which cannot be run"
            ))
        }
        Err(error) => Err(error.to_string().trim().replace('\n', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_that_of_its_registry() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = r#"{"auths":{"ghcr.io":{"auth":"dXNlcjpzZWNyZXQ="},"https://index.docker.io/v1/":{"auth":"aHViOng="}}}"#;
        std::fs::write(file.path(), text).unwrap();
        let user = |registry| user(file.path(), registry, "a/b");
        assert_eq!(user("ghcr.io"), "user");
        assert_eq!(user("docker.io"), "hub");
        assert_eq!(user("quay.io"), "nobody");
        assert_eq!(
            Login::of_file(Path::new("/no/such"), "ghcr.io", "a").unwrap(),
            None
        );
        std::fs::write(file.path(), r#"{"credsStore":""}"#).unwrap();
        assert_eq!(user("ghcr.io"), "nobody");
        for (text, reason) in [
            ("{", "EOF"),
            (r#"{"credsStore":"none"}"#, "`docker-credential-none`"),
        ] {
            std::fs::write(file.path(), text).unwrap();
            let error = Login::of_file(file.path(), "ghcr.io", "a").unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
    }

    fn user(file: &Path, registry: &str, repository: &str) -> String {
        match Login::of_file(file, registry, repository).unwrap() {
            Some(Login::Password { user, .. }) => user,
            _ => "nobody".to_owned(),
        }
    }

    #[test]
    fn a_login_of_podman_may_be_for_a_part_of_a_registry() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = r#"{"auths":{"docker.io":{"auth":"aHViOng="},"quay.io":{"auth":"YWxsOng="},"quay.io/team":{"auth":"dGVhbTp4"}}}"#;
        std::fs::write(file.path(), text).unwrap();
        let user = |registry, repository| user(file.path(), registry, repository);
        assert_eq!(user("docker.io", "library/alpine"), "hub");
        assert_eq!(user("quay.io", "team/a/b"), "team");
        assert_eq!(user("quay.io", "team"), "team");
        assert_eq!(user("quay.io", "teams/a"), "all");
    }
}
