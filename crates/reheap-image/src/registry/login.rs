//! Who asks a registry: the logins that `docker login` and `podman login` leave.

use super::RegistryError;
use std::fs::File;
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
    /// The login for a registry in a file like `~/.docker/config.json`; none if it has none. Credential helpers are
    /// asked.
    ///
    /// # Errors
    /// When the file or what a helper says cannot be read.
    pub fn of_file(file: &Path, registry: &str) -> Result<Option<Self>, RegistryError> {
        use docker_credential::{CredentialRetrievalError, DockerCredential};
        let cannot = |reason: String| RegistryError::Credentials {
            registry: registry.to_owned(),
            reason: format!("`{}`: {reason}", file.display()),
        };
        let opened = match File::open(file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| cannot(error.to_string()))?,
        };
        // Docker Hub's is kept under its oldest address.
        let key = match registry {
            "docker.io" => "https://index.docker.io/v1/",
            other => other,
        };
        match docker_credential::get_credential_from_reader(opened, key) {
            Ok(DockerCredential::UsernamePassword(user, password)) => {
                Ok(Some(Self::Password { user, password }))
            }
            Ok(DockerCredential::IdentityToken(token)) => Ok(Some(Self::IdentityToken(token))),
            Err(CredentialRetrievalError::NoCredentialConfigured) => Ok(None),
            Err(CredentialRetrievalError::HelperFailure { stdout, .. })
                if stdout.contains("credentials not found") =>
            {
                Ok(None)
            }
            Err(error) => Err(cannot(error.to_string().trim().replace('\n', " "))),
        }
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
        let user = |registry| match Login::of_file(file.path(), registry).unwrap() {
            Some(Login::Password { user, .. }) => user,
            _ => "nobody".to_owned(),
        };
        assert_eq!(user("ghcr.io"), "user");
        assert_eq!(user("docker.io"), "hub");
        assert_eq!(user("quay.io"), "nobody");
        assert_eq!(
            Login::of_file(Path::new("/no/such"), "ghcr.io").unwrap(),
            None
        );
        std::fs::write(file.path(), "{").unwrap();
        assert!(Login::of_file(file.path(), "ghcr.io").is_err());
    }
}
