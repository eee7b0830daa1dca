//! Images in registries: what comes from there and what goes there, and registries that do not behave.

mod common;

use common::command::{EVENT_DEADLINE, Running, try_until};
use common::run;
use common::workshop::{Workshop, append};
use reheap_image::blob::Blob;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc;
use std::thread;

/// Debian's registry on this machine, with one user.
struct Registry {
    running: Option<Running>,
    host: String,
    _workshop: Workshop,
}

impl Registry {
    fn start() -> Self {
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

#[test]
fn an_image_goes_to_a_registry_and_comes_back() {
    let workshop = Workshop::new();
    let registry = Registry::start();
    let name = format!("{}/team/cat", registry.host);
    workshop.made("/bin/cat --with-libraries -o base.tar");
    let line = format!("--add mimalloc base.tar --push {name}:1");
    run(&mut workshop.image(&line))
        .ended_with(1)
        .said(&["refuses access without a login", "docker login"]);
    let login = |auth: &str| {
        let host = &registry.host;
        workshop.write(
            "auth.json",
            json!({"auths": {host: {"auth": auth}}}).to_string(),
        )
    };
    login("dXNlcjp3cm9uZw=="); // user:wrong
    run(&mut workshop.image(&line))
        .ended_with(1)
        .said(&["refuses access to user"]);
    login("dXNlcjpzZWNyZXQ="); // user:secret
    let pushed = workshop.made(&line);
    assert_eq!(pushed["pushed_to"], format!("{name}:1"));
    let flags = "--tls-verify=false --creds user:secret";
    let remote = workshop
        .tool(&format!("skopeo inspect --raw {flags} docker://{name}:1"))
        .stdout;
    assert_eq!(
        Blob::of_bytes(remote.into_bytes()).digest().to_string(),
        pushed["digest"]
    );

    // From registry to registry, and from there into a file.
    workshop.made(&format!(
        "--remove docker://{name}:1 --push {name}:2 -o removed.tar"
    ));
    assert_eq!(
        workshop.manifest_digest("oci-archive:removed.tar"),
        workshop.manifest_digest("oci-archive:base.tar")
    );
    let by_digest = format!(
        "--remove {name}@{} -o by-digest.tar",
        pushed["digest"].as_str().unwrap()
    );
    assert_eq!(workshop.made(&by_digest)["restored"], true);
    run(&mut workshop.image(&format!("--remove {name}:none -o x.tar")))
        .ended_with(1)
        .said(&["has no image"]);
    workshop.made(&format!("/bin/cat --with-libraries --push {name}:3"));
    let other = workshop
        .tool(&format!("skopeo inspect --raw {flags} docker://{name}:3"))
        .stdout;
    assert!(
        other.contains("application/vnd.oci.image.manifest.v1+json"),
        "{other}"
    );
}

/// What the server of a test answers.
#[derive(Clone, Default)]
struct Answer {
    status: &'static str,
    headers: String,
    body: Vec<u8>,
    /// Says that there is more.
    missing_bytes: usize,
    /// Keeps the connection open after that.
    stalls: bool,
}

impl Answer {
    fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: "200 OK",
            body: body.into(),
            ..Self::default()
        }
    }

    fn error(status: &'static str) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }
}

/// A server that answers by the path of the request, and says what it was asked.
fn serve(answer: impl Fn(&str) -> Answer + Send + 'static) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (asked, paths) = mpsc::channel();
    thread::spawn(move || {
        let mut stalled = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut lines = BufReader::new(connection.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else {
                continue;
            };
            for line in lines.by_ref() {
                if line.unwrap_or_default().is_empty() {
                    break;
                }
            }
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let answer = answer(&path);
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
            let _ = asked.send(path); // the test may be over
        }
    });
    (host, paths)
}

/// An image in a registry that does not behave.
struct Bad {
    manifest: String,
    configuration: String,
    layer: Vec<u8>,
}

impl Bad {
    fn new() -> Self {
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

    fn answer(&self, path: &str) -> Answer {
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

#[test]
fn a_registry_that_does_not_behave_gets_a_clear_error_and_leaves_nothing() {
    let pulled = |answer: Box<dyn Fn(&str) -> Answer + Send>| {
        let workshop = Workshop::new();
        let (host, _paths) = serve(answer);
        let outcome =
            run(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar"))).ended_with(1);
        assert_eq!(workshop.names(), [""; 0]);
        outcome
    };
    let of_blobs = |change: fn(&mut Answer)| -> Box<dyn Fn(&str) -> Answer + Send> {
        let bad = Bad::new();
        Box::new(move |path: &str| {
            let mut answer = bad.answer(path);
            if answer.body == bad.layer {
                change(&mut answer);
            }
            answer
        })
    };
    pulled(of_blobs(|_| {})).said(&["reheap has added nothing to it"]);
    pulled(of_blobs(|answer| {
        answer.body.truncate(700);
        answer.missing_bytes = 9540;
    }))
    .said(&["sent 700 of the", "bytes of sha256:"]);
    pulled(of_blobs(|answer| answer.body.truncate(700))).said(&["sent 700 of the"]);
    pulled(of_blobs(|answer| answer.body[0] ^= 1))
        .said(&["the image is damaged: what it calls sha256:"]);
    pulled(of_blobs(|answer| answer.body.extend([0; 512]))).said(&["is longer than"]);
    pulled(Box::new(|path: &str| match path {
        "/v2/" => Answer::ok("{}"),
        _ => Answer::error("404 Not Found"),
    }))
    .said(&["the registry has no image 127.0.0.1"]);
    pulled(Box::new(|_: &str| Answer::error("401 Unauthorized")))
        .said(&["refuses access without a login"]);
    pulled(Box::new(|_: &str| {
        Answer::error("500 Internal Server Error")
    }))
    .said(&["HTTP 500"]);
    pulled(Box::new(|path: &str| match path {
        "/v2/" => Answer::ok("{}"),
        _ => Answer::ok("{\"schemaVersion\":1}"),
    }))
    .said(&["schema 1"]);
}

#[test]
fn a_registry_without_time_is_asked_again() {
    let bad = Bad::new();
    let refused = std::sync::atomic::AtomicUsize::new(0);
    let (host, _paths) = serve(move |path| {
        let is_early = refused.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1;
        match is_early {
            true => Answer::error("429 Too Many Requests"),
            false => bad.answer(path),
        }
    });
    let workshop = Workshop::new();
    run(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar")))
        .ended_with(1)
        .said(&["reheap has added nothing to it"]);
}

#[test]
fn ctrl_c_ends_a_pull_and_leaves_nothing() {
    let bad = Bad::new();
    let (host, paths) = serve(move |path| {
        let mut answer = bad.answer(path);
        if answer.body == bad.layer {
            answer.body.truncate(700);
            answer.missing_bytes = 9540;
            answer.stalls = true;
        }
        answer
    });
    let workshop = Workshop::new();
    let running = Running::start(&mut workshop.image(&format!("--remove {host}/app:1 -o out.tar")));
    // The login, the manifest, the configuration, the layer.
    for _ in 0..4 {
        paths
            .recv_timeout(EVENT_DEADLINE)
            .expect("it asks for all parts");
    }
    kill_process(running.pid(), Signal::INT).unwrap();
    let outcome = running.finish(EVENT_DEADLINE);
    outcome.ended_with(130).said(&["interrupted"]);
    assert_eq!(workshop.names(), [""; 0]);
}
