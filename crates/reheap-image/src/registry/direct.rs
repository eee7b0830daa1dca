//! The requests that reheap makes without `oci-client`.
//!
//! Its errors have no headers, so nobody would learn from them what `Retry-After` says. It exchanges only names with
//! passwords for tokens, not the identity tokens that `docker login` gets from Azure and from single sign-on. And it
//! reads manifests and errors into memory, however long a registry makes them.

use super::{Login, MANIFESTS, RegistryError, chain, patience};
use http::header::{ACCEPT, RETRY_AFTER, WWW_AUTHENTICATE};
use oci_client::Reference;
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use reqwest::{ClientBuilder, Method, RequestBuilder, Response, StatusCode};
use serde::Deserialize;
use std::time::{Duration, SystemTime};

/// What registries allow for a manifest at least (distribution specification, "Pushing Manifests"), and usually at most.
const BODY_BYTES_MAX: usize = 4 << 20;

/// A connection to a registry.
pub(super) struct Direct {
    client: reqwest::Client,
    /// Such as `https://ghcr.io/`.
    address: String,
}

/// Where to get a token (distribution specification, "token authentication").
#[derive(Debug, PartialEq, Eq)]
struct Challenge {
    realm: String,
    service: Option<String>,
}

/// Docker's specification has the one name, OAuth 2 the other.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Direct {
    /// A connection to the registry at an address, which trusts these certificates.
    pub(super) fn new(
        builder: ClientBuilder,
        address: String,
        certificates: &[Vec<u8>],
    ) -> Result<Self, RegistryError> {
        let certificates: Result<Vec<_>, _> = certificates
            .iter()
            .map(|der| reqwest::Certificate::from_der(der))
            .collect();
        let client = certificates.and_then(|all| builder.tls_certs_only(all).build());
        Ok(Self {
            client: client.map_err(|error| RegistryError::Protocol(chain(&error)))?,
            address,
        })
    }

    /// How long the registry asks to wait, if it is too busy for a request to that address. The request goes out once
    /// more, without a body.
    pub(super) async fn retry_after(&self, url: &str, auth: &RegistryAuth) -> Option<Duration> {
        let request = self.client.head(url).header(ACCEPT, MANIFESTS.join(", "));
        // Nobody but the registry learns who asks.
        let request = if url.starts_with(&self.address) {
            with_auth(request, auth)
        } else {
            request
        };
        let answer = request.send().await.ok()?;
        let value = answer.headers().get(RETRY_AFTER)?.to_str().ok()?;
        patience::asked(value, SystemTime::now())
    }

    /// The bytes of a manifest or an index.
    pub(super) async fn manifest(
        &self,
        reference: &Reference,
        auth: &RegistryAuth,
    ) -> Result<Vec<u8>, OciDistributionError> {
        let name = reference.digest().or(reference.tag()).unwrap_or("latest");
        let path = format!("{}/manifests/{name}", reference.repository());
        let accepted = MANIFESTS.join(", ");
        body(self.get(&path, &accepted, auth).await?).await
    }

    /// A blob, whose bytes are still to come.
    pub(super) async fn blob(
        &self,
        reference: &Reference,
        digest: &str,
        auth: &RegistryAuth,
    ) -> Result<Response, OciDistributionError> {
        let path = format!("{}/blobs/{digest}", reference.repository());
        self.get(&path, "*/*", auth).await
    }

    async fn get(
        &self,
        path: &str,
        accepted: &str,
        auth: &RegistryAuth,
    ) -> Result<Response, OciDistributionError> {
        let url = format!("{}v2/{path}", self.address);
        let request = self.client.get(&url).header(ACCEPT, accepted);
        let answer = with_auth(request, auth).send().await?;
        let status = answer.status();
        match status {
            StatusCode::OK => return Ok(answer),
            StatusCode::UNAUTHORIZED => {
                return Err(OciDistributionError::UnauthorizedError { url });
            }
            _ => {}
        }
        let body = body(answer).await?;
        let envelope = serde_json::from_slice(&body).ok();
        Err(match envelope.filter(|_| status.is_client_error()) {
            Some(envelope) => OciDistributionError::RegistryError { envelope, url },
            None => OciDistributionError::ServerError {
                code: status.as_u16(),
                message: String::from_utf8_lossy(&body).into_owned(),
                url,
            },
        })
    }

    /// The request that begins to bring a blob there.
    pub(super) fn upload(&self, reference: &Reference) -> (Method, String) {
        let url = format!(
            "{}v2/{}/blobs/uploads/",
            self.address,
            reference.repository()
        );
        (Method::POST, url)
    }

    /// What shows the registry who asks, for these rights to a repository: a token if it wants one. Some registries let
    /// everybody in, and say only when they refuse a request what they want for that.
    pub(super) async fn authorize(
        &self,
        login: &Login,
        scope: &str,
        refused: Option<(Method, String)>,
    ) -> Result<RegistryAuth, OciDistributionError> {
        let mut answer = self
            .client
            .get(format!("{}v2/", self.address))
            .send()
            .await?;
        let refused = refused.filter(|(_, url)| url.starts_with(&self.address));
        if let (true, Some((method, url))) = (answer.status().is_success(), refused) {
            answer = self.client.request(method, url).send().await?;
        } else if answer.status() != StatusCode::UNAUTHORIZED {
            answer = answer.error_for_status()?;
        }
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(RegistryAuth::Anonymous);
        }
        let mut challenges = answer
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| Challenge::read(value.to_str().ok()?));
        let Some(challenge) = challenges.next() else {
            return Ok(match login {
                Login::Password { user, password } => {
                    RegistryAuth::Basic(user.clone(), password.clone())
                }
                Login::Anonymous | Login::IdentityToken(_) => RegistryAuth::Anonymous,
            });
        };
        let token = self.token(login, &challenge, scope).await?;
        Ok(RegistryAuth::Bearer(token))
    }

    async fn token(
        &self,
        login: &Login,
        challenge: &Challenge,
        scope: &str,
    ) -> Result<String, OciDistributionError> {
        let Challenge { realm, service } = challenge;
        if self.address.starts_with("https:") && !realm.starts_with("https:") {
            let text = format!("it wants logins to be sent to `{realm}`, without TLS");
            return Err(OciDistributionError::SpecViolationError(text));
        }
        let mut fields = vec![("scope", scope)];
        fields.extend(service.iter().map(|service| ("service", service.as_str())));
        let request = match login {
            Login::Anonymous => self.client.get(realm).query(&fields),
            Login::Password { user, password } => {
                let request = self.client.get(realm).query(&fields);
                request.basic_auth(user, Some(password))
            }
            Login::IdentityToken(token) => {
                fields.push(("grant_type", "refresh_token"));
                fields.push(("client_id", "reheap"));
                fields.push(("refresh_token", token));
                self.client.post(realm).form(&fields)
            }
        };
        token_in(request.send().await?).await
    }
}

fn with_auth(request: RequestBuilder, auth: &RegistryAuth) -> RequestBuilder {
    match auth {
        RegistryAuth::Anonymous => request,
        RegistryAuth::Basic(user, password) => request.basic_auth(user, Some(password)),
        RegistryAuth::Bearer(token) => request.bearer_auth(token),
    }
}

/// All that an answer says, unless it never ends.
async fn body(mut answer: Response) -> Result<Vec<u8>, OciDistributionError> {
    let mut bytes = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        if bytes.len() + piece.len() > BODY_BYTES_MAX {
            let text = format!("an answer has more than {} MiB", BODY_BYTES_MAX >> 20);
            return Err(OciDistributionError::SpecViolationError(text));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

async fn token_in(answer: Response) -> Result<String, OciDistributionError> {
    let refused = [
        StatusCode::BAD_REQUEST, // OAuth 2's for a token that has expired
        StatusCode::UNAUTHORIZED,
        StatusCode::FORBIDDEN,
    ];
    if refused.contains(&answer.status()) {
        let text = body(answer).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        return Err(OciDistributionError::AuthenticationFailure(text));
    }
    let text = body(answer.error_for_status()?).await?;
    let undecodable = OciDistributionError::RegistryTokenDecodeError;
    let answer: Token = serde_json::from_slice(&text).map_err(|e| undecodable(e.to_string()))?;
    let token = answer.access_token.or(answer.token);
    token.ok_or_else(|| undecodable("there is none".to_owned()))
}

impl Challenge {
    fn read(header: &str) -> Option<Self> {
        let mut challenges = http_auth::parse_challenges(header).ok()?.into_iter();
        let bearer =
            challenges.find(|challenge| challenge.scheme.eq_ignore_ascii_case("Bearer"))?;
        let value = |key: &str| {
            let mut params = bearer.params.iter();
            let found = params.find(|(name, _)| name.eq_ignore_ascii_case(key));
            found.map(|(_, value)| value.to_unescaped())
        };
        Some(Self {
            realm: value("realm")?,
            service: value("service"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_says_where_tokens_come_from() {
        let header = r#"Basic realm="x", Bearer realm="https://auth.docker.io/token",service="registry.docker.io""#;
        let challenge = Challenge {
            realm: "https://auth.docker.io/token".to_owned(),
            service: Some("registry.docker.io".to_owned()),
        };
        assert_eq!(Challenge::read(header), Some(challenge));
        assert_eq!(Challenge::read("Basic realm=\"x\""), None);
        assert_eq!(Challenge::read("Bearer service=\"x\""), None);
    }
}
