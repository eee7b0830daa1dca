//! Gets an image from a registry, and brings one there (OCI distribution specification 1.1).
//!
//! `oci-client` speaks the protocol. It is asynchronous, and everything else here is not, so each function runs it to its
//! end on this thread. Layers go from the network into files without names and from there to the network, in pieces.
//! What a registry sends is checked against its digest by reheap itself. A registry that has too much to do gets a few
//! more tries.

mod direct;
mod error;
mod login;
mod patience;
mod plan;

pub use error::RegistryError;
pub use login::Login;

use crate::Part;
use crate::blob::{Blob, Hashed};
use crate::certificates::Certificates;
use crate::error::ImageError;
use crate::read::{self, Descriptor, Document, Form, Manifest, ReadError, StoredImage, Wanted};
use crate::store::SMALL_BYTES_MAX;
use crate::workplace::Workplace;
use bytes::Bytes;
use direct::Direct;
use futures_util::future::{Either, select};
use futures_util::{Stream, stream};
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::{OciDistributionError, OciErrorCode};
use oci_client::secrets::RegistryAuth;
use oci_client::token_cache::{RegistryToken, RegistryTokenType};
use oci_client::{Client, RegistryOperation};
use patience::TRIES;
use plan::Plan;
use reqwest::Method;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::pin::pin;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const MANIFESTS: [&str; 4] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
/// An index may lead to another one.
const INDEXES_MAX: usize = 4;
const USER_AGENT: &str = concat!("reheap/", env!("CARGO_PKG_VERSION"));
/// The longest life of a token that does not say when it ends. If the registry ends it before, it is renewed.
const TOKEN_SECONDS_MAX: usize = 3600;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Without a single byte.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// How often the wish to stop is looked at.
const TICK: Duration = Duration::from_millis(50);
const PIECE_BYTES: usize = 256 << 10;
/// As much as a person reads of what a server says.
const MESSAGE_CHARS_MAX: usize = 300;

/// The name of an image in a registry.
#[derive(Debug, Clone)]
pub struct Reference(oci_client::Reference);

impl FromStr for Reference {
    type Err = RegistryError;

    fn from_str(text: &str) -> Result<Self, RegistryError> {
        let name = text.strip_prefix("docker://").unwrap_or(text);
        match oci_client::Reference::from_str(name) {
            Ok(reference) => Ok(Self(reference)),
            Err(error) => Err(RegistryError::Name {
                text: text.to_owned(),
                reason: error.to_string(),
            }),
        }
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl Reference {
    /// The registry, as a login names it.
    pub fn registry(&self) -> &str {
        self.0.registry()
    }

    /// The image's name in the registry, without a tag.
    pub fn repository(&self) -> &str {
        self.0.repository()
    }

    /// The tag, if there is one and no digest.
    pub fn tag(&self) -> Option<&str> {
        self.0.tag().filter(|_| self.0.digest().is_none())
    }

    /// Whether it is on this machine, where nobody else reads along.
    fn is_local(&self) -> bool {
        let registry = self.0.resolve_registry();
        let host = match registry.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => registry,
        };
        ["localhost", "127.0.0.1", "[::1]"].contains(&host)
    }

    fn at(&self, digest: &str) -> oci_client::Reference {
        let (registry, repository) = (self.0.registry(), self.0.repository());
        oci_client::Reference::with_digest(
            registry.to_owned(),
            repository.to_owned(),
            digest.to_owned(),
        )
    }
}

/// How a registry is reached.
#[derive(Debug, Clone)]
pub struct Access {
    /// Who asks.
    pub login: Login,
    /// Whom TLS trusts.
    pub certificates: Certificates,
    /// Without TLS, even where it is not this machine.
    pub plain_http: PlainHttp,
}

/// Where plain HTTP is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// On this machine, where nobody reads along.
    OnThisMachine,
    /// Wherever the user says so.
    Everywhere,
}

/// How far it is.
#[derive(Debug, Default)]
pub struct Progress {
    /// The bytes that went over the network.
    pub done_bytes: AtomicU64,
    /// All that will, as far as that is known.
    pub total_bytes: AtomicU64,
    /// The end of a pause, because the registry is busy.
    waits_until: Mutex<Option<Instant>>,
}

impl Progress {
    /// How long it still waits because the registry is busy.
    pub fn waits_for(&self) -> Option<Duration> {
        let until = self.waits_until.lock();
        let until = (*until.unwrap_or_else(PoisonError::into_inner))?;
        Some(until.saturating_duration_since(Instant::now()))
    }
}

/// What a registry has now.
#[derive(Debug)]
pub struct Pushed {
    /// The digest of the manifest or index that the tag names.
    pub digest: String,
    /// How many blobs were sent.
    pub sent: usize,
    /// How many were there already.
    pub present: usize,
}

/// A connection to the registry of an image.
struct Session<'a> {
    client: Client,
    direct: Direct,
    operation: RegistryOperation,
    /// What its requests carry, once it has logged in.
    auth: RefCell<RegistryAuth>,
    reference: &'a Reference,
    login: &'a Login,
    workplace: &'a Workplace<'a>,
    progress: &'a Arc<Progress>,
}

/// Gets an image: its manifest, its configuration and all its layers.
///
/// # Errors
/// When the registry does not give it, or gives something else.
pub fn pull(
    reference: &Reference,
    wanted: Wanted<'_>,
    access: &Access,
    workplace: &Workplace<'_>,
    progress: &Arc<Progress>,
) -> Result<StoredImage, RegistryError> {
    let operation = RegistryOperation::Pull;
    let session = Session::new(reference, operation, access, workplace, progress)?;
    session.run(async {
        session.log_in().await?;
        session.pull(wanted).await
    })
}

/// Brings an image there, whose parts are an OCI layout.
///
/// # Errors
/// When the registry does not take it.
pub fn push(
    parts: &[Part],
    reference: &Reference,
    access: &Access,
    workplace: &Workplace<'_>,
    progress: &Arc<Progress>,
) -> Result<Pushed, RegistryError> {
    if reference.tag().is_none() {
        return Err(RegistryError::Name {
            text: reference.to_string(),
            reason: "an image is pushed to a tag, not to a digest".to_owned(),
        });
    }
    let operation = RegistryOperation::Push;
    let session = Session::new(reference, operation, access, workplace, progress)?;
    session.run(async {
        session.log_in().await?;
        session.push(parts).await
    })
}

impl<'a> Session<'a> {
    fn new(
        reference: &'a Reference,
        operation: RegistryOperation,
        access: &'a Access,
        workplace: &'a Workplace<'a>,
        progress: &'a Arc<Progress>,
    ) -> Result<Self, RegistryError> {
        // Fails only if something has chosen another before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // oci-client first makes a client that trusts the machine's certificates, whatever it is told, and panics where
        // there are none.
        if rustls_native_certs::load_native_certs().certs.is_empty() {
            return Err(RegistryError::NoCertificates);
        }
        let is_plain = access.plain_http == PlainHttp::Everywhere || reference.is_local();
        let trusted = access.certificates.ders()?;
        let (protocol, scheme) = if is_plain {
            (ClientProtocol::Http, "http")
        } else {
            (ClientProtocol::Https, "https")
        };
        let builder = reqwest::Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT);
        let address = format!("{scheme}://{}/", reference.0.resolve_registry());
        let direct = Direct::new(builder, address, &trusted)?;
        let encoding = CertificateEncoding::Der;
        let trusted = trusted.into_iter();
        let config = ClientConfig {
            protocol,
            use_monolithic_push: true,
            tls_certs_only: trusted
                .map(|data| Certificate {
                    encoding: encoding.clone(),
                    data,
                })
                .collect(),
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout: Some(READ_TIMEOUT),
            user_agent: USER_AGENT,
            default_token_expiration_secs: TOKEN_SECONDS_MAX,
            ..ClientConfig::default()
        };
        let client = Client::try_from(config);
        Ok(Self {
            client: client.map_err(|error| RegistryError::Protocol(chain(&error)))?,
            direct,
            operation,
            auth: RefCell::new(RegistryAuth::Anonymous),
            reference,
            login: &access.login,
            workplace,
            progress,
        })
    }

    /// Waits for work, and for the wish to stop.
    fn run<T>(
        &self,
        work: impl Future<Output = Result<T, RegistryError>>,
    ) -> Result<T, RegistryError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ImageError::io("wait in", Path::new("a registry's client")))?;
        let stop = async {
            while self.workplace.go_on().is_ok() {
                tokio::time::sleep(TICK).await;
            }
        };
        let result = runtime.block_on(async {
            match select(pin!(work), pin!(stop)).await {
                Either::Left((result, _)) => result,
                Either::Right(_) => Err(RegistryError::Interrupted),
            }
        });
        // A name is looked up on another thread, which may take long and serves nobody any more.
        runtime.shutdown_background();
        result
    }

    /// Does something again while the registry is busy, or when it ended a token.
    async fn patiently<T>(
        &self,
        what: &str,
        mut attempt: impl AsyncFnMut() -> Result<T, Trouble>,
    ) -> Result<T, RegistryError> {
        let mut tries = 1;
        let mut is_renewed = false;
        loop {
            let error = match attempt().await {
                Ok(result) => return Ok(result),
                Err(Trouble::Ours(error)) => return Err(error),
                Err(Trouble::Theirs(error)) => error,
            };
            match self.explained(&error, what) {
                RegistryError::Busy { code } if tries < TRIES => {
                    self.wait(tries, &error, code).await?;
                    tries += 1;
                    is_renewed = false; // a token may have ended meanwhile
                }
                RegistryError::Unauthorized { .. } if !is_renewed && self.renew(&error).await? => {
                    is_renewed = true;
                }
                trouble => return Err(trouble),
            }
        }
    }

    /// Shows the registry again who asks, which refused a request: a token may have ended, or it tells only now that it
    /// wants a login. Whether that changes anything.
    async fn renew(&self, error: &OciDistributionError) -> Result<bool, RegistryError> {
        if matches!(*self.auth.borrow(), RegistryAuth::Basic(..)) {
            return Ok(false);
        }
        let refused = match self.operation {
            RegistryOperation::Push => Some(self.direct.upload(&self.reference.0)),
            RegistryOperation::Pull => address(error).map(|url| (Method::HEAD, url)),
        };
        let renewed = self.authorize(refused).await;
        renewed.map_err(|error| self.explained(&error, "login"))?;
        Ok(!matches!(*self.auth.borrow(), RegistryAuth::Anonymous))
    }

    /// Waits before the next try, unless the registry asks for a longer pause than anybody waits.
    async fn wait(
        &self,
        tries: u32,
        error: &OciDistributionError,
        code: u16,
    ) -> Result<(), RegistryError> {
        let asked = match address(error) {
            Some(url) => {
                let auth = self.auth.borrow().clone();
                self.direct.retry_after(&url, &auth).await
            }
            None => None,
        };
        let wait = patience::pause(tries, asked);
        if wait > patience::WAIT_MAX {
            return Err(RegistryError::BusyForLong { code, wait });
        }
        patience::wait(wait, self.progress).await;
        Ok(())
    }

    async fn log_in(&self) -> Result<(), RegistryError> {
        self.patiently("login", async || Ok(self.authorize(None).await?))
            .await
    }

    /// Shows the registry who asks, as it wants it, or as it wants it for a request that it refused.
    async fn authorize(
        &self,
        refused: Option<(Method, String)>,
    ) -> Result<(), OciDistributionError> {
        use RegistryOperation::{Pull, Push};
        let reference = &self.reference.0;
        let rights = match self.operation {
            Pull => "pull",
            Push => "pull,push",
        };
        let scope = format!("repository:{}:{rights}", reference.repository());
        let auth = self.direct.authorize(self.login, &scope, refused).await?;
        let token = match auth.clone() {
            RegistryAuth::Anonymous => None,
            RegistryAuth::Basic(user, password) => Some(RegistryTokenType::Basic(user, password)),
            RegistryAuth::Bearer(token) => {
                Some(RegistryTokenType::Bearer(RegistryToken::Token { token }))
            }
        };
        let registry = reference.resolve_registry();
        self.client.store_auth_if_needed(registry, &auth).await;
        for (operation, token) in [(Pull, token.clone()), (Push, token)] {
            if let Some(token) = token {
                let tokens = &self.client.tokens;
                tokens.insert(reference, operation, token).await;
            }
        }
        self.auth.replace(auth);
        Ok(())
    }

    async fn pull(&self, wanted: Wanted<'_>) -> Result<StoredImage, RegistryError> {
        let mut reference = self.reference.0.clone();
        let mut expected = reference.digest().map(str::to_owned);
        let mut others = Vec::new();
        for _ in 0..INDEXES_MAX {
            let what = format!("image {}", self.reference);
            let bytes = self
                .patiently(&what, async || {
                    let auth = self.auth.borrow().clone();
                    Ok(self.direct.manifest(&reference, &auth).await?)
                })
                .await?;
            let blob = match &expected {
                Some(digest) => read::checked(bytes.clone(), digest)?,
                None => Blob::of_bytes(bytes.clone()),
            };
            let (document, media_type) = read::document(&bytes)?;
            let parts = match document {
                Document::Index(index) => {
                    let chosen = read::choose(&index, wanted)?;
                    others.extend(chosen.others);
                    reference = self.reference.at(&chosen.descriptor.digest);
                    expected = Some(chosen.descriptor.digest);
                    continue;
                }
                Document::Image(parts) => parts,
            };
            read::check_types(&parts)?;
            let sizes = parts.layers.iter().map(|layer| layer.size);
            let total = sizes.fold(parts.config.size, u64::saturating_add);
            self.progress.total_bytes.store(total, Ordering::Relaxed);
            let configuration = self.pull_small(&parts.config).await?;
            let mut layers = Vec::new();
            for layer in &parts.layers {
                let (file, size) = self.pull_blob(layer).await?;
                let stored =
                    crate::blob::Region::new(Arc::new(file), 0, size).map_err(ReadError::from)?;
                layers.push(read::stored_layer(layer, stored, wanted)?);
            }
            let mut image = StoredImage {
                form: Form::Oci,
                manifest: Some(Manifest { media_type, blob }),
                configuration,
                layers,
                names: vec![self.reference.to_string()],
                annotations: BTreeMap::new(),
                others,
            };
            read::finish(&mut image, wanted)?;
            return Ok(image);
        }
        Err(ReadError::LinkLoop(self.reference.to_string()).into())
    }

    async fn pull_small(&self, descriptor: &Descriptor) -> Result<Blob, RegistryError> {
        if descriptor.size > SMALL_BYTES_MAX {
            let reason = format!("it has {} bytes", descriptor.size);
            let what = "configuration";
            return Err(ReadError::Damaged { what, reason }.into());
        }
        let (file, size) = self.pull_blob(descriptor).await?;
        let region = crate::blob::Region::new(Arc::new(file), 0, size).map_err(ReadError::from)?;
        let bytes = region.beginning(SMALL_BYTES_MAX).map_err(ReadError::from)?;
        Ok(read::checked(bytes, &descriptor.digest)?)
    }

    async fn pull_blob(&self, descriptor: &Descriptor) -> Result<(File, u64), RegistryError> {
        let before = self.progress.done_bytes.load(Ordering::Relaxed);
        self.patiently(&format!("blob {}", descriptor.digest), async || {
            self.progress.done_bytes.store(before, Ordering::Relaxed);
            self.pull_blob_once(descriptor).await
        })
        .await
    }

    async fn pull_blob_once(&self, descriptor: &Descriptor) -> Result<(File, u64), Trouble> {
        let Descriptor { digest, size, .. } = descriptor;
        let mut to = Hashed::new(self.workplace.file().map_err(RegistryError::from)?);
        let reference = &self.reference.0;
        let auth = self.auth.borrow().clone();
        let mut answer = self.direct.blob(reference, digest, &auth).await?;
        let mut got = 0;
        let mut end = Ok(());
        while let Some(piece) = answer.chunk().await.transpose() {
            match piece {
                Ok(piece) => {
                    got += piece.len() as u64;
                    if got > *size {
                        break;
                    }
                    let cannot = ImageError::io("write", Path::new("a layer"));
                    to.write_all(&piece)
                        .map_err(|error| RegistryError::from(cannot(error)))?;
                    let done = &self.progress.done_bytes;
                    done.fetch_add(piece.len() as u64, Ordering::Relaxed);
                }
                Err(error) => {
                    end = Err(error);
                    break;
                }
            }
        }
        let (file, found, _) = to.finish();
        if got < *size {
            return Err(RegistryError::CutOff {
                digest: digest.clone(),
                expected: *size,
                got,
            }
            .into());
        }
        if got > *size || found.as_ref() != digest {
            return Err(RegistryError::from(ReadError::Digest {
                expected: digest.clone(),
                found: if got > *size {
                    format!("longer than {size} bytes")
                } else {
                    found.to_string()
                },
            })
            .into());
        }
        end.map_err(|error| RegistryError::Protocol(chain(&error)))?;
        Ok((file, got))
    }

    async fn push(&self, parts: &[Part]) -> Result<Pushed, RegistryError> {
        let plan = Plan::of_layout(parts)?;
        let total = plan.blobs.values().map(|blob| blob.size_bytes()).sum();
        self.progress.total_bytes.store(total, Ordering::Relaxed);
        let (mut sent, mut present) = (0, 0);
        for (digest, blob) in &plan.blobs {
            if self.has(digest).await? {
                present += 1;
            } else {
                self.push_blob(digest, blob).await?;
                sent += 1;
            }
            let size = blob.size_bytes();
            self.progress.done_bytes.fetch_add(size, Ordering::Relaxed);
        }
        for (media_type, blob) in &plan.manifests {
            let digest = blob.digest().to_string();
            self.push_manifest(&self.reference.at(&digest), media_type, blob)
                .await?;
        }
        let (media_type, top) = &plan.top;
        self.push_manifest(&self.reference.0, media_type, top)
            .await?;
        Ok(Pushed {
            digest: top.digest().to_string(),
            sent,
            present,
        })
    }

    async fn has(&self, digest: &str) -> Result<bool, RegistryError> {
        self.patiently(
            &format!("repository {}", self.reference.0.repository()),
            async || Ok(self.client.blob_exists(&self.reference.0, digest).await?),
        )
        .await
    }

    async fn push_blob(&self, digest: &str, blob: &Blob) -> Result<(), RegistryError> {
        self.patiently(
            &format!("repository {}", self.reference.0.repository()),
            async || {
                let (reference, size) = (&self.reference.0, Some(blob.size_bytes()));
                self.client
                    .push_blob_stream(reference, pieces(blob.clone()), digest, size)
                    .await?;
                Ok(())
            },
        )
        .await
    }

    async fn push_manifest(
        &self,
        reference: &oci_client::Reference,
        media_type: &str,
        blob: &Blob,
    ) -> Result<(), RegistryError> {
        let bytes = blob.bytes().map_err(ReadError::from)?;
        let media_type = http::HeaderValue::from_str(media_type)
            .map_err(|error| RegistryError::Protocol(error.to_string()))?;
        self.patiently(
            &format!("repository {}", reference.repository()),
            async || {
                let manifest = (bytes.clone(), media_type.clone());
                self.client
                    .push_manifest_raw(reference, manifest.0, manifest.1)
                    .await?;
                Ok(())
            },
        )
        .await
    }

    /// What an error of the client means.
    fn explained(&self, error: &OciDistributionError, what: &str) -> RegistryError {
        use OciDistributionError as E;
        match error {
            E::UnauthorizedError { .. } | E::AuthenticationFailure(_) => self.unauthorized(),
            E::ImageManifestNotFoundError(_) => RegistryError::NotFound(what.to_owned()),
            E::ServerError { code, message, .. } => self.of_status(*code, message, what),
            E::RegistryError { envelope, .. } => match envelope.errors.first() {
                None => RegistryError::Protocol(chain(error)),
                Some(first) => match &first.code {
                    OciErrorCode::Unauthorized | OciErrorCode::Denied => self.unauthorized(),
                    OciErrorCode::Toomanyrequests => RegistryError::Busy { code: 429 },
                    OciErrorCode::ManifestUnknown
                    | OciErrorCode::NameUnknown
                    | OciErrorCode::BlobUnknown
                    | OciErrorCode::NotFound => RegistryError::NotFound(what.to_owned()),
                    _ => RegistryError::Protocol(short(&first.message)),
                },
            },
            E::RequestError(request) => match request.status() {
                Some(status) => self.of_status(status.as_u16(), "", what),
                None => RegistryError::Connection {
                    to: host(request)
                        .unwrap_or_else(|| self.reference.0.resolve_registry().to_owned()),
                    reason: chain(request.source().unwrap_or(request)),
                },
            },
            other => RegistryError::Protocol(chain(other)),
        }
    }

    fn of_status(&self, code: u16, message: &str, what: &str) -> RegistryError {
        match code {
            401 | 403 => self.unauthorized(),
            404 => RegistryError::NotFound(what.to_owned()),
            429 | 502..=504 => RegistryError::Busy { code },
            _ => RegistryError::Server {
                code,
                message: short(message),
            },
        }
    }

    fn unauthorized(&self) -> RegistryError {
        RegistryError::Unauthorized {
            as_user: match self.login {
                Login::Anonymous => None,
                Login::Password { user, .. } => Some(user.clone()),
                Login::IdentityToken(_) => Some("the owner of the identity token".to_owned()),
            },
        }
    }
}

/// What ends a try.
enum Trouble {
    /// Something that the client says.
    Theirs(OciDistributionError),
    /// Something that another try does not change.
    Ours(RegistryError),
}

impl From<OciDistributionError> for Trouble {
    fn from(error: OciDistributionError) -> Self {
        Self::Theirs(error)
    }
}

impl From<RegistryError> for Trouble {
    fn from(error: RegistryError) -> Self {
        Self::Ours(error)
    }
}

/// What the request was about.
fn address(error: &OciDistributionError) -> Option<String> {
    use OciDistributionError as E;
    match error {
        E::ServerError { url, .. }
        | E::RegistryError { url, .. }
        | E::UnauthorizedError { url } => Some(url.clone()),
        E::RequestError(error) => Some(error.url()?.to_string()),
        _ => None,
    }
}

/// Whom a request was for: logins and blobs may be elsewhere than the registry.
fn host(error: &reqwest::Error) -> Option<String> {
    let url = error.url()?;
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// A blob in pieces.
fn pieces(blob: Blob) -> impl Stream<Item = Result<Bytes, OciDistributionError>> + Send + 'static {
    stream::try_unfold((blob, 0_u64), async |(blob, offset)| {
        let mut piece = vec![0; PIECE_BYTES];
        let count = blob.read_at(&mut piece, offset)?;
        piece.truncate(count);
        Ok(match count {
            0 => None,
            _ => Some((Bytes::from(piece), (blob, offset + count as u64))),
        })
    })
}

/// An error and what it comes from: the client says only "error sending request".
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    short(&text)
}

fn short(message: &str) -> String {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None if line.is_empty() => "nothing more".to_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_a_registry_and_only_this_machine_needs_no_tls() {
        let of = |text: &str| text.parse::<Reference>().unwrap();
        assert_eq!(
            of("docker://alpine").to_string(),
            "docker.io/library/alpine:latest"
        );
        assert_eq!(of("ghcr.io/a/b:1").registry(), "ghcr.io");
        assert!("docker://Ä".parse::<Reference>().is_err());
        for (name, is_local) in [
            ("localhost/a", true),
            ("localhost:5000/a", true),
            ("127.0.0.1:5000/a", true),
            ("127.0.0.1.example.org/a", false),
            ("ghcr.io/localhost", false),
        ] {
            assert_eq!(of(name).is_local(), is_local, "{name}");
        }
        let by_digest = format!("ghcr.io/a/b@sha256:{}", "0".repeat(64));
        assert_eq!(of(&by_digest).tag(), None);
    }
}
