//! Registries for tests: Debian's, and servers that answer what a test says.

use super::command::{EVENT_DEADLINE, Running, try_until};
use super::workshop::{Workshop, append};
use reheap_image::blob::Blob;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

/// Debian's registry on this machine, with one user.
pub(crate) struct Registry {
    running: Option<Running>,
    pub(crate) host: String,
    _workshop: Workshop,
}

impl Registry {
    pub(crate) fn start() -> Self {
        let workshop = Workshop::new();
        let host = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .to_string();
        // The password is `secret`.
        let users = "user:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
        let users = workshop.write("users", users);
        let settings = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {host}\n\
             auth:\n  htpasswd:\n    realm: test\n    path: {}\n",
            workshop.path("data").display(),
            users.display()
        );
        let settings = workshop.write("settings.yml", settings);
        let running = Running::start(Command::new("docker-registry").arg("serve").arg(settings));
        try_until("docker-registry", running.pid(), || {
            TcpStream::connect(&host)
        });
        Self {
            running: Some(running),
            host,
            _workshop: workshop,
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let running = self.running.take().unwrap();
        let _ = kill_process(running.pid(), Signal::TERM);
        running.finish(EVENT_DEADLINE);
    }
}

/// What the server of a test answers.
#[derive(Clone, Default)]
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
    /// Says that there is more.
    pub(crate) missing_bytes: usize,
    /// Keeps the connection open after that.
    pub(crate) stalls: bool,
}

impl Answer {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: "200 OK",
            body: body.into(),
            ..Self::default()
        }
    }

    pub(crate) fn error(status: &'static str) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }
}

/// What a server is asked.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) host: String,
    pub(crate) authorization: String,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn read(connection: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(connection);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split(' ').map(str::to_owned);
        let mut request = Self {
            method: words.next()?,
            path: words.next()?,
            ..Self::default()
        };
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            match name.to_lowercase().as_str() {
                "host" => request.host = value.to_owned(),
                "authorization" => request.authorization = value.to_owned(),
                "content-length" => length = value.parse().ok()?,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        request.body = String::from_utf8_lossy(&body).into_owned();
        Some(request)
    }
}

/// A server that answers requests one after the other, and says what it was asked.
pub(crate) fn serve(
    mut answer: impl FnMut(&Request) -> Answer + Send + 'static,
) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (asked, paths) = mpsc::channel();
    thread::spawn(move || {
        let mut stalled = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let Some(request) = Request::read(&connection) else {
                continue;
            };
            let answer = answer(&request);
            let length = answer.body.len() + answer.missing_bytes;
            let head = format!(
                "HTTP/1.1 {}\r\nContent-Length: {length}\r\nConnection: close\r\n{}\r\n",
                answer.status, answer.headers
            );
            let _ = connection.write_all(head.as_bytes());
            let _ = connection.write_all(&answer.body);
            if answer.stalls {
                stalled.push(connection);
            }
            let _ = asked.send(request.path); // the test may be over
        }
    });
    (host, paths)
}

/// An image in a registry that does not behave.
pub(crate) struct Bad {
    pub(crate) manifest: String,
    pub(crate) configuration: String,
    pub(crate) layer: Vec<u8>,
}

impl Bad {
    pub(crate) fn new() -> Self {
        let mut layer = tar::Builder::new(Vec::new());
        append(&mut layer, "a", 0o644, b"a");
        let layer = layer.into_inner().unwrap();
        let named = |media_type: &str, bytes: &[u8]| {
            let digest = Blob::of_bytes(bytes.to_vec()).digest().to_string();
            json!({"mediaType": media_type, "size": bytes.len(), "digest": digest})
        };
        let of_layer = named("application/vnd.oci.image.layer.v1.tar", &layer);
        let configuration = json!({
            "architecture": "amd64", "os": "linux", "rootfs": {"diff_ids": [of_layer["digest"]]},
        });
        let configuration = configuration.to_string();
        let of_configuration = named(
            "application/vnd.oci.image.config.v1+json",
            configuration.as_bytes(),
        );
        let manifest =
            json!({"schemaVersion": 2, "config": of_configuration, "layers": [of_layer]});
        Self {
            manifest: manifest.to_string(),
            configuration,
            layer,
        }
    }

    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let path = request.path.as_str();
        let is = |bytes: &[u8]| path.ends_with(Blob::of_bytes(bytes.to_vec()).digest().as_ref());
        match () {
            () if path == "/v2/" => Answer::ok("{}"),
            () if path.contains("/manifests/") => Answer::ok(self.manifest.clone()),
            () if is(self.configuration.as_bytes()) => Answer::ok(self.configuration.clone()),
            () if is(&self.layer) => Answer::ok(self.layer.clone()),
            () => Answer::error("404 Not Found"),
        }
    }
}
